"""Topologies against networkx, closed forms, values by hand, and BlueFog if installed."""

import re

import networkx as nx
import numpy as np
import pytest
from graphs import graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from expograph.graphs.checks import ScheduleError, check_schedule
from expograph.graphs.forms import OnePeer
from expograph.graphs.mixing import Sparse, bytes_sent
from expograph.graphs.topology import (
    Topology,
    build,
    canonical,
    ceil_log2,
    grid_shape,
    names,
    one_peer_exponential,
    static_exponential,
)

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24)
DIRECTED = ("exponential", "null_cascade", "de_bruijn", "d_equi", "od_equi", "gossip", "directed")
SYMMETRIC = [t for t in names() if "bipartite" in t or not any(word in t for word in DIRECTED)]
PUSHED = ("uniform_gossip", "directed_random")  # column stochastic alone
sizes = st.integers(1, 60)


def neighbors(name: str, n: int) -> list[set[int]]:
    W = build(name, n).at(0)
    return [set(W.sources(i)) for i in range(n)]


@settings(max_examples=90, deadline=None)
@given(
    graphs(sizes, None),
    st.sampled_from([1, 1, 2, 3]),
    st.integers(0, 10**9),
    st.integers(0, 200),
)
def test_every_step_is_doubly_stochastic_and_its_views_agree(graph, local_size, seed, k):
    name, n = graph
    W = build(name, n, seed, local_size).at(k)
    n *= local_size
    dense = W.dense()
    assert dense.shape == (n, n) and (dense >= 0).all()
    np.testing.assert_allclose(dense.sum(axis=0), 1, atol=1e-12)
    if name not in PUSHED:
        np.testing.assert_allclose(dense.sum(axis=1), 1, atol=1e-12)
    linked = (dense > 0) & ~np.eye(n, dtype=bool)
    for i in range(n):
        assert W.self_weight(i) == pytest.approx(dense[i, i], abs=1e-15)
        assert W.sources(i) == pytest.approx({j: dense[i, j] for j in np.flatnonzero(linked[i])})
        assert W.destinations(i) == np.flatnonzero(linked[:, i]).tolist()
    # the declared communication is the sparsity
    np.testing.assert_array_equal(W.out_degrees, linked.sum(axis=0))
    if W.permutation:
        peer, weight = W.permutation
        rebuilt = (1 - weight) * np.eye(n) + weight * np.eye(n)[peer]
        np.testing.assert_allclose(rebuilt, dense, atol=1e-15)


@settings(max_examples=100, deadline=None)
@given(
    graphs(sizes, None),
    st.sampled_from([1, 1, 2]),
    st.integers(0, 10**9),
    st.integers(0, 50),
)
def test_facts_follow_from_the_entries_whatever_the_form(graph, local_size, seed, k):
    """A special form answers as the general one does for the same entries."""
    name, n = graph
    W = build(name, n, seed, local_size).at(k)
    general = Sparse(W.csr)
    assert W.is_exact_average == general.is_exact_average == np.allclose(W.dense(), 1 / W.n)
    assert W.entries == general.entries == np.count_nonzero(W.dense())
    for fact in ("in_degrees", "out_degrees", "row_sums", "column_sums"):
        np.testing.assert_allclose(getattr(W, fact), getattr(general, fact), atol=1e-12)
    if local_size == 1:
        np.testing.assert_allclose(W.messages, general.messages)
        assert (W.permutation is None) == (general.permutation is None)
        if W.permutation:
            weights = W.permutation[1], general.permutation[1]
            assert weights[0] == pytest.approx(weights[1])
            if weights[0]:
                np.testing.assert_array_equal(W.permutation[0], general.permutation[0])


