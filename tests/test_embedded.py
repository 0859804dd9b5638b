"""The embedded engine against dense matrix products."""

import numpy as np
import pytest
import torch
from graphs import graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from expograph.engines import embedded
from expograph.engines.embedded import Embedded
from expograph.graphs.forms import OnePeer
from expograph.graphs.mixing import Mixing, Sparse, bytes_sent
from expograph.graphs.topology import build


def with_few_runs(n: int, rng: np.random.Generator) -> OnePeer:
    """Blocks of rows, up to three, in another order."""
    parts = np.array_split(np.arange(n), np.sort(rng.integers(0, n + 1, size=2)))
    return OnePeer(np.concatenate([parts[i] for i in rng.permutation(3)]), 0.3)


def any_matrix(n: int, rng: np.random.Generator) -> Sparse:
    W = np.eye(n) + rng.random((n, n)) * (rng.random((n, n)) < 0.1)
    return Sparse(csr_array(W / W.sum(axis=1, keepdims=True)))


MATRICES = {  # n and a generator -> W; with the schedules below they take every path of `prepare`
    "many runs": lambda n, rng: OnePeer(rng.permutation(n), 0.3),
    "few runs": with_few_runs,
    "sparse": any_matrix,
    **{
        name: lambda n, rng, name=name: build(name, n).at(int(rng.integers(9)))
        for name in ("one_peer_exponential", "one_peer_hypercube", "static_exponential", "ring")
    },
    "dense": lambda n, rng: build("half_random", n).at(0),
}


