"""Do two makings of a table agree: the joint intervals against simulation, then the command."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from expograph import cli
from expograph.analysis.agreement import counterpart, folders, judge
from expograph.analysis.statistics import (
    half_width_of_another,
    half_width_of_difference,
    mean_interval,
)
from expograph.analysis.table_result import Cell, load, save

CONFIG = """
name = "small"
[run]
topology = "ring"
nodes = 4
algorithm = "dsgd_atc"
steps = 20
record_every = 5
lr = 0.1
[run.problem]
kind = "logistic"
[[sweep]]
topology = ["ring", "one_peer_exponential"]
nodes = [4, 8]
seed = [0, 1, 2]
[table]
title = "Small"
rows = ["topology"]
column = "nodes"
metrics = ["error_workers"]
"""


def test_the_interval_of_a_difference_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 2.0, 5), rng.normal(0.0, 0.3, 9)
    means = mean_interval(a), mean_interval(b)
    got = half_width_of_difference(
        (means[0].half_width, means[1].half_width), (means[0].count, means[1].count)
    )
    low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert got == pytest.approx((high - low) / 2)
    assert half_width_of_difference((0.0, 0.0), (3, 3)) == 0.0


def test_one_more_value_lies_where_it_is_said_to_in_95_of_100():
    values = np.random.default_rng(1).normal(5.0, 2.0, (4000, 6))
    inside = 0
    for *sample, another in values:
        found = mean_interval(np.array(sample))
        allowed = half_width_of_another(found.half_width, found.count)
        inside += abs(another - found.mean) <= allowed
    assert inside / len(values) == pytest.approx(0.95, abs=0.012)


def mean(value: float, half_width: float | None = None, count: int | None = None, **more) -> Cell:
    return Cell(mean=value, half_width=half_width, count=count, **more)


OPEN = {"count": 5, "low": 50.0, "high": None, "beyond": 3000.0}


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        (mean(1.0), mean(1.0), "equal"),
        (mean(1.0), mean(1.0 + 1e-6), "equal"),
        (mean(1.0), mean(1.001), "differs"),
        (mean(1.0, count=1), mean(1.001, count=1), "differs"),
        (mean(1.0, 0.5, 3), mean(1.4, 0.5, 3), "within"),
        (mean(1.0, 0.5, 3), mean(1.5, 0.5, 3), "outside"),  # Welch allows 0.456
        (mean(1.0, 0.0, 3), mean(1.5, 0.0, 3), "outside"),
        (mean(1.9, count=1), mean(1.0, 0.5, 3), "within"),  # 0.5 sqrt(4) = 1
        (mean(2.1, count=1), mean(1.0, 0.5, 3), "outside"),
        (mean(120, count=5, low=90, high=150), mean(160, count=5, low=131, high=200), "within"),
        (mean(120, count=5, low=90, high=150), mean(170, count=5, low=141, high=175), "outside"),
        (mean(120, count=5, low=90, high=150), mean(100, **OPEN), "within"),
        (Cell(beyond=3000.0), mean(120, count=5, low=90, high=150), "outside"),
        (Cell(low=140.0, beyond=3000.0), mean(120, count=5, low=90, high=150), "within"),
        (Cell(beyond=3000.0), Cell(beyond=3000.0), "equal"),
        (Cell(text="diverged (1 of 3 runs)"), mean(1.0, 0.5, 3), "differs"),
        (Cell(text="O(n^2)"), Cell(text="O(n^2)"), "equal"),
        (Cell(text="O(n^2)"), Cell(text="O(n^3)"), "differs"),
    ],
)
def test_cells_agree_as_their_intervals_say_whoever_comes_first(ours, theirs, outcome):
    assert judge(ours, theirs).outcome == judge(theirs, ours).outcome == outcome


def test_the_largest_allowed_difference_of_three_seeds_is_welchs():
    judged = judge(mean(1.0, 0.5, 3), mean(1.5, 0.5, 3))
    error = 0.5 / stats.t.ppf(0.975, 2)
    assert judged.allowed == pytest.approx(stats.t.ppf(0.975, 4) * error * 2**0.5)
    assert judged.difference == -0.5


def test_a_variation_is_held_against_what_it_varies():
    assert counterpart("custom/table2/lr=0.1") == "table2"
    assert counterpart("bench_comm/one_machine") == "bench_comm/one_machine"


# ---- the command -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> Path:
    """Results of a small config, and of a part of it in results/mine/."""
    place = tmp_path_factory.mktemp("swept")
    (place / "small.toml").write_text(CONFIG)
    words = [str(place / "small.toml"), "--jobs", "1", "--results", str(place / "results")]
    assert cli.main(["sweep", *words]) == 0
    committed = (place / "results" / "small" / "table.json").read_bytes()
    part = ["topology=ring", "seed=[0,1]"]
    assert cli.main(["sweep", *words, *part, "--tables", str(place / "results" / "mine")]) == 0
    assert (place / "results" / "small" / "table.json").read_bytes() == committed
    return place


@pytest.fixture
def place(swept, tmp_path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "place"))


def verify(place: Path, capsys, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    where = ["--results", str(place / "results/mine"), "--against", str(place / "results")]
    status = cli.main(["verify", *words, *where])
    out, error = capsys.readouterr()
    return status, out, error


def table_of(place: Path) -> Path:
    (name,) = folders(place / "results" / "mine")
    assert name.startswith("custom/small/")
    return place / "results" / "mine" / name


def change(folder: Path, **values) -> None:
    """Give the first cell of a folder's first table other values."""
    tables = load(folder)
    first, *rows = tables.tables[0].rows
    cells = (first.cells[0].model_copy(update=values), *first.cells[1:])
    first = first.model_copy(update={"cells": cells})
    table = tables.tables[0].model_copy(update={"rows": (first, *rows)})
    save(tables.model_copy(update={"tables": (table, *tables.tables[1:])}), folder)
    (folder / "provenance.json").unlink()  # it knows the old one's checksum


