"""What says nothing new is not written again, and what was damaged is."""

import json
import shutil
from pathlib import Path

import pytest
from test_sweep_faults import config_of

from expograph import cli
from expograph.runs import store


@pytest.fixture
def done(tmp_path, monkeypatch):
    """A small sweep's words, its folder of tables, and what lies there."""
    words = ["train", str(config_of(tmp_path)), "--jobs", "1", "--results", str(tmp_path / "r")]
    assert cli.main(words) == 0
    return words, tmp_path / "r" / "faulty"


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_the_same_numbers_are_not_written_again(done):
    words, folder = done
    before = files(folder)
    assert cli.main(words) == 0  # used again
    assert files(folder) == before
    shutil.rmtree(folder.parent / "runs")
    assert cli.main(words) == 0  # trained again: other seconds, another commit perhaps
    assert files(folder) == before


def test_other_numbers_are_written(done):
    words, folder = done
    before = files(folder)
    config = Path(words[1])
    config.write_text(config.read_text().replace("lr = 0.1", "lr = 0.2"))
    assert cli.main(words) == 0
    changed = {name for name, content in files(folder).items() if content != before[name]}
    assert changed == {*before}
    assert json.loads((folder / "provenance.json").read_text())["files"].keys() == {*before} - {
        "provenance.json"
    }


@pytest.mark.parametrize("name", ["runs.csv", "curves.csv", "seeds.csv", "table.json", "table.md"])
def test_a_damaged_file_is_written_again(done, name):
    words, folder = done
    before = (folder / name).read_bytes()
    (folder / name).write_bytes(before.replace(b"1", b"2", 1))
    assert cli.main(words) == 0
    assert (folder / name).read_bytes().replace(b"2", b"1") == before.replace(b"2", b"1")
    (folder / name).unlink()
    assert cli.main(words) == 0
    assert (folder / name).is_file()


@pytest.mark.parametrize("name", ["runs.csv", "table.json"])
def test_a_flipped_digit_is_noticed_by_who_reads_it(done, name, capsys):
    words, folder = done
    shutil.rmtree(store.runs_folder(folder.parent))
    path = folder / name
    path.write_bytes(path.read_bytes().replace(b"0.1", b"0.2", 1).replace(b".", b"5.", 1))
    key = json.loads((folder / "table.json").read_text().replace("5.", "."))
    key = key["tables"][0]["rows"][0]["cells"][0]["runs"][0]
    capsys.readouterr()
    reader = ["run", key] if name == "runs.csv" else ["table", words[1]]
    assert cli.main([*reader, "--results", str(folder.parent)]) == 2
    error = capsys.readouterr().err
    assert f"faulty/{name}: not as it was written" in error and error.count("\n") == 1
