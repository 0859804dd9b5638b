"""One run by its key: found in whatever is left of it, and trained again to the last bit."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from expograph import cli
from expograph.config import Run, load
from expograph.runs import again, lookup, store
from expograph.runs.pool import sweep

CONFIG = """
name = "small"
[run]
nodes = 4
algorithm = "dsgd_atc"
steps = 20
record_every = 5
evaluate_every = 5
lr = 0.1
[run.problem]
kind = "logistic"
[[sweep]]
topology = ["ring", "star"]
seed = [0, 1]
[table]
title = "Small"
metrics = ["error_workers"]
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> Path:
    """A folder with configs/small.toml and its results."""
    place = tmp_path_factory.mktemp("swept")
    (place / "configs").mkdir()
    (place / "configs" / "small.toml").write_text(CONFIG)
    words = [str(place / "configs/small.toml"), "--results", str(place / "results")]
    assert cli.main(["sweep", *words, "--jobs", "1"]) == 0
    return place


@pytest.fixture
def place(swept, tmp_path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "place"))


@pytest.fixture
def run(place):
    return load(place / "configs/small.toml").runs[0]


def command(place: Path, capsys, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    where = ["--results", str(place / "results"), "--configs", str(place / "configs")]
    status = cli.main(["run", *words, *where])
    out, error = capsys.readouterr()
    return status, out, error


def clone(place: Path) -> None:
    """Leave what git has."""
    shutil.rmtree(place / "results" / "runs")


def test_a_run_is_shown_with_config_origin_metrics_and_curve(place, run, capsys):
    status, out, _ = command(place, capsys, run.key[:12])
    assert status == 0
    content = json.loads((store.folder(run, place / "results") / "run.json").read_text())
    assert run.label in out
    assert "configs/small.toml" in "".join(out.split()) and "small" in out
    assert content["provenance"]["code"] in out
    assert f"{content['final']['error_workers']:.8g}" in out
    title, *_ = [line for line in out.splitlines() if "step" not in line and "error_wor" in line][
        1:
    ]
    assert title.strip() == "error_workers"  # of the plot: the first metric of its table
    assert "train_loss" in command(place, capsys, run.key, "--metric", "train_loss")[1]


def test_it_is_found_in_whatever_is_left_of_it(place, run):
    root, experiments = place / "results", [load(place / "configs/small.toml")]
    whole = lookup.find(run.key, root, experiments)
    assert whole.source == store.folder(run, root) / "run.json" and whole.folders == ["small"]
    clone(place)
    recorded = lookup.find(run.key, root, experiments)
    assert recorded.source.name == "records.jsonl.gz"
    assert recorded.run == whole.run == run and recorded.final == whole.final
    assert recorded.curve["step"].tolist() == [0, 5, 10, 15, 20]
    (root / "small" / "records.jsonl.gz").unlink()
    listed = lookup.find(run.key, root, experiments)
    assert listed.source.name == "runs.csv" and listed.run == run and listed.curve is None
    for name, value in listed.final.items():
        assert value == pytest.approx(whole.final[name], rel=1e-7), name
    assert set(listed.final) == set(whole.final)
    unknown = lookup.find(run.key, root)  # its config is in no file
    assert unknown.run is None and unknown.config["topology"] == "ring"


def test_damaged_files_of_a_run_are_passed_over(place, run):
    root = place / "results"
    (store.folder(run, root) / "metrics.csv").write_text("step\n0\n")
    assert lookup.find(run.key, root).source.name == "records.jsonl.gz"


@pytest.mark.parametrize("left", ["all", "records", "summary"])
def test_trained_again_it_is_bit_identical(place, run, left, capsys):
    if left != "all":
        clone(place)
    if left == "summary":
        (place / "results" / "small" / "records.jsonl.gz").unlink()
    before = sorted(place.rglob("*"))
    status, out, _ = command(place, capsys, run.key, "--again")
    assert status == 0 and "bit-identical" in out
    assert sorted(place.rglob("*")) == before  # nothing is written


def test_what_is_another_number_is_found_and_measured(place, run, capsys):
    clone(place)
    path = place / "results" / "small" / "records.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    record = next(line for line in lines if line["key"] == run.key)
    record["final"]["error_workers"] *= 1.01
    record["curve"]["train_loss"][2] *= 1 + 1e-6
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    status, out, _ = command(place, capsys, run.key, "--again")
    assert status == 1
    assert "differs: 2 of" in out and "largest relative difference 0.0099" in out
    trace = lookup.find(run.key, place / "results")
    changes = {c.metric: c for c in again.compare(trace, again.train_again(run, 1)) if c.relative}
    assert changes["error_workers"].relative == pytest.approx(0.01 / 1.01)
    assert changes["error_workers"].step is None
    assert changes["train_loss"].relative == pytest.approx(1e-6, rel=0.01)
    assert changes["train_loss"].step == 10


def test_a_run_that_diverges_does_so_again(place, capsys):
    config = place / "configs" / "wild.toml"
    wild = CONFIG.replace('"small"', '"wild"').replace('"logistic"', '"least_squares"')
    config.write_text(wild.replace("lr = 0.1", "lr = 1e6").replace("steps = 20", "steps = 500"))
    (first, *_) = load(config).runs
    assert sweep([first], place / "results", jobs=1).diverged
    status, out, _ = command(place, capsys, first.key, "--again")
    assert status == 0 and "bit-identical" in out


def test_keys_that_name_no_run_or_several_are_refused_in_one_line(place, capsys):
    keys = [run.key for run in load(place / "configs/small.toml").runs]
    unused = next(d for d in "0123456789abcdef" if not any(key.startswith(d) for key in keys))
    for key, said in {"../..": "not a key", "f" * 17: "not a key", unused: "no run has"}.items():
        status, _, error = command(place, capsys, key)
        assert status == 2 and said in error and error.count("\n") == 1
    status, _, error = command(place, capsys, keys[0], "--metric", "train_los")
    assert status == 2 and "did you mean 'train_loss'?" in error and error.count("\n") == 1
    summary = place / "results/small/runs.csv"
    head, *rows = summary.read_text().splitlines()
    alike = [f"abc{i}{row[4:]}" for i, row in enumerate(rows)]  # four keys that begin so
    summary.write_text("\n".join([head, *alike]) + "\n")
    summary.with_name("provenance.json").unlink()  # it knows the old one's checksum
    status, _, error = command(place, capsys, "abc")
    assert status == 2 and error.count("\n") == 1
    assert "ambiguous: abc0" in error and "and 1 more" in error


def test_a_run_that_is_not_done_names_the_command_that_does_it(place, capsys):
    config = place / "configs" / "later.toml"
    config.write_text(CONFIG.replace('"small"', '"later"').replace("lr = 0.1", "lr = 0.2"))
    status, _, error = command(place, capsys, load(config).runs[0].key)
    assert status == 2 and error.count("\n") == 1
    assert "is not done" in error and f"`expograph sweep {config}` does it" in error


def test_runs_of_mpi_engines_are_shown_and_not_done_again(place, run, capsys):
    root = place / "results"
    of_mpi = Run.model_validate({**run.model_dump(), "engine": "mpi"})
    there = Path(shutil.copytree(store.folder(run, root), store.folder(of_mpi, root)))
    content = json.loads((there / "run.json").read_text())
    content |= {"key": of_mpi.key, "run": of_mpi.model_dump()}
    (there / "run.json").write_text(json.dumps(content))
    status, out, _ = command(place, capsys, of_mpi.key)
    assert status == 0 and "mpi" in out
    status, _, error = command(place, capsys, of_mpi.key, "--again")
    assert status == 2
    assert "ranks of mpi" in error and error.count("\n") == 1