def test_one_matrix_is_one_all_reduce_however_it_was_made():
    """Ring and torus over three ranks are J; so is a 1/2-random graph that is complete."""
    for name in ("fully_connected", "ring", "torus"):
        assert build(name, 3).at(0).is_exact_average
        np.testing.assert_allclose(build(name, 3).at(0).messages, 4 / 3)
    complete = next(t for s in range(99) if (t := build("half_random", 3, s)).at(0).entries == 9)
    assert complete.at(0).is_exact_average


@pytest.mark.parametrize(
    ("given", "canonical_spelling"),
    [
        ("ring", "ring"),
        ("one_peer_exponential(order=cyclic)", "one_peer_exponential"),
        ("one_peer_exponential( order = uniform )", "one_peer_exponential(order=uniform)"),
        ("one_peer_exponential_permutation", "one_peer_exponential(order=permutation)"),
    ],
)
def test_a_topology_has_one_spelling(given, canonical_spelling):
    assert canonical(given) == canonical_spelling == build(given, 8, seed=1).name


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("RING", "did you mean 'ring'"),
        ("one_peer_exponential(ordr=uniform)", "did you mean 'order'"),
        ("one_peer_exponential(order=unifrom)", "did you mean 'uniform'"),
        ("one_peer_exponential(order=3)", "expected str"),
        ("ring(k=2)", "has no parameters"),
        ("ring(", "expected name"),
    ],
)
def test_a_wrong_spelling_is_one_line(given, said):
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        canonical(given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("matrix", "needs", "said"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], "row", "step 0: the weights that rank 0 takes in sum to 0.9"),
        ([[0.5, 0.5], [0.4, 0.6]], "doubly", "rank 1 gives sum to 1.1"),
        ([[0.5, 0.5], [0.4, 0.6]], "column", "column stochastic"),
        ([[1.5, -0.5], [-0.5, 1.5]], "doubly", "negative"),
    ],
)
def test_a_schedule_is_refused_for_what_an_algorithm_needs(matrix, needs, said):
    schedule = Topology("custom", 2, 1, lambda k: Sparse(csr_array(np.array(matrix))))
    with pytest.raises(ScheduleError, match=f"custom.*{re.escape(said)}"):
        check_schedule(schedule, needs)


def test_sums_of_one_side_are_enough_for_those_that_need_one():
    only_rows = Topology("custom", 2, 1, lambda k: Sparse(csr_array([[0.5, 0.5], [0.4, 0.6]])))
    check_schedule(only_rows, "row")
    for name in names(12, "doubly"):
        check_schedule(build(name, 12, seed=1))
    for name in PUSHED:
        check_schedule(build(name, 12, seed=1), "column")
        with pytest.raises(ScheduleError, match="algorithm needs doubly stochastic matrices"):
            check_schedule(build(name, 12, seed=1))


@settings(max_examples=30, deadline=None)
@given(graphs(sizes, among=SYMMETRIC), st.integers(0, 99))
def test_undirected_graphs_are_symmetric(graph, k):
    name, n = graph
    dense = build(name, n, 1).at(k).dense()
    np.testing.assert_allclose(dense, dense.T, atol=1e-15)


@pytest.mark.parametrize("n", SIZES)
def test_neighbors_equal_networkx(n):
    rows, columns = grid_shape(n)
    number = lambda node: node[0] * columns + node[1]  # noqa: E731
    grid = nx.relabel_nodes(nx.grid_2d_graph(rows, columns), number)
    torus = nx.relabel_nodes(nx.grid_2d_graph(rows, columns, periodic=True), number)
    for name, graph in {
        "grid": grid,
        "torus": torus,
        "star": nx.star_graph(n - 1),
        "ring": nx.cycle_graph(n),
        "fully_connected": nx.complete_graph(n),
    }.items():
        graph.remove_edges_from(list(nx.selfloop_edges(graph)))
        assert neighbors(name, n) == [set(graph[i]) for i in range(n)], name