def test_a_smaller_sweep_agrees_and_what_it_lacks_is_counted(place, capsys):
    status, out, _ = verify(place, capsys)
    assert status == 0
    assert "all 2 cells agree: 0 equal, 2 within the joint interval" in out
    assert f"{place / 'results'} has 2 more" in out


def test_what_disagrees_is_listed_and_the_status_is_1(place, capsys):
    change(table_of(place), mean=1e6)
    status, out, _ = verify(place, capsys, "small")
    assert status == 1
    assert "cells that disagree" in out and "1 of 2 cells disagree" in out
    assert "ring" in out and "4 nodes" in out


def test_the_very_same_training_is_said_to_be_that(place, capsys):
    shutil.rmtree(table_of(place))
    shutil.copytree(place / "results" / "small", place / "results" / "mine" / "small")
    status, out, _ = verify(place, capsys)
    assert status == 0
    assert "all 4 cells agree: 4 equal" in out
    assert "4 rest on the very same training" in out


def test_the_same_seeds_trained_twice_are_told_from_the_same_training(place, capsys):
    shutil.rmtree(table_of(place))
    words = [str(place / "small.toml"), "--jobs", "1", "--results", str(place / "other")]
    assert cli.main(["sweep", *words]) == 0
    status = cli.main(
        ["verify", "--results", str(place / "other"), "--against", str(place / "results")]
    )
    out = capsys.readouterr().out
    assert status == 0 and "4 equal" in out
    assert "4 rest on the same configs and seeds, trained twice" in out


def test_other_settings_are_not_compared(place, capsys):
    words = [str(place / "small.toml"), "lr=0.2", "--jobs", "1"]
    where = ["--results", str(place / "results"), "--tables", str(place / "results/mine")]
    assert cli.main(["sweep", *words, *where]) == 0
    status, out, _ = verify(place, capsys)
    assert status == 0 and "all 2 cells agree" in out
    assert "custom/small/lr=0.2: not compared, 4 cells: lr: 0.2, not 0.1" in out
    shutil.rmtree(
        next(p for p in (place / "results/mine/custom/small").iterdir() if "seed" in p.name)
    )
    status, _, error = verify(place, capsys)
    assert status == 2 and "none of its cells can be compared" in error


def test_runs_that_are_still_missing_are_no_disagreement(place, capsys):
    change(table_of(place), mean=None, half_width=None, text="missing", runs=("0" * 16,))
    status, out, _ = verify(place, capsys)
    assert status == 0
    assert "not compared, 1 cell: some of its runs are not done" in out


def test_verdicts_that_changed_are_named(place, capsys):
    ledger = json.loads(Path("results/claims.json").read_text())
    (place / "results" / "claims.json").write_text(json.dumps(ledger))
    assert verify(place, capsys)[0] == 0
    first = ledger["claims"][0]
    for part in first["parts"]:
        part["holds"] = "no"
    was, first["verdict"] = first["verdict"], "refuted"
    (place / "results" / "mine" / "claims.json").write_text(json.dumps(ledger))
    status, out, _ = verify(place, capsys)
    assert status == 1
    assert f"claim {first['id']}: refuted, {was} in" in out and "1 verdict changed" in out
    assert verify(place, capsys, "small")[0] == 0  # it does not rest on this experiment


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda p: shutil.rmtree(p / "results/mine"), "no such folder"),
        (lambda p: shutil.rmtree(p / "results/small"), "has no table that"),
        (lambda p: (table_of(p) / "table.json").write_text("{"), "table.json: Invalid JSON"),
        (lambda p: (p / "results/small/records.jsonl.gz").write_bytes(b"no"), "damaged"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(place, spoil, said, capsys):
    spoil(place)
    status, _, error = verify(place, capsys)
    assert status == 2
    assert said in error and error.count("\n") == 1


def test_a_name_that_neither_has_is_refused_with_the_nearest(place, capsys):
    status, _, error = verify(place, capsys, "smal")
    assert status == 2 and "did you mean 'small'?" in error and error.count("\n") == 1
    where = str(place / "results")
    assert cli.main(["verify", "--results", where, "--against", where]) == 2


def test_tables_need_the_name_of_a_folder(place, capsys):
    assert cli.main(["sweep", str(place / "small.toml"), "--tables", ""]) == 2
    assert "--tables: need the name of a folder" in capsys.readouterr().err