def check(W: Mixing, d: int, rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.standard_normal((W.n, d)))
    before, expected = x.clone(), torch.from_numpy(W.dense()) @ x
    apply = embedded.prepare(W, x)
    assert torch.equal(apply(x), apply(x)) and torch.equal(x, before)
    torch.testing.assert_close(apply(x), expected, rtol=0, atol=1e-12)
    single = x.float()
    torch.testing.assert_close(embedded.prepare(W, single)(single), expected.float())


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(MATRICES)),
    st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33]),
    st.sampled_from([0, 1, 2, 15, 16, 17, 31, 32, 33, 70]),
    st.sampled_from([1, 32, 10**9]),
    st.integers(0, 2**32 - 1),
)
def test_every_way_of_mixing_is_the_dense_product(kind, n, d, grain, seed):
    """With thresholds so low that d = 16, 32 are at them and a row is cut into blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "GRAIN", grain)
        patch.setattr(embedded, "BLOCK", 1024)
        patch.setattr(embedded, "LEAST_COLUMNS", 16)
        rng = np.random.default_rng(seed)
        check(MATRICES[kind](n, rng), d, rng)


@pytest.mark.parametrize("kind", sorted(MATRICES))
@pytest.mark.parametrize("d", [embedded.GRAIN - 1, embedded.GRAIN, 2 * embedded.GRAIN + 1])
def test_at_the_real_thresholds(kind, d):
    rng = np.random.default_rng(d)
    check(MATRICES[kind](23, rng), d, rng)


def test_runs_are_found_where_they_are_few():
    n = embedded.FEW_RUNS
    assert embedded._runs(np.arange(5)) == [(slice(0, 5), slice(0, 5))]
    shift = np.roll(np.arange(9), 4)
    assert embedded._runs(shift) == [(slice(0, 4), slice(5, 9)), (slice(4, 9), slice(0, 5))]
    assert len(embedded._runs(np.arange(n)[::-1])) == n
    assert embedded._runs(np.arange(n + 1)[::-1]) == []


@settings(max_examples=60, deadline=None)
@given(
    graphs(st.integers(1, 24), None),
    st.sampled_from([1, 7, 40]),
    st.sampled_from([1, 10**9]),
    st.integers(0, 5),
)
def test_mixing_equals_dense_products_over_many_steps(graph, d, grain, seed):
    name, n = graph
    before, embedded.GRAIN = embedded.GRAIN, grain
    try:
        topology = build(name, n, seed)
        engine = Embedded(topology)
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, d))
        ours = torch.from_numpy(x.copy())
        for k in range(8):
            x = topology.at(k).dense() @ x
            ours = engine.mixer(k)(ours)
            np.testing.assert_allclose(ours.numpy(), x, atol=1e-12)
    finally:
        embedded.GRAIN = before


@settings(max_examples=60, deadline=None)
@given(
    graphs(st.integers(1, 9)),
    st.integers(2, 5),
    st.sampled_from([1, 7, 40]),
    st.sampled_from([1, 10**9]),
)
def test_servers_mix_as_kronecker_products_and_their_rows_are_equal(graph, local_size, d, grain):
    name, servers = graph
    before, embedded.GRAIN = embedded.GRAIN, grain
    try:
        engine = Embedded(build(name, servers, 5, local_size))
        between = build(name, servers, 5)
        inside = np.full((local_size, local_size), 1 / local_size)
        x = np.random.default_rng(5).standard_normal((servers * local_size, d))
        ours = torch.from_numpy(x.copy())
        noise = np.random.default_rng(6).standard_normal((6, *x.shape))
        for k in range(6):
            x = np.kron(between.at(k).dense(), inside) @ (x + noise[k])
            ours = engine.mixer(k)(ours + torch.from_numpy(noise[k]))
            np.testing.assert_allclose(ours.numpy(), x, atol=1e-12)
            rows = ours.unflatten(0, (servers, local_size))
            assert (rows == rows[:, :1]).all()
    finally:
        embedded.GRAIN = before


def test_leaders_send_for_their_servers():
    engine = Embedded(build("one_peer_exponential", 4, local_size=2))
    for k in range(3):
        engine.mixer(k)(torch.zeros(8, 100, dtype=torch.float32))
    assert engine.sent.tolist() == [3 * 400, 0] * 4


def test_several_arrays_in_one_call_are_mixed_each():
    engine, W = Embedded(build("static_exponential", 6)), build("static_exponential", 6).at(0)
    a, b = torch.randn(6, 5), torch.randn(6, 3)
    x, m = engine.mixer(0)(a.clone(), b.clone())
    dense = torch.from_numpy(W.dense()).float()
    torch.testing.assert_close(x, dense @ a)
    torch.testing.assert_close(m, dense @ b)


def test_results_do_not_share_memory_with_later_calls():
    engine = Embedded(build("ring", 5))
    kept = engine.mixer(0)(torch.randn(5, 4))
    copy = kept.clone()
    for k in range(3):
        engine.mixer(k)(torch.randn(5, 4))
    torch.testing.assert_close(kept, copy)


@pytest.mark.parametrize(
    ("name", "busiest"),
    [
        ("ring", 2),
        ("star", 7),
        ("hypercube", 3),
        ("static_exponential", 3),
        ("one_peer_exponential", 1),
        ("random_match", 1),
    ],
)
def test_bytes_are_messages_times_their_size(name, busiest):
    engine = Embedded(build(name, 8))
    for k in range(5):
        engine.mixer(k)(torch.zeros(8, 100, dtype=torch.float32))
    assert engine.sent.max() == 5 * busiest * 100 * 4


def test_exact_average_counts_as_ring_all_reduce():
    sent = bytes_sent(build("fully_connected", 8).at(0).messages, 8000)
    assert (sent == 2 * 7 * 1000).all()


def test_a_million_ranks_average_exactly():
    topology = build("one_peer_exponential", 2**20)
    engine = Embedded(topology)
    x = torch.randn(2**20, 4, dtype=torch.float64)
    mean = x.mean(dim=0)
    for k in range(3, 3 + topology.period):
        x = engine.mixer(k)(x)
    torch.testing.assert_close(x, mean.expand_as(x), atol=1e-12, rtol=0)