@pytest.mark.parametrize("tau", range(1, 6))
def test_hypercube_equals_networkx(tau):
    graph = nx.hypercube_graph(tau)  # its nodes are tuples of bits, or bits if tau = 1
    bits = {node: node if tau > 1 else (node,) for node in graph}
    graph = nx.relabel_nodes(graph, {v: int("".join(map(str, b)), 2) for v, b in bits.items()})
    assert neighbors("hypercube", 2**tau) == [set(graph[i]) for i in range(2**tau)]


def test_metropolis_weights_of_a_path_by_hand():
    # grid of 3 is the path 0 - 1 - 2 with |N| = 2, 3, 2
    third = 1 / 3
    expected = [[2 * third, third, 0], [third, third, third], [0, third, 2 * third]]
    np.testing.assert_allclose(build("grid", 3).at(0).dense(), expected, atol=1e-15)


def test_static_exponential_by_hand():
    # n = 8: rank 0 receives from 7, 6 and 4 (1, 2 and 4 before it), every weight 1/4
    W = static_exponential(8).at(0)
    assert W.sources(0) == {7: 0.25, 6: 0.25, 4: 0.25}
    assert W.destinations(0) == [1, 2, 4]
    assert static_exponential(6).at(0).sources(0) == {5: 0.25, 4: 0.25, 2: 0.25}


def test_one_peer_exponential_by_hand():
    topology = one_peer_exponential(8)
    assert [topology.at(k).sources(0) for k in range(4)] == [
        {7: 0.5},
        {6: 0.5},
        {4: 0.5},
        {7: 0.5},
    ]
    assert [topology.at(k).destinations(0) for k in range(3)] == [[1], [2], [4]]


@pytest.mark.parametrize("n", [2, 3, 8, 12, 100, 1100])
def test_offsets_are_the_powers_of_two_below_n(n):
    # integer arithmetic throughout: float logarithms lose exact powers in other libraries
    powers = [2**t for t in range(64) if 2**t < n]
    assert len(powers) == ceil_log2(n)
    assert sorted(static_exponential(n).at(0).destinations(0)) == powers


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 40), st.integers(0, 10**6), st.integers(0, 20))
def test_permutation_order_visits_every_hop_once_a_period(n, seed, period):
    topology = build("one_peer_exponential_permutation", n, seed)
    tau = ceil_log2(n)
    hops = [topology.at(period * tau + t).destinations(0)[0] for t in range(tau)]
    assert sorted(hops) == [2**t for t in range(tau)]


def test_random_schedules_are_addressed_by_seed_and_step():
    for name in (
        "random_match",
        "one_peer_exponential_permutation",
        "one_peer_exponential_uniform",
    ):
        forwards, again = build(name, 16, seed=5), build(name, 16, seed=5)
        late = again.at(50).dense()  # asked for first, before any other step
        np.testing.assert_array_equal(forwards.at(50).dense(), late)
        steps = {forwards.at(k).dense().tobytes() for k in range(30)}
        assert len(steps) > 3
        assert any(
            (build(name, 16, 6).at(k).dense() != forwards.at(k).dense()).any() for k in range(9)
        )


@pytest.mark.parametrize("n", [2, 7, 10, 33])
def test_random_match_pairs_everyone_who_can_be_paired(n):
    W = build("random_match", n, 3).at(4)
    assert isinstance(W, OnePeer)
    assert (W.peer[W.peer] == np.arange(n)).all()
    assert (W.peer == np.arange(n)).sum() == n % 2


def test_half_random_is_connected_and_half_full():
    W = build("half_random", 200, 0).at(0)
    assert 0.47 < W.out_degrees.sum() / (200 * 199) < 0.53
    for n in range(2, 10):
        for seed in range(5):
            assert nx.is_connected(nx.from_numpy_array(build("half_random", n, seed).at(0).dense()))


@pytest.mark.parametrize("name", names(1))
def test_one_worker_averages_with_itself(name):
    assert build(name, 1).at(3).dense().tolist() == [[1.0]]


