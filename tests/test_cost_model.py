"""The cost model against arithmetic by hand, and its fits against parameters made up here."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from graphs import graphs
from hypothesis import given
from hypothesis import strategies as st

from expograph.analysis.cost_model.assumptions import read
from expograph.analysis.cost_model.fit import calibrated, fit, fit_cluster, fit_term
from expograph.analysis.cost_model.held_out import FITTED_AT, all_reduce_formulas, held_out
from expograph.analysis.cost_model.left_out import (
    a_constant_a_row,
    at_bounds,
    from_one_cell,
    largest_from_smaller,
    leave_one_out,
    no_communication,
    of_cluster,
    without_rows,
)
from expograph.analysis.cost_model.model import (
    ALL_REDUCES,
    Cluster,
    Link,
    Workload,
    averaging_seconds,
    iteration_seconds,
    iterations,
    mean_step_seconds,
    step_seconds,
    training_hours,
)
from expograph.analysis.table_result import load
from expograph.config import ConfigError
from expograph.graphs.topology import build, is_random, names
from expograph.report.cost_figures import node_hours, speed_up_map

LINK = Link(alpha=1e-3, beta=8e-9)  # 1 ms, 1 Gbit/s
FREE = Link(0.0, 0.0)
WORKLOAD = Workload(message=100e6, samples=1_281_167, epochs=90)
CLUSTER = Cluster(
    gpus=8, batch=32, sample_seconds=1e-2, between=Link(1e-3, 0.32e-9), inside=Link(1e-5, 1e-11)
)
SCRIPT, CONFIG = Path("scripts/cost_model.py"), Path("configs/cost_model.toml")
PUBLISHED = Path("configs/published.toml")


@pytest.mark.parametrize(
    ("name", "n", "messages"),
    [
        ("ring", 8, 2),
        ("star", 8, 7),  # the hub sends and hears seven
        ("static_exponential", 8, 3),
        ("static_exponential", 6, 3),
        ("one_peer_exponential", 8, 1),
        ("random_match", 8, 1),
        ("random_match", 7, 1),
    ],
)
def test_a_neighbour_step_is_one_latency_and_the_busiest_ranks_messages(name, n, messages):
    message = 4_000_000  # 32 ms on the wire
    expected = 1e-3 + messages * 32e-3
    assert mean_step_seconds(build(name, n), message, LINK) == pytest.approx(expected)


def test_an_all_reduce_is_a_ring():
    W = build("fully_connected", 4).at(0)
    assert step_seconds(W, 4_000_000, LINK) == pytest.approx(6 * 1e-3 + 1.5 * 32e-3)


@pytest.mark.parametrize("name", ["ring", "fully_connected", "one_peer_exponential", "star"])
def test_one_rank_costs_nothing(name):
    assert mean_step_seconds(build(name, 1), 1000, LINK) == 0


@given(st.floats(1e-6, 1e-2), st.floats(1e-11, 1e-7))
def test_fit_finds_the_link_that_made_the_times(alpha, beta):
    sizes = np.array([4e3, 4e4, 4e5, 4e6, 1.6e7])
    found = fit(sizes, alpha + beta * sizes)
    assert found.beta == pytest.approx(beta, rel=1e-5)
    assert found.alpha == pytest.approx(alpha, rel=1e-5)


def test_fit_of_noisy_times_is_never_negative():
    rng = np.random.default_rng(0)
    sizes = np.geomspace(1e3, 1e7, 8)
    for _ in range(50):
        link = fit(sizes, 1e-9 * sizes * rng.lognormal(0, 0.5, len(sizes)))
        assert link.alpha >= 0 and link.beta >= 0


# ---- all-reduces and one more term ----


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ring", 14 * 1e-3 + 1.75 * 32e-3),
        ("recursive doubling", 3 * (1e-3 + 32e-3)),
        ("tree", 6 * 1e-3 + 2 * 32e-3),
    ],
)
def test_all_reduces_of_eight_ranks(name, expected):
    all_reduce = ALL_REDUCES[name]
    assert all_reduce(8, 4_000_000, LINK) == pytest.approx(expected)
    assert all_reduce(1, 4_000_000, LINK) == 0
    found = mean_step_seconds(build("fully_connected", 8), 4_000_000, LINK, all_reduce=all_reduce)
    assert found == pytest.approx(expected)


@given(st.floats(0, 10), st.integers(0, 2**32 - 1))
def test_a_term_that_is_there_is_found(c, seed):
    known, term = np.random.default_rng(seed).uniform(0.5, 2, (2, 6))
    assert fit_term(known, term, known + c * term) == pytest.approx(c, abs=1e-9)
    assert fit_term(known, term, known - 0.1 * term) == 0  # seconds cannot be saved by a cost


# ---- one iteration ----


def test_an_iteration_by_hand():
    local = 14 * (1e-5 + 1e-11 * 100e6 / 8) + 1e-5 + 1e-11 * 100e6
    across = 1e-3 + 3 * 32e-3  # three messages of 32 ms
    topology = build("static_exponential", 8)
    assert averaging_seconds(CLUSTER, WORKLOAD, topology) == pytest.approx(local + across)
    seconds = iteration_seconds(CLUSTER, WORKLOAD, topology)
    assert seconds == pytest.approx(0.32 + local + across)
    assert iterations(CLUSTER, WORKLOAD, 8) == pytest.approx(90 * 1_281_167 / 2048)
    hours = 90 * 1_281_167 / 2048 * seconds / 3600
    assert training_hours(CLUSTER, WORKLOAD, topology) == pytest.approx(hours)


def test_one_server_averages_inside_and_one_gpu_not_at_all():
    alone = build("fully_connected", 1)
    local = 14 * (1e-5 + 1e-11 * 100e6 / 8)  # and no broadcast: nothing came from elsewhere
    assert averaging_seconds(CLUSTER, WORKLOAD, alone) == pytest.approx(local)
    single = CLUSTER._replace(gpus=1)
    assert averaging_seconds(single, WORKLOAD, alone) == 0
    across = averaging_seconds(single, WORKLOAD, build("one_peer_exponential", 4))
    assert across == pytest.approx(1e-3 + 32e-3)


@pytest.mark.parametrize(
    ("name", "n"), [(t, n) for n in (1, 2, 6, 16) for t in names(n) if not is_random(t)]
)
def test_without_a_networks_cost_an_iteration_is_its_compute(name, n):
    free = CLUSTER._replace(between=FREE, inside=FREE)
    assert iteration_seconds(free, WORKLOAD, build(name, n)) == pytest.approx(0.32, rel=1e-12)


clusters = st.builds(
    Cluster,
    gpus=st.integers(1, 16),
    batch=st.integers(1, 256),
    sample_seconds=st.floats(1e-5, 1e-1),
    between=st.builds(Link, st.floats(0, 1e-1), st.floats(0, 1e-7)),
    inside=st.builds(Link, st.floats(0, 1e-3), st.floats(0, 1e-9)),
    overlap=st.floats(0, 1),
    all_reduce=st.sampled_from(list(ALL_REDUCES.values())),
)


# from 3 nodes on: over two, one-peer is W = J, which every engine computes as an all-reduce
@given(clusters, graphs(st.integers(3, 64), among=[t for t in names() if not is_random(t)]))
def test_one_peer_is_never_slower_an_iteration(cluster, graph):
    other, n = graph
    one_peer = iteration_seconds(cluster, WORKLOAD, build("one_peer_exponential", n))
    assert one_peer <= iteration_seconds(cluster, WORKLOAD, build(other, n)) * (1 + 1e-12)


@given(clusters, st.sampled_from(["ring", "fully_connected", "one_peer_exponential"]))
def test_what_overlaps_hides_behind_the_gradient_and_no_further(cluster, name):
    topology = build(name, 8)
    compute = cluster.batch * cluster.sample_seconds
    averaging = averaging_seconds(cluster, WORKLOAD, topology)

    def seconds(phi):
        return iteration_seconds(cluster._replace(overlap=phi), WORKLOAD, topology)

    assert seconds(0.0) == pytest.approx(compute + averaging)
    assert seconds(1.0) == pytest.approx(max(compute, averaging))
    phi = cluster.overlap
    assert seconds(phi) == pytest.approx(max(compute + (1 - phi) * averaging, averaging))


def test_an_averaging_of_constant_cost_scales_perfectly_and_a_ring_all_reduce_does_not():
    def node_hours_of(name, n):
        return n * training_hours(CLUSTER, WORKLOAD, build(name, n))

    small, large = (node_hours_of("one_peer_exponential", n) for n in (4, 512))
    assert large == pytest.approx(small)
    # 2 (n - 1) latencies of 1 ms beside 0.32 s of compute
    assert node_hours_of("fully_connected", 512) > 2 * node_hours_of("fully_connected", 4)


def test_large_graphs_are_never_written_out():
    for name in ("fully_connected", "ring", "static_exponential", "one_peer_exponential"):
        topology = build(name, 4096)
        assert iteration_seconds(CLUSTER, WORKLOAD, topology) > 0.32
        for k in range(topology.period):  # an (n, n) all-to-all would be 16 million entries
            assert "csr" not in vars(topology.at(k)), name


# ---- parameters from hours ----


@given(clusters, st.sampled_from(["ring", "fully_connected", "one_peer_exponential"]))
def test_calibration_gives_the_hours_it_was_given(cluster, name):
    topology = build(name, 4)
    hours = training_hours(cluster, WORKLOAD, topology)
    hidden = cluster.overlap * averaging_seconds(cluster, WORKLOAD, topology)
    if hidden >= 0.999 * cluster.batch * cluster.sample_seconds:
        return  # gamma leaves no trace in such hours, or nearly none
    found = calibrated(cluster._replace(sample_seconds=1.0), WORKLOAD, topology, hours)
    assert training_hours(found, WORKLOAD, topology) == pytest.approx(hours)


def test_calibration_refuses_hours_that_averaging_alone_takes():
    with pytest.raises(ValueError, match="no time to compute"):
        calibrated(CLUSTER, WORKLOAD, build("ring", 4), 0.5)


@pytest.mark.parametrize(
    ("gamma", "alpha", "phi"),
    [(1e-2, 2e-3, 0.0), (1e-2, 2e-3, 0.4), (3e-3, 1e-4, 0.7), (2e-2, 0.0, 0.2), (5e-3, 5e-3, 0.1)],
)
def test_the_fit_recovers_the_parameters_that_made_the_hours(gamma, alpha, phi):
    between = Link(alpha, CLUSTER.between.beta)
    truth = CLUSTER._replace(sample_seconds=gamma, between=between, overlap=phi)
    cells = [
        (name, n)
        for name in ("fully_connected", "ring", "one_peer_exponential")
        for n in (4, 8, 16, 32)
    ]
    hours = {cell: training_hours(truth, WORKLOAD, build(*cell)) for cell in cells}
    start = CLUSTER._replace(sample_seconds=1.0)  # what it starts from must not matter
    found = fit_cluster(start, WORKLOAD, hours)
    assert found.sample_seconds == pytest.approx(gamma, rel=1e-4)
    assert found.between.alpha == pytest.approx(alpha, rel=1e-3, abs=1e-7)
    assert found.overlap == pytest.approx(phi, abs=1e-3)
    assert found.between.beta == CLUSTER.between.beta


def test_the_fit_is_the_nearest_to_hours_that_no_parameters_make():
    rng = np.random.default_rng(0)
    cells = [(name, n) for name in ("fully_connected", "ring") for n in (4, 8, 16)]
    hours = {
        cell: training_hours(CLUSTER, WORKLOAD, build(*cell)) * rng.lognormal(0, 0.1)
        for cell in cells
    }

    def cost(cluster):
        return sum(
            (training_hours(cluster, WORKLOAD, build(*cell)) / h - 1) ** 2
            for cell, h in hours.items()
        )

    found = fit_cluster(CLUSTER, WORKLOAD, hours)
    assert 0 <= found.overlap <= 1 and found.between.alpha >= 0
    for factor in (0.99, 1.01):
        alpha = factor * found.between.alpha + (factor - 1) * 1e-6
        slower = Link(max(0.0, alpha), found.between.beta)
        assert cost(found) <= cost(found._replace(between=slower)) + 1e-12
        gamma = factor * found.sample_seconds
        assert cost(found) <= cost(found._replace(sample_seconds=gamma))
        phi = min(1.0, max(0.0, found.overlap + factor - 1))
        assert cost(found) <= cost(found._replace(overlap=phi)) + 1e-12


# ---- cells left out ----


def test_a_cell_is_predicted_by_the_others_alone():
    """Whatever is published for it, and exactly where the model holds."""
    cells = [(name, n) for name in ("fully_connected", "ring") for n in (4, 8, 16)]
    hours = {cell: training_hours(CLUSTER, WORKLOAD, build(*cell)) for cell in cells}
    fit_it = of_cluster(CLUSTER._replace(sample_seconds=1.0), WORKLOAD)
    right = leave_one_out("model", fit_it, hours).errors
    assert right["error"].abs().max() < 1e-5
    wrong = leave_one_out("model", fit_it, {**hours, ("ring", 8): 1000.0}).errors
    i = cells.index(("ring", 8))
    assert wrong["predicted"][i] == pytest.approx(hours["ring", 8], rel=1e-5)
    assert wrong["error"][i] == pytest.approx(hours["ring", 8] / 1000 - 1, rel=1e-4)
    largest = largest_from_smaller("model", fit_it, {**hours, ("ring", 16): 1000.0})
    assert list(zip(largest.errors["topology"], largest.errors["nodes"], strict=True)) == [
        ("fully_connected", 16),
        ("ring", 16),
    ]
    assert largest.errors["predicted"].tolist() == pytest.approx(
        [hours[c] for c in cells if c[1] == 16], rel=1e-5
    )
    assert largest.protocol == "16 nodes from 8 and fewer"


def test_null_models_by_hand():
    """c minimises the relative squares: for work of 40 and 60 node-hours it is 600 / 13."""
    hours = {("ring", 4): 10.0, ("ring", 8): 7.5, ("star", 4): 5.0}
    assert a_constant_a_row(hours)("ring", 16) == pytest.approx(600 / 13 / 16)
    assert a_constant_a_row(hours)("star", 2) == pytest.approx(10)
    grid = np.linspace(15, 60, 45_001)
    squares = sum((grid / (n * h) - 1) ** 2 for (_, n), h in hours.items())
    nearest = grid[squares.argmin()]
    assert no_communication(hours)("star", 1) == pytest.approx(nearest, abs=1e-3)
    one = from_one_cell("null", no_communication, hours, ("ring", 4)).errors
    assert one["predicted"].tolist() == pytest.approx([5.0, 10.0])


def test_alpha_rests_on_the_row_that_pays_it_more_than_once_an_iteration():
    cells = [(name, n) for name in ("fully_connected", "ring") for n in (4, 8, 16)]
    hours = {cell: training_hours(CLUSTER, WORKLOAD, build(*cell)) for cell in cells}
    rng = np.random.default_rng(1)
    hours = {cell: h * rng.lognormal(0, 0.005) for cell, h in hours.items()}
    found = {r.without: r for r in without_rows(CLUSTER, WORKLOAD, hours)}
    assert list(found) == [None, "fully_connected", "ring"]
    assert found[None].determined and found["ring"].determined
    assert not found["fully_connected"].determined  # alpha adds to each iteration what gamma adds
    assert found[None].cluster.between.alpha == pytest.approx(1e-3, rel=0.5)


def test_parameters_on_their_bounds_are_named():
    assert at_bounds(CLUSTER) == ["phi"]
    assert at_bounds(CLUSTER._replace(overlap=0.5)) == []
    assert at_bounds(CLUSTER._replace(overlap=1.0, between=FREE)) == ["alpha", "phi"]


def test_published_hours_are_read_and_stand_beside_their_accuracies():
    tables = tomllib.loads(PUBLISHED.read_text())
    hours = tables["imagenet_resnet50_hours"]["cells"]
    accuracies = tables["imagenet_resnet50"]["cells"]
    assert {k: list(v) for k, v in hours.items()} == {k: list(v) for k, v in accuracies.items()}
    work = {
        name: [int(n) * float(h) for n, h in cells.items() if h != ""]  # "": a place to fill in
        for name, cells in hours.items()
    }
    assert work["fully_connected"] == pytest.approx([46.4, 50.4, 59.2, 70.4])
    assert work["ring"] == pytest.approx([46.4, 52, 52.8, 57.6])
    assert work["one_peer_exponential"] == pytest.approx([44.4, 45.6, 44.8, 48])


# ---- figures, config and script ----


def test_the_map_hatches_exactly_the_cells_where_nothing_is_gained():
    frame = pd.DataFrame([[1.0, 1.04, 1.06], [1.2, 3.0, 40.0]], index=[64, 128])
    frame.columns = [1.0, 10.0, 100.0]
    figure = speed_up_map({"a": frame}, nothing_gained=1.05)
    hatched = [p for p in figure.axes[0].patches if p.get_hatch()]
    assert [p.get_xy() for p in hatched] == [(-0.5, -0.5), (0.5, -0.5)]
    texts = {t.get_text() for t in figure.axes[0].texts}
    assert {"1.0", "1.1", "40"} <= texts


def test_the_hours_are_drawn_as_node_hours():
    cells = pd.DataFrame(
        {"topology": "ring", "nodes": [4, 8], "published": [3.0, 2.0], "fitted": [2.0, 1.0]}
    )
    null = pd.DataFrame({"topology": ["ring", "star"], "nodes": [4, 4], "predicted": [1.0, 9.0]})
    figure = node_hours(cells, {"fitted": "-"}, {"null": null})
    drawn = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert drawn["fitted"] == [8.0, 8.0]
    assert drawn["null"] == [4.0]


def test_the_config_is_read():
    given_ = read(CONFIG)
    assert given_.workload.parameters * given_.workload.bytes_per_parameter == 102_228_128
    assert given_.cluster.gbit == 25


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch = 32", 'batch = "32"', "cluster.batch"),
        ("batch = 32", "bach = 32", "cluster.bach: unknown key; did you mean batch?"),
        ("gbit = 25.0", "gbit = -1.0", "cluster.gbit"),
        ("[reference]", "[referenze]", "referenze: unknown key; did you mean reference?"),
        ("epochs = 90", "epochs = ", "not valid TOML"),
        ("nothing_gained = 1.05", "nothing_gained = 0.5", "beyond.nothing_gained"),
    ],
)
def test_a_wrong_config_is_one_line_that_names_file_and_key(tmp_path, old, new, message):
    path = tmp_path / "wrong.toml"
    text = CONFIG.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        read(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ") and message in line and "\n" not in line


def test_one_peer_predicts_the_others_and_a_slow_all_reduce_is_found():
    """Times made by a link whose all-reduces take 1.5 times a ring's bytes."""
    rows = []
    for elements in (10_000, 1_000_000, 4_000_000):
        message = 4 * elements
        one_peer, ring = LINK.alpha + LINK.beta * message, LINK.alpha + 2 * LINK.beta * message
        slow = 6 * LINK.alpha + 1.5 * 1.5 * LINK.beta * message
        seconds = {"one-peer exponential": one_peer, "ring": ring, "BlueFog allreduce": slow}
        rows += [(FITTED_AT, 4, elements, label, message, s) for label, s in seconds.items()]
    columns = ["place", "ranks", "elements", "averaging", "bytes", "seconds"]
    checked, links = held_out(pd.DataFrame(rows, columns=columns))
    assert links[FITTED_AT, 4] == pytest.approx(LINK)
    assert checked.loc[checked["averaging"] == "ring", "error"].abs().max() < 1e-9
    formulas = {f.name: f for f in all_reduce_formulas(checked, links)}
    found = formulas["ring, beta times f"]
    assert found.slowdown == pytest.approx(1.5)
    assert found.errors[FITTED_AT, 4] == pytest.approx(0, abs=1e-9)
    assert formulas["ring, 2 (n - 1) (alpha + beta m / n)"].errors[FITTED_AT, 4] < -0.25


