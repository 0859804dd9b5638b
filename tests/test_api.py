"""The public API: its names, what `topology` takes, against networkx and closed forms."""

import ast
import subprocess
import sys
from itertools import count
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import expograph as eg
from expograph import lazy

ROOT = Path(eg.__file__).parent
CALLS = count()  # another matrix a call
PUBLIC = ["graphs/convert.py", "api", "problems/supervised.py"]


def test_every_public_name_is_there_and_in_the_stub():
    for name in eg.__all__:
        assert getattr(eg, name) is not None
    stub = ast.parse((ROOT / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    declared = {node.names[0].asname: node.module for node in imports}
    assert set(declared) | {"__version__"} == set(eg.__all__) == set(dir(eg))
    assert {n: m for n, m in declared.items() if n in lazy.NAMES} == {
        n: f"expograph.{m}" for n, m in lazy.NAMES.items()
    }
    with pytest.raises(AttributeError, match="'expograph' has no attribute 'topologies'"):
        _ = eg.topologies


@pytest.mark.parametrize("line", ["", "; eg.topology('ring', 4); eg.S([(0, 1)]); eg.load"])
def test_importing_the_package_and_asking_graphs_imports_no_torch(line):
    code = f"import expograph as eg, sys{line}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_examples_in_docstrings_run():
    paths = [str(ROOT / part) for part in PUBLIC]
    command = [sys.executable, "-m", "pytest", "-q", "--doctest-modules", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.integers(0, 2**16))
def test_edges_and_networkx_graphs_have_the_weights_of_metropolis(n, seed):
    graph = nx.gnp_random_graph(n, 0.5, seed=seed)
    degree = dict(graph.degree)
    W = np.zeros((n, n))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1 / (1 + max(degree[i], degree[j]))
    np.fill_diagonal(W, 1 - W.sum(axis=1))
    for what in (graph, list(graph.edges), {(j, i) for i, j in graph.edges}):
        np.testing.assert_allclose(eg.topology(what, n).at(3).dense(), W, atol=1e-15)


def test_weights_of_a_graph_are_kept_and_what_is_left_stays_with_the_rank():
    graph = nx.Graph([(0, 1, {"weight": 0.2}), (1, 2, {"weight": 0.3})])
    W = [[0.8, 0.2, 0], [0.2, 0.5, 0.3], [0, 0.3, 0.7]]
    for what in (graph, [(0, 1, 0.2), (1, 2, 0.3)], np.array(W), csr_array(W)):
        np.testing.assert_allclose(eg.topology(what).at(0).dense(), W)


def test_arcs_are_sent_from_the_first_to_the_second():
    W = eg.topology(nx.DiGraph([(0, 1), (1, 2), (2, 0)])).at(0)
    assert W.destinations(0) == [1] and W.sources(0) == {2: 0.5}
    exponential = nx.DiGraph([(i, (i + 2**t) % 8) for i in range(8) for t in range(3)])
    ours = eg.topology("static_exponential", 8).at(0)
    np.testing.assert_allclose(eg.topology(exponential).at(0).dense(), ours.dense())


def test_nodes_of_any_name_are_ranks_in_their_order():
    W = eg.topology(nx.Graph([("b", "a"), ("a", "c")])).at(0)
    assert W.destinations(1) == [0, 2] and W.n == 3


def test_sequences_and_functions_are_schedules():
    one_peer = eg.topology("one_peer_exponential", 8)
    dense = [one_peer.at(k).dense() for k in range(3)]
    for what in (dense, np.stack(dense), [csr_array(W) for W in dense]):
        schedule = eg.topology(what)
        assert schedule.period == 3 and eg.averages_exactly(schedule)
        assert not eg.averages_exactly(schedule, steps=2)
        assert eg.averages_exactly(schedule, start=1, steps=3)
        np.testing.assert_array_equal(schedule.at(4).dense(), dense[1])
    cyclic = eg.topology(lambda k: dense[k], period=3)
    assert eg.averages_exactly(cyclic) and eg.S(cyclic) == pytest.approx(8 - 1 - 3)
    drawn = eg.topology(lambda k: nx.random_regular_graph(3, 8, seed=k))
    assert drawn.period is None and drawn.n == 8
    matchings = eg.topology([[(0, 1), (2, 3)], [(0, 2), (1, 3)]])
    assert eg.averages_exactly(matchings)


def test_questions_have_closed_forms():
    assert eg.spectral_gap(eg.topology("static_exponential", 16)) == pytest.approx(2 / 5)
    assert eg.spectral_gap(np.full((4, 4), 0.25)) == pytest.approx(1)
    assert eg.contraction(nx.star_graph(5)) == pytest.approx(1 - 1 / 6)
    gaps = 1 / 3 + 2 / 3 * np.cos(2 * np.pi * np.arange(1, 9) / 9)  # eigenvalues of the ring
    assert eg.S(nx.cycle_graph(9)) == pytest.approx((gaps**2 / (1 - gaps**2)).sum())
    assert eg.H(nx.cycle_graph(9)) == pytest.approx(((gaps / (1 - gaps)) ** 2).sum())


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("one_pear_exponential", "did you mean 'one_peer_exponential'"),
        (np.ones((2, 3)), "square, .n, n.; got an array of 2 x 3"),
        (np.full((2, 2), 0.4), "rank 0 takes in sum to 0.8"),
        (np.array([[1.5, -0.5], [-0.5, 1.5]]), "a weight is negative"),
        (np.array([["a"]]), "holds numbers"),
        (np.array([[np.nan]]), "sum to nan"),
        (np.array([[0.9, 0.1], [0.9, 0.1]]), "doubly stochastic"),
        ([[0.5, 0.5], [0.5, 0.5]], "an edge is"),
        ([(0, 1), (1, 9)], "ranks are 0..3"),
        ([(1, 1)], "with itself"),
        ([(0, 1, 0.5), (1, 2)], "some have a weight"),
        (nx.DiGraph([(0, 1), (0, 2)]), "as many arcs into as out of"),
        (nx.MultiGraph([(0, 1)]), "multigraph"),
        (lambda k: np.roll(np.eye(4), next(CALLS), axis=0), "two calls give two matrices"),
        (eg.topology("ring", 5), "has 5 ranks, not n = 4"),
        (7, "a topology is a name, edges"),
    ],
)
def test_what_is_no_topology_is_one_line(what, words):
    with pytest.raises(ValueError, match=words) as found:
        eg.topology(what, None if isinstance(what, np.ndarray) else 4)
    assert "\n" not in str(found.value)