def test_bad_names_and_sizes_are_refused_with_a_hint():
    with pytest.raises(ValueError, match="did you mean 'one_peer_exponential"):
        build("one_peer_exponentail", 8)
    with pytest.raises(ValueError, match="at least 1 rank, got 0"):
        build("ring", 0)


@pytest.mark.parametrize("n", SIZES)
def test_equal_to_bluefog(n):
    """BlueFog stores row = sender, we store row = receiver: hence the transpose."""
    util = pytest.importorskip("bluefog.common.topology_util")
    theirs = {
        "ring": util.RingGraph,
        "star": util.StarGraph,
        "grid": util.MeshGrid2DGraph,
        "fully_connected": util.FullyConnectedGraph,
        "static_exponential": util.ExponentialTwoGraph,
    }
    for name, graph in theirs.items():
        expected = nx.to_numpy_array(graph(n)).T
        np.testing.assert_allclose(build(name, n).at(0).dense(), expected, atol=1e-12)
    if n > 1:
        base, ours = util.ExponentialTwoGraph(n), one_peer_exponential(n)
        for rank in range(n):
            schedule = util.GetDynamicOnePeerSendRecvRanks(base, rank)
            for k in range(2 * ours.period):
                send, receive = next(schedule)
                assert ours.at(k).destinations(rank) == send
                assert list(ours.at(k).sources(rank)) == receive


# ---- servers of several ranks ----


@settings(max_examples=60, deadline=None)
@given(graphs(st.integers(1, 12), None), st.integers(1, 5), st.integers(0, 50))
def test_servers_are_a_kronecker_product(graph, local_size, k):
    name, n = graph
    servers, ranks = build(name, n, seed=3), build(name, n, 3, local_size)
    inside = np.full((local_size, local_size), 1 / local_size)
    W = ranks.at(k)
    np.testing.assert_allclose(W.dense(), np.kron(servers.at(k).dense(), inside), atol=1e-15)
    assert (ranks.n, ranks.period, ranks.local_size) == (n * local_size, servers.period, local_size)
    assert W.local_size == local_size
    exact = np.allclose(W.dense(), 1 / W.n)
    assert W.is_exact_average == exact


@pytest.mark.parametrize(("n", "exact"), [(2, True), (4, True), (6, False), (8, True)])
@pytest.mark.parametrize("local_size", [1, 2, 8])
def test_one_peer_averages_exactly_over_log2_servers_steps(n, exact, local_size):
    ranks = build("one_peer_exponential", n, local_size=local_size)
    tau = ceil_log2(n)
    product = np.linalg.multi_dot(
        [*(ranks.at(k).dense() for k in range(3, 3 + tau)), np.eye(ranks.n)]
    )
    assert np.allclose(product, 1 / ranks.n, atol=1e-15) == exact
    if tau > 1:
        assert not np.allclose(product, ranks.at(0).dense())


def test_bytes_are_the_leaders():
    """By hand: 4 servers of 2; static exponential sends to 2 servers, one-peer to 1."""
    for name, each in (("static_exponential", 200), ("one_peer_exponential", 100)):
        assert (
            bytes_sent(build(name, 4, local_size=2).at(1).messages, 100).tolist() == [each, 0] * 4
        )
    exact = build("fully_connected", 4, local_size=2).at(0)
    assert bytes_sent(exact.messages, 100).tolist() == [150, 0] * 4  # 2 (4 - 1) / 4 messages
    assert bytes_sent(build("ring", 1, local_size=3).at(0).messages, 100).tolist() == [0, 0, 0]
    star = bytes_sent(build("star", 3, local_size=2).at(0).messages, 10)
    assert star.tolist() == [20, 0, 10, 0, 10, 0]


@pytest.mark.parametrize("local_size", [0, -1])
def test_a_server_has_a_rank(local_size):
    with pytest.raises(ValueError, match="a server needs at least 1 rank"):
        build("ring", 4, local_size=local_size)
