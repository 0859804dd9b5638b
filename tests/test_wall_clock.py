"""Accuracy against seconds: arithmetic by hand, the pace of a gradient, and tiny jobs for real."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from expograph.analysis import wall_clock, wall_clock_tables
from expograph.analysis.cost_model import assumptions
from expograph.analysis.cost_model.model import Link
from expograph.analysis.table_result import load
from expograph.analysis.wall_clock import (
    METRIC,
    Curve,
    Emulated,
    Measured,
    RealRun,
    StepTimes,
    contenders,
    spent_to,
    targets,
)
from expograph.cluster import testbed
from expograph.config import ConfigError, Run
from expograph.config import load as load_config
from expograph.files import DamagedFile
from expograph.measure.wall_clock import BLOCK, WARM_UP, Paced, endless, with_pieces
from expograph.report.wall_clock_figure import accuracy_against_seconds

SCRIPT, CONFIG = Path("scripts/wall_clock.py"), Path("configs/wall_clock.toml")
MADE = {"cpu": "a CPU", "cores": 2, "torch": "2"}
LABELS = ["parallel SGD, Horovod", "parallel SGD, BlueFog", "ring", "one-peer exponential"]
TINY = """
name = "tiny"
[run]
algorithm = "vanilla_dmsgd"
nodes = 3
steps = 20
lr = 0.1
beta = 0.9
record_every = 5
evaluate_every = 10
problem = { kind = "classification", dataset = "digits", model = "mlp", batch_size = 4 }
[[sweep]]
algorithm = ["psgd"]
topology = ["fully_connected"]
[[sweep]]
topology = ["one_peer_exponential"]
"""


def runs(seeds=(0, 1), topologies=("fully_connected", "ring", "one_peer_exponential")) -> list[Run]:
    values = {
        "problem": {"kind": "classification", "dataset": "digits", "model": "mlp"},
        **{"nodes": 8, "steps": 100, "lr": 0.1, "beta": 0.9, "record_every": 50},
    }
    return [
        Run.model_validate(
            {
                **values,
                "seed": seed,
                "topology": name,
                "algorithm": "psgd" if name == "fully_connected" else "vanilla_dmsgd",
            }
        )
        for name in topologies
        for seed in seeds
    ]


# ---- the pace ----


class Still:
    """A problem that computes for a stated time."""

    workers = 8

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def gradient(self, x, buffers, k):
        time.sleep(self.seconds)
        return x.sum(dim=1), 2 * x, buffers


@pytest.mark.parametrize(("own", "stated", "late"), [(0.0, 0.05, 0), (0.03, 0.01, 3)])
def test_a_gradient_takes_its_stated_time_and_what_takes_longer_is_counted(own, stated, late):
    problem = Paced(Still(own), stated)
    x = torch.ones(1, 3)
    start = time.perf_counter()
    for k in range(3):
        losses, gradients, _ = problem.gradient(x, torch.zeros(1, 0), k)
    assert time.perf_counter() - start >= 3 * max(own, stated)
    assert losses.tolist() == [3.0] and gradients.tolist() == [[2.0, 2.0, 2.0]]
    assert (problem.gradients, problem.late, problem.workers) == (3, late, 8)


def test_what_is_timed_has_a_record_a_block_and_neither_ends_nor_evaluates():
    run = Run.model_validate(
        {**runs()[0].model_dump(), "warmup_steps": 10, "decay": "step", "decay_steps": [50]}
    )
    timed = endless(run, blocks=4)
    assert timed.record_every == BLOCK and timed.evaluate_every is None
    assert timed.steps > BLOCK * (4 + WARM_UP)
    assert timed.problem == run.problem and timed.lr == run.lr


# ---- who competes, and for how long they compute ----


def test_parallel_sgd_runs_by_horovod_and_by_bluefog_on_the_same_runs():
    found = contenders(runs(), 8)
    assert [c.label for c in found] == LABELS
    assert [c.engine for c in found] == ["horovod", "bluefog", "bluefog", "bluefog"]
    assert found[0].runs == found[1].runs and list(found[2].runs) == [0, 1]
    there = found[0].on_the_network(1)
    assert there.engine == "horovod" and there.seed == 1
    assert there.model_copy(update={"engine": "embedded"}) == found[0].runs[1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: runs(topologies=["ring"]), "no run of parallel SGD"),
        (lambda: [*runs(), runs()[0].model_copy(update={"lr": 0.2})], "alike in all else"),
        (lambda: [r.model_copy(update={"nodes": 4}) for r in runs()], "on 8 nodes"),
        (lambda: [r.model_copy(update={"engine": "mpi"}) for r in runs()], "one embedded run"),
    ],
)
def test_runs_that_cannot_be_set_against_each_other_are_refused(wrong, message):
    with pytest.raises(ConfigError, match=message) as error:
        contenders(wrong(), 8)
    assert "\n" not in str(error.value)


def test_computing_is_to_sending_as_in_the_published_hours(tmp_path):
    given = assumptions.read(Path("configs/cost_model.toml"))
    found = wall_clock.emulated(Path("results"), given, 1_000_000)
    # 32 images at 98.9 a second, against 2.5 ms and 102.2 MB at 22.3 Gbit/s
    assert found.ratio == pytest.approx(32 / 98.9 / (2.5e-3 + 8 * 102.228e6 / 22.3e9), rel=0.01)
    assert found.message > 4e6 * 8 / 1e9  # what the wire takes at 1 Gbit/s
    assert found.seconds == found.ratio * found.message
    with pytest.raises(ConfigError, match="make cost-model"):
        wall_clock.emulated(tmp_path, given, 10)


# ---- putting together ----


@pytest.mark.parametrize(
    ("target", "expected"), [(50, 0), (60, 5), (65, 7.5), (80, np.nan), (62, 6)]
)
def test_the_first_time_that_a_target_is_reached(target, expected):
    seconds, accuracy = np.array([0.0, 5.0, 10.0, 15.0]), np.array([50.0, 60.0, 70.0, 61.0])
    assert spent_to(target, seconds, accuracy) == pytest.approx(expected, nan_ok=True)


def test_targets_lie_below_what_parallel_sgd_ends_with():
    accuracy = np.array([[10.0, 80.0], [10.0, 82.0]])
    ring = Curve("ring", "ring", np.array([1.0, 2.0]), np.array([1.0, 2.0]), accuracy - 5)
    exact = Curve(
        LABELS[0], "fully_connected", np.array([1.0, 2.0]), np.array([1.0, 2.0]), accuracy
    )
    assert targets([ring, exact]) == [79.0, 80.0, 80.5]


def measured() -> Measured:
    steps = {LABELS[0]: 0.04, LABELS[1]: 0.03, LABELS[3]: 0.02}
    return Measured(
        rate="100mbit",
        hosts=8,
        model="mlp",
        dataset="digits",
        elements=1000,
        compute=0.01,
        steps=[StepTimes(label=k, seconds=[v, v, 9 * v], late=0.0) for k, v in steps.items()],
        real=[
            RealRun(
                label=LABELS[3],
                seed=1,
                steps=[50, 100],
                seconds=[1.1, 2.1],
                accuracy=[61.0, 83.0],
                late=0.01,
            )
        ],
    )


def curves_of(every) -> dict[str, pd.DataFrame]:
    """50 % at the start; after 50 steps 60 %, at the end 80 % and for seed 1 82."""
    frames = {}
    for contender in every:
        for seed, run in contender.runs.items():
            accuracy = [50.0, np.nan, 60.0, 80.0 + 2 * seed]
            frames[run.key] = pd.DataFrame({"step": [0, 25, 50, 100], METRIC: accuracy})
            frames[run.key]["bytes_sent_mean"] = 1e6 * frames[run.key]["step"]
    return frames


def test_accuracies_of_embedded_runs_stand_over_steps_times_seconds_a_step():
    every = contenders(runs(), 8)
    time_ = Emulated(ratio=8.0, link=Link(1e-3, 8e-9), message=1.25e-3)
    tables = wall_clock_tables.tables_of(measured(), time_, every, curves_of(every), MADE)
    goal = 80.0  # parallel SGD ends with 81 on average
    to = tables["to_accuracy"]
    assert [row.labels[0] for row in to.rows] == [LABELS[0], LABELS[1], LABELS[3]]  # no ring yet
    # 80 % after 100 steps for seed 0; for seed 1 a share of 20 / 22 of the last 50
    steps = np.mean([100, 50 + 50 * 20 / 22])
    for label, step in ((LABELS[0], 0.04), (LABELS[1], 0.03), (LABELS[3], 0.02)):
        cell = to.cell(goal, training=label)
        assert cell.mean == pytest.approx(step * steps) and cell.count == 2
        assert to.cell("MB to 80 %", training=label).mean == pytest.approx(steps)
        assert to.cell("s in all", training=label).mean == pytest.approx(100 * step)
    assert "1 of 2 seeds" in to.cell(80.5, training=LABELS[0]).text
    row = {"training": LABELS[3]}
    step = tables["steps"].cell("s a step", **row)
    assert (step.mean, step.low, step.high) == pytest.approx((0.02, 0.02, 0.1))
    assert tables["steps"].cell("of it sending", **row).mean == pytest.approx(0.01)
    # one message of 4,000 bytes at a tenth of 1 Gbit/s
    predicted = tables["steps"].cell("predicted", **row).mean
    assert predicted == pytest.approx(0.01 + 1e-3 + 10 * 8e-9 * 4000)
    real = {"training": LABELS[3], "seed": 1}
    assert tables["real"].cell("composed", **real).mean == pytest.approx(2.0)
    assert tables["real"].cell("difference (%)", **real).mean == pytest.approx(5)
    assert tables["real"].cell("largest on the way (%)", **real).mean == pytest.approx(10)
    way = tables["real"].cell("mean |difference| on the way (points)", **real)
    assert way.mean == pytest.approx(1)


def test_the_figure_has_a_curve_a_contender_and_the_real_trainings():
    every = contenders(runs(), 8)
    found = wall_clock.composed(measured(), every, curves_of(every))
    topologies = {c.label: c.topology for c in every}
    figure = accuracy_against_seconds(found, measured(), topologies)
    drawn = {line.get_label(): line.get_xdata() for line in figure.axes[0].lines}
    assert list(drawn[LABELS[3]]) == pytest.approx([0.0, 1.0, 2.0])
    assert any(list(x) == [1.1, 2.1] for x in drawn.values())
    assert [t.get_text() for t in figure.axes[1].get_yticklabels()] == [
        LABELS[3],
        LABELS[1],
        LABELS[0],
    ]


def test_pieces_are_added_and_kept(tmp_path):
    before = measured()
    pieces = [before.real[0].model_dump(), before.steps[0].model_dump()]
    after = with_pieces(before, pieces)
    assert (len(after.steps), len(after.real)) == (4, 2)
    wall_clock.write_measured(tmp_path, after)
    assert wall_clock.read_measured(tmp_path) == after
    assert wall_clock.read_measured(tmp_path / "none") is None
    (tmp_path / wall_clock.FILE).write_text('{"rate": "1gbit"')
    with pytest.raises(DamagedFile, match=r"measured\.json: "):
        wall_clock.read_measured(tmp_path)


def test_the_config_trains_all_that_are_compared_on_ten_seeds():
    every = contenders(load_config(CONFIG).runs, 8)
    assert [c.topology for c in every] == [
        "fully_connected",
        "fully_connected",
        "ring",
        "static_exponential",
        "one_peer_exponential",
    ]
    assert all(len(c.runs) == 10 for c in every)


# ---- for real ----


@pytest.mark.skipif(bool(testbed.missing()), reason=f"needs {testbed.missing()}")
@pytest.mark.usefixtures("all_cores")
def test_steps_and_a_whole_training_on_three_hosts(tmp_path):
    for library in ("mpi4py", "bluefog", "horovod"):
        pytest.importorskip(library, reason="no cluster environment: make cluster-env")
    config, results = tmp_path / "tiny.toml", tmp_path / "results"
    config.write_text(TINY)
    (results / "cost_model").mkdir(parents=True)
    source = Path("results/cost_model/table.json")
    (results / "cost_model" / "table.json").write_bytes(source.read_bytes())
    command = [sys.executable, str(SCRIPT), "--config", str(config), "--results", str(results)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def script(*words: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PATH": path}
        return subprocess.run(
            [*command, *words], capture_output=True, text=True, env=environment, timeout=300
        )

    done = script("steps", "--blocks", "2")
    assert done.returncode == 0, done.stderr
    folder = results / "wall_clock" / "testbed_1gbit"
    found = wall_clock.read_measured(folder)
    assert {s.label for s in found.steps} == {LABELS[0], LABELS[1], LABELS[3]}
    for one in found.steps:
        assert len(one.seconds) == 2 and min(one.seconds) > found.compute
    done = script("real", "--rows", "one_peer_exponential")
    assert done.returncode == 0, done.stderr
    (real,) = wall_clock.read_measured(folder).real
    assert real.steps == [10, 20] and real.seconds[1] > 20 * found.compute
    assert 10 < real.accuracy[1] <= 100
    rows = load(folder)["real"].rows
    assert [row.labels for row in rows] == [(LABELS[3], 0)]
    again = script("real", "--rows", "one_peer_exponential")  # is there already
    assert again.returncode == 0 and "hosts, " not in again.stdout
    content = json.loads((folder / wall_clock.FILE).read_text())
    (folder / wall_clock.FILE).write_text(json.dumps({**content, "compute": 1.0}))
    refused = script("table")
    assert refused.returncode == 2 and "remove it to measure anew" in refused.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["steps", "--rate", "fast"], "expected a number with kbit"),
        (["real", "--seeds", "99"], "--seeds 99: not in"),
        (["real", "--rows", "torus"], "--rows torus: not in"),
    ],
)
def test_wrong_words_are_one_line(tmp_path, words, message):
    (tmp_path / "cost_model").mkdir()
    source = Path("results/cost_model/table.json")
    (tmp_path / "cost_model" / "table.json").write_bytes(source.read_bytes())
    config = tmp_path / "tiny.toml"
    config.write_text(TINY)
    command = [sys.executable, str(SCRIPT), *words, "--config", str(config)]
    done = subprocess.run([*command, "--results", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr and done.stderr.count("\n") == 1