def test_the_committed_table_follows_from_the_committed_measurements(tmp_path):
    shutil.copytree("results/bench_comm", tmp_path / "bench_comm")
    for path in (tmp_path / "bench_comm").rglob("*"):  # its numbers come from table.json alone
        if path.is_file() and path.name != "table.json":
            path.unlink()
    command = [sys.executable, str(SCRIPT), "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made, committed = (load(root / "cost_model") for root in (tmp_path, Path("results")))
    assert [t.id for t in made.tables] == [t.id for t in committed.tables]
    for ours, theirs in zip(made.tables, committed.tables, strict=True):
        for a, b in zip(ours.records(), theirs.records(), strict=True):
            means = [np.nan if c["mean"] is None else c["mean"] for c in (a, b)]
            same = pytest.approx(means[1], rel=1e-6, abs=1e-9, nan_ok=True)
            assert means[0] == same, f"{ours.id}: run `make cost-model`"
            assert {**a, "mean": 0} == {**b, "mean": 0}
    heat = [root / "cost_model" / "heatmap.csv" for root in (tmp_path, Path("results"))]
    assert heat[0].read_text() == heat[1].read_text()
    for name in ("table.md", "table.tex", "figure_hours.svg", "figure_heatmap.pdf"):
        assert (tmp_path / "cost_model" / name).stat().st_size > 1000


def test_published_and_predicted_hours_are_found_by_topology_and_nodes():
    hours = load(Path("results/cost_model"))["hours"]
    where = {"topology": "one_peer_exponential", "nodes": 4}
    assert hours.cell("published", **where).mean == 11.1
    assert hours.cell("predictive", **where).mean == pytest.approx(11.1)  # calibrated on it
    assert hours.cell("fitted", **where).mean == pytest.approx(11.1, rel=0.05)


def test_the_committed_table_leads_with_errors_on_unseen_cells():
    tables = load(Path("results/cost_model"))
    assert [table.id for table in tables.tables[:2]] == ["hours", "left_out"]
    errors = {
        (r["predicted"], r["model"]): r["mean |error| (%)"] for r in tables["left_out"].means()
    }
    left_out = [r["its error (%)"] for r in tables["hours"].means()]
    mean = errors["each cell from all others", "cost model"]
    assert mean == pytest.approx(np.abs(left_out).mean())
    assert mean < errors["each cell from all others", "no communication"]
    maps = [table.id for table in tables.tables if table.id.startswith("speed_up")]
    assert maps[0].startswith("speed_up_tree") and maps[-1].startswith("speed_up_ring")


def test_without_measurements_the_script_says_what_makes_them(tmp_path):
    command = [sys.executable, str(SCRIPT), "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "make bench-comm" in done.stderr and done.stderr.count("\n") == 1
