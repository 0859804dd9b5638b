"""A run that diverges says where and whose; workers that drift apart are remarked on."""

import json
from pathlib import Path

import pytest
import torch
from test_sweep import tiny

from expograph import cli
from expograph.analysis.remarks import growth, remarks
from expograph.config import load
from expograph.runs import results, store
from expograph.runs.divergence import Watched, describe
from expograph.runs.records import RunRecord
from expograph.runs.runner import execute

WILD = """
name = "wild"
[run]
nodes = 4
algorithm = "dsgd_atc"
topology = "ring"
steps = 400
lr = 1e30
[run.problem]
kind = "least_squares"
[[sweep]]
seed = [0]
lr = [1e-3, 1e30]
[table]
title = "Wild"
rows = ["lr"]
metrics = ["error_workers"]
"""


class Failing:
    """Losses of four workers; those of 1 and 3 are not finite at step 2."""

    ranks = range(4)
    workers = 4

    def gradient(self, x, buffers, k):
        losses = torch.zeros(4)
        if k == 2:
            losses[1], losses[3] = torch.nan, torch.inf
        return losses, x, buffers


class Group:
    """Two processes: this one, and one that saw worker 7 fail a step before."""

    def exchange(self, value, what):
        return [value, (2, [7])]


def test_the_first_step_and_the_workers_are_told():
    problem = Watched(Failing(), 5)
    assert problem.workers == 4 and problem.failed() is None
    for k in range(5):
        problem.gradient(torch.zeros(4, 2), torch.zeros(4, 0), k)
    note, where = describe(problem, 5, None)
    assert where == {"step": 3, "workers": [1, 3]}
    assert note == "diverged at step 3: the losses of 2 workers, as worker 1, are not finite"
    note, where = describe(problem, 5, Group())
    assert where == {"step": 2, "workers": [7]}
    assert note == "diverged at step 2: the loss of worker 7 is not finite"
    assert describe(Watched(Failing(), 5), 9, None)[0] == (
        "diverged at step 9: a worker's model is not finite"
    )


def test_a_diverged_run_is_recorded_and_the_table_and_the_sweep_say_so(tmp_path, capsys):
    (tmp_path / "wild.toml").write_text(WILD)
    words = ["train", str(tmp_path / "wild.toml"), "--jobs", "1"]
    assert cli.main([*words, "--results", str(tmp_path / "r")]) == 0
    captured = capsys.readouterr()
    assert "1 finished, 1 diverged" in captured.out
    assert "Diverged: dsgd_atc on ring" in captured.err and "at step" in captured.err
    run = load(tmp_path / "wild.toml").runs[1]
    content = json.loads((store.folder(run, tmp_path / "r") / "run.json").read_text())
    assert content["status"] == "diverged" and content["diverged"]["step"] >= 1
    note = content["note"]
    for name in ("table.md", "table.json"):
        assert note in (Path(tmp_path, "r", "wild") / name).read_text().replace("\\", "")


def record(values: list, status: str = "done") -> RunRecord:
    steps = list(range(0, 10 * len(values), 10))
    curve = {"step": steps, "consensus_distance": values}
    run = tiny().model_dump(exclude_defaults=True)
    return RunRecord(
        key=tiny().key, status=status, run=run, final={"step": 1}, provenance={}, curve=curve
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 1.0, 2.0, 5.0, 40.0], 20.0),
        ([0.0, 1.0, 2.0, 5.0, 2.0], 1.0),
        ([0.0, 1e-30, 1e-30, 1e-29, 1e-20], 0.0),  # rounding errors
        ([0.0], 0.0),
        ([0.0, 1.0, None, None, 50.0], 50.0),
        ([None, None], 0.0),
    ],
)
def test_growth_is_over_the_second_half(values, expected):
    assert growth(record(values)) == pytest.approx(expected)


def test_drifting_workers_are_one_line_whatever_their_number():
    calm, wild = record([0.0, 1.0, 1.0, 1.0]), record([0.0, 1.0, 2.0, 30.0])
    assert remarks([calm]) == []
    (line,) = remarks([calm, *[wild] * 5])
    assert "grew by more than 10 times" in line and "and 2 more" in line and tiny().key in line


def test_watching_changes_no_number(tmp_path):
    from expograph.runs.assemble import records_of

    run = tiny()
    execute(run, tmp_path)
    bare = [r.values["consensus_distance"] for r in records_of(run)]
    kept = results.find([run], tmp_path)[run.key]
    assert kept.final["consensus_distance"] == bare[-1]
