"""What is measured of machines becomes tables: by arithmetic, and as launched for real."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from expograph import networks
from expograph.analysis.cost_model.held_out import measurements
from expograph.analysis.cost_model.model import Link
from expograph.analysis.table_result import load
from expograph.config import Logistic, Run, experiments
from expograph.graphs.topology import build
from expograph.measure import (
    agreement,
    communication,
    dry_run,
    gpu,
    gradient,
    mixing,
    peers,
    plain,
    ratios,
    smoke,
    speed,
    sweeps,
    timing,
)
from expograph.measure.communication_table import tables_of
from expograph.problems.convex import Convex
from expograph.report.communication_figure import step_times
from expograph.report.layout import layout
from expograph.report.ratios_figure import promises
from expograph.report.rendering import write

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
MADE = {"cpu": "a CPU", "cores": 2, "torch": "2", "commit": "c"}


def measured(ranks: int = 4) -> dict:
    """What `communication.worker` writes, of a link of 1 ms and 1 Gbit/s."""

    def seconds(label: str, elements: int) -> float:
        messages = 2 if label in ("ring", "static exponential") else 1
        return 1e-3 + messages * 32e-9 * elements

    sizes = (100_000, 1_000_000)
    labels = [*communication.CONTENDERS, communication.MESSAGE]
    pair = {communication.STEP: 2.0, communication.BARE: 1.0}
    tensors = {communication.FLAT: 1.0, communication.EACH: 4.0, communication.EACH_QUEUED: 3.0}
    content = {
        "ranks": ranks,
        "seconds": {size: {label: seconds(label, size) for label in labels} for size in sizes},
        "pairs": dict.fromkeys(sizes, pair),
        "tensors": tensors,
    }
    return json.loads(json.dumps(content))  # its sizes are text then


def test_communication_times_are_compared_with_the_fitted_link_and_the_wire():
    tables = tables_of([measured()], 1e9 / 8, "a cluster, 1 Gbit/s", MADE)
    (link,) = tables["links"].means()
    assert link["alpha_ms"] == pytest.approx(1) and link["gbit"] == pytest.approx(1)
    at = {"ranks": 4, "elements": 1_000_000, "averaging": "static exponential"}
    assert [c.name for c in tables["times"].columns] == ["ms", "predicted_ms", "wire_ms"]
    assert tables["times"].cell("ms", **at).mean == pytest.approx(65)
    assert tables["times"].cell("predicted_ms", **at).mean == pytest.approx(65)
    assert tables["times"].cell("wire_ms", **at).mean == pytest.approx(64)
    bare = tables["times"].cell("wire_ms", **{**at, "averaging": communication.BARE})
    assert bare.mean is None
    ratio = {"ranks": 4, "elements": 1_000_000, "measured": "one-peer / wire limit"}
    assert tables["ratios"].cell("value", **ratio).mean == pytest.approx(33 / 32)
    assert tables["ratios"].cell("target", **ratio).text == "<= 1.15"
    each = {"ranks": 4, "elements": None, "measured": "ResNet-20: a call a tensor / one flat call"}
    assert tables["ratios"].cell("value", **each).mean == 4


def test_times_that_do_not_grow_with_the_bytes_leave_the_rate_open(tmp_path):
    """A busy machine may take longer for the shorter message."""
    at_n = measured()
    for by_label, seconds in zip(at_n["seconds"].values(), (2e-3, 1e-3), strict=True):
        by_label[communication.MESSAGE] = seconds
    tables = tables_of([at_n], None, "one machine, shared memory", MADE)
    write(tables, tmp_path / "bench_comm" / "one_machine")
    (link,) = tables["links"].means()
    assert link["gbit"] is None
    assert measurements(tmp_path).messages["one_machine", 4] == Link(link["alpha_ms"] / 1e3, 0.0)


def test_without_a_known_rate_nothing_is_compared_with_the_wire(tmp_path):
    tables = tables_of([measured(2), measured(8)], None, "one machine, shared memory", MADE)
    names = {row["measured"] for row in tables["ratios"].means()}
    assert "one-peer / wire limit" not in names and "step / bare call" in names
    figure = step_times(tables["times"], "one machine, shared memory")
    assert [ax.get_title() for ax in figure.axes] == [f"{n} ranks, shared memory" for n in (2, 8)]
    write(tables, tmp_path)
    assert load(tmp_path) == tables
    (line,) = [
        line
        for line in (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
        if "ResNet-20: a call a tensor / one flat call" in line and line.startswith("| 8")
    ]
    assert [cell.strip() for cell in line.split("|")][-3:-1] == ["4.00", ">= 3"]


def test_agreement_shows_the_worst_and_keeps_all():
    labels = {"algorithm": "dmsgd", "ranks": 4, "local_size": 1, "bytes": 10, "bytes_embedded": 10}
    compared = [
        {**labels, "topology": t, "engine": e, "difference": d}
        for t, e, d in (("ring", "mpi", 1e-7), ("star", "mpi", 3e-7), ("ring", "bluefog", 2e-7))
    ]
    tables = agreement.tables_of(compared, 0, "linear", MADE)
    assert tables["worst"].cell("mpi, 4 ranks", algorithm="dmsgd").mean == 3e-7
    where = {"topology": "star", "engine": "mpi", **labels}
    cell = tables["agreement"].cell("difference", **where)
    assert cell.mean == 3e-7 and not tables["agreement"].shown
    assert "3 comparisons" in tables.notes[0] and "2 topologies" in tables.notes[0]


def test_combinations_are_of_every_algorithm_and_some_on_servers():
    runs = agreement.combinations(4, 0, "linear")
    assert all(run.ranks == 4 for run in runs)
    servers = {(r.algorithm, r.topology) for r in runs if r.local_size == 2}
    assert ("psgd", "fully_connected") in servers and len(servers) == 7
    assert len(agreement.combinations(4, 0, "linear", quick=True)) < len(runs)


def test_a_dry_run_is_chosen_for_every_problem_and_counted_by_arithmetic():
    (pair,) = dry_run.chosen([Path("configs/cifar10.toml")])
    short = dry_run.shortened(pair[1])
    assert (short.ranks, short.topology) == (4, "static_exponential")  # all of its nodes
    facts = {"parameters": 1_000_000, "memory": 2.0, "bytes": 8e6, "step": 0.5}
    needs = dry_run.Needs("cifar10.toml", pair[1], facts)
    assert needs.computed == 8_000_000  # one vector of vanilla DmSGD, to ranks 1 and 2 away
    assert needs.hours == pytest.approx(0.5 * 50_000 / (4 * 128) * 200 / 3600, rel=1e-3)
    (row,) = dry_run.tables_of([needs], MADE)["needs"].means()
    assert row["sent a step, computed (MB)"] == row["sent a step, counted (MB)"] == 8
    assert row["config"] == "cifar10.toml" and row["model"] == "resnet56"


def test_a_named_config_runs_dry_on_each_of_its_graphs():
    found = dry_run.chosen([Path("configs/cifar10.toml")], every_graph=True)
    assert [run.topology for _, run in found] == ["static_exponential", "one_peer_exponential"]
    facts = {"parameters": 1_000_000, "step": 0.5}
    bytes_ = [dry_run.Needs("", run, facts).computed for _, run in found]
    assert bytes_ == [8_000_000, 4_000_000]


def test_a_config_of_many_nodes_runs_dry_on_two_ranks():
    for _, run in dry_run.chosen([Path("configs/table2_paper.toml")]):
        assert dry_run.shortened(run).ranks == 2
        needs = dry_run.Needs("", run, {"parameters": 1, "step": 1.0})
        assert needs.computed == 8 and needs.hours is None  # DmSGD: two vectors, one message


def test_smoke_runs_are_three_steps_and_none_is_left_out():
    runs = smoke.runs_of(Path("configs"))
    assert {run.steps for run in runs} == {3}
    assert len({run.key for run in runs}) == len(runs)
    problems = {run.problem.kind for run in runs}
    expected = {
        run.problem.kind
        for experiment in experiments("configs")
        for run in experiment.runs
        if run.engine == "embedded"
    }
    assert problems == expected


def test_speed_is_measured_against_the_same_computation():
    """The plain loop that a training step is compared with averages by the same W."""
    topology = build("random_match", 6, seed=0)
    rows = list(torch.randn(6, 3))
    mixed = torch.stack(speed._mix_in_loop(topology, 2, rows))
    dense = torch.from_numpy(topology.at(2).dense()).float()
    torch.testing.assert_close(mixed, dense @ torch.stack(rows))
    for problem in (
        {"kind": "logistic", "samples": 5},
        {"kind": "classification", "dataset": "digits", "model": "cnn", "batch_size": 4},
    ):
        times = speed.times_of_step(problem, 4, rounds=1)
        assert min(times.median("vectorised"), times.median("loop")) > 0
    ratio = ratios.Ratio("of", "a", 1.5, 1.0, 2.0, "<= 2")
    (one,) = ratios.tables_of([ratio], 2, MADE)["ratios"].means()
    assert one["value"] == 1.5 and ratio.met and not ratio._replace(target=">= 2").met


def test_promises_are_drawn_in_units_of_their_targets():
    kept = ratios.Ratio("of", "kept", 1.0, 0.5, 2.0, "<= 2")
    missed = ratios.Ratio("of", "missed", 1.0, target=">= 4")
    unpromised = ratios.Ratio("of", "no promise", 3.0)
    table = ratios.tables_of([kept, unpromised, missed], 2, MADE)["ratios"]
    (axis,) = promises(table).axes
    dots = [line.get_xdata()[0] for line in axis.lines if line.get_marker() not in ("None", "")]
    bars = [list(line.get_xdata()) for line in axis.lines if len(line.get_xdata()) == 2]
    assert dots == [2, 0.25] and [4, 1] in bars
    assert len(axis.get_yticklabels()) == 2


def test_a_device_is_compared_with_the_cpu():
    """The CPU with itself: every difference is none, every run is there."""
    small = {"dataset": "digits", "batch_size": 4}
    found = list(gpu.compare("cpu", nodes=4, **small))
    assert len(found) == len(gpu.MODELS) + len(gpu.TOPOLOGIES) - 1
    assert all(one.difference == 0 and one.equal and one.device > 0 for one in found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_gpu_check_says_that_it_is_untried():
    done = subprocess.run([sys.executable, "scripts/gpu_check.py"], cwd=ROOT, capture_output=True)
    assert done.returncode == 2 and b"untried" in done.stderr


@pytest.mark.skipif(not (BIN / "bfrun").exists(), reason="no cluster environment")
def test_a_run_under_bfrun_is_timed_by_its_record():
    found = peers.of_bluefog(n=2, steps=3, rounds=1)
    assert len(found) == len(peers.AVERAGED) and all(one.value > 0 for one in found)


def test_contenders_take_turns_and_a_ratio_is_the_median_of_rounds():
    turns = []
    times = timing.interleaved(3, a=lambda: turns.append("a"), b=lambda: turns.append("b"))
    assert turns == ["a", "b"] * (3 + timing.WARM_UP)
    assert all(len(seconds) == 3 for seconds in times.seconds.values())
    ratio = timing.Rounds({"a": [2, 6, 30], "b": [2, 3, 10]}).ratio("of", "x", "a", "b", factor=2)
    assert (ratio.low, ratio.value, ratio.high) == (3, 4, 5)


def test_gradients_are_measured_in_blocks_that_give_the_same():
    workers = gradient.Workers("cnn", 5)
    torch.testing.assert_close(workers.gradient(2), workers.gradient(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("model", ["cnn", "resnet8_bn"])
def test_the_plain_network_is_ours(model):
    ours, theirs = networks.build(model, (28, 28, 1), 10), plain.plain_network(model, (28, 28, 1))
    names = list(theirs.state_dict())
    theirs.load_state_dict(dict(zip(names, ours.state_dict().values(), strict=True)))
    images = torch.randn(4, 28, 28, 1)
    torch.testing.assert_close(ours(images), theirs(images.permute(0, 3, 1, 2)))


def test_processes_over_gloo_take_steps():
    with peers.Processes(2) as processes:
        processes.step("fully_connected")
        processes.step("one_peer_exponential")


def test_mixing_is_measured_of_every_group():
    small = {"dataset": "digits", "batch_size": 4}
    found = [
        *mixing.of_averaging(4, 100, rounds=1),
        *mixing.of_update((4,), rounds=1, **small),
        *mixing.of_gradients(4, 3, rounds=1),
    ]
    assert len(found) == 2 * len(mixing.AVERAGING) + 3
    assert all(ratio.value > 0 for ratio in found)


def test_closed_form_gradients_are_those_of_autograd():
    settings = Logistic(kind="logistic", dim=5, samples=7, l2=0.1)
    problem = Convex(settings, 3, range(3), seed=0)
    x = torch.randn(3, 5, dtype=torch.float64)
    _, closed = problem.loss.value_and_gradient(x, *problem.local)
    torch.testing.assert_close(mixing.by_autograd(problem, settings.l2, x), closed)
    torch.testing.assert_close(mixing.by_autograd_one_by_one(problem, settings.l2, x), closed)


def test_memory_is_counted_above_the_start():
    """In a process as small as `make bench` is when it measures memory."""
    measure = "memory.in_fresh_process(torch.ones, 25_000_000)[1]"
    code = f"import torch; from expograph.measure import memory; print({measure})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 90e6 < int(done.stdout) < 150e6  # 100 MB of float32


def test_sweeps_are_measured_on_throw_away_results(monkeypatch, tmp_path):
    monkeypatch.setenv("EXPOGRAPH_RUNS", str(tmp_path))
    (whole,) = sweeps.of_small_runs(count=4, steps=200)
    assert whole.value > 1  # no sweep is faster than its training
    (memory,) = sweeps.of_worker_memory(count=4, early=2, steps=20)
    assert 1 <= memory.value < 1.1
    assert not list(tmp_path.iterdir())


def test_a_run_is_shortened_to_what_its_warm_up_allows():
    values = {
        "problem": {"kind": "logistic", "samples": 5},
        "topology": "ring",
        "nodes": 16,
        "algorithm": "dmsgd",
        "steps": 100,
        "warmup_steps": 50,
        "lr": 0.1,
    }
    short = smoke.shortened(Run.model_validate(values))
    assert (short.steps, short.warmup_steps, short.nodes) == (3, 2, 16)


@pytest.mark.skipif(not (BIN / "bfrun").exists(), reason="no cluster environment")
def test_bench_comm_measures_under_a_launcher(tmp_path):
    words = ["--ranks", "2", "--sizes", "1000", "100000", "--rounds", "4"]
    done = subprocess.run(
        [sys.executable, "scripts/bench_comm.py", *words, "--results", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tables = load(tmp_path / "bench_comm" / "one_machine")
    averagings = {row["averaging"] for row in tables["times"].means()}
    assert averagings >= {*communication.CONTENDERS, communication.STEP, communication.BARE}
    assert all(row["ms"] > 0 for row in tables["times"].means())
    texts = [entry.text for row in layout(tables["ratios"]).rows for entry in row]
    assert any("step / bare call" in text for text in texts)
    assert (tmp_path / "bench_comm" / "one_machine" / "figure.svg").exists()
