"""Whose a folder of the results is: one config's, one engine's, one variation's."""

import json
from pathlib import Path

import pytest

from expograph import cli
from expograph.config import ConfigError, load
from expograph.runs.destination import check_names, name_of_results, variation

CONFIG = """
name = "ours"
[run]
topology = "ring"
nodes = 4
algorithm = "dsgd_atc"
steps = 20
lr = 0.1
[run.problem]
kind = "logistic"
[table]
title = "Ours"
metrics = ["error_workers"]
"""


def config_of(folder: Path, name: str = "ours", file: str = "ours.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(CONFIG.replace('"ours"', f'"{name}"'))
    return folder / file


def made_by(root: Path, name: str, config: str) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "provenance.json").write_text(json.dumps({"config": config}))


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "ours"),
        (["engine=mpi"], "ours_mpi"),
        (["run.engine=mpi"], "ours_mpi"),
        (["engine=embedded"], "ours"),
        (["lr=0.2"], "custom/ours/lr=0.2"),
        (["seed=1", "run.lr=0.2"], "custom/ours/lr=0.2,seed=1"),
        (["nodes=[4, 8]", "engine=mpi"], "custom/ours/engine=mpi,nodes=4,8"),
        (['topology="ring"'], "custom/ours/topology=ring"),
    ],
)
def test_each_variation_has_a_folder_named_after_it(tmp_path, overrides, name):
    assert name_of_results(load(config_of(tmp_path), overrides), overrides) == name


def test_variations_that_a_name_cannot_hold_are_told_apart():
    paths = [variation([f"problem.backbone_weights={p}"]) for p in ("a/b", "a_b", "a:b")]
    assert len(set(paths)) == 3 and not any("/" in path for path in paths)
    long = [variation([f"nodes={list(range(k, k + 90))}"]) for k in (1, 2)]
    assert len(set(long)) == 2 and max(map(len, long)) < 100
    assert variation(["lr=0.1", "seed=2"]) == variation(["seed=2", "lr=0.1"])


def test_a_folder_belongs_to_one_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "results"
    made_by(root, "ours", "configs/ours.toml")
    ours = config_of(tmp_path / "configs")
    copy = config_of(tmp_path / "configs", file="copy.toml")
    for path in (ours, Path("configs/ours.toml")):  # edited or not, from wherever it is named
        check_names([load(path)], [], root)
    with pytest.raises(ConfigError, match=r"copy\.toml: name: .*belongs to configs/ours\.toml"):
        check_names([load(copy)], [], root)
    check_names([load(copy)], ["lr=0.2"], root)  # nobody's yet
    made_by(root, "custom/ours/lr=0.2", "configs/ours.toml")
    with pytest.raises(ConfigError, match="take another name"):
        check_names([load(copy, ["lr=0.2"])], ["lr=0.2"], root)


def test_a_config_named_like_anothers_engine_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made_by(tmp_path / "results", "ours_mpi", "configs/ours.toml")
    other = config_of(tmp_path / "configs", "ours_mpi", "other.toml")
    with pytest.raises(ConfigError, match="belongs to"):
        check_names([load(other)], [], tmp_path / "results")
    moved = tmp_path / "was" / "configs" / "ours.toml"  # a repository that has moved
    made_by(tmp_path / "results", "ours", str(moved))
    check_names([load(config_of(tmp_path / "configs"))], [], tmp_path / "results")


def test_a_copy_of_a_config_leaves_the_results_alone(tmp_path, capsys):
    """As a command: sweep one config, then a copy of it, then both at once."""
    ours, copy = config_of(tmp_path / "a"), config_of(tmp_path / "b")
    where = ["--jobs", "1", "--results", str(tmp_path / "results")]
    assert cli.main(["train", str(ours), *where]) == 0
    before = (tmp_path / "results" / "ours" / "table.md").read_bytes()
    capsys.readouterr()
    for configs in ([copy], [ours, copy]):
        assert cli.main(["train", *map(str, configs), *where]) == 2
        error = capsys.readouterr().err
        assert "name" in error and "another" in error and error.count("\n") == 1
    assert (tmp_path / "results" / "ours" / "table.md").read_bytes() == before
    for lr in ("0.2", "0.3"):
        assert cli.main(["train", str(ours), f"lr={lr}", *where]) == 0
    folders = (tmp_path / "results" / "custom" / "ours").iterdir()
    assert sorted(folder.name for folder in folders) == ["lr=0.2", "lr=0.3"]


@pytest.mark.parametrize(
    "words", [["--np", "4"], ["--engine", "embedded", "--np", "4"], ["--hostfile", "hosts"]]
)
def test_options_of_mpi_jobs_need_their_engine(tmp_path, words, capsys):
    assert cli.main(["sweep", str(config_of(tmp_path)), *words]) == 2
    error = capsys.readouterr().err
    assert "give --engine bluefog, mpi, torch or horovod" in error and error.count("\n") == 1
