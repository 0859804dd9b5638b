"""The embedded engine against dense matrix products."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from expograph.engines import embedded
from expograph.engines.embedded import Embedded
from expograph.graphs.mixing import bytes_sent
from expograph.graphs.topology import build, names


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(names()),
    st.integers(1, 24),
    st.sampled_from([1, 7, 40]),
    st.sampled_from([1, 10**9]),
    st.integers(0, 5),
)
def test_mixing_equals_dense_products_over_many_steps(name, n, d, rowwise_from, seed):
    before, embedded.GRAIN = embedded.GRAIN, rowwise_from
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
    st.sampled_from(names()),
    st.integers(1, 9),
    st.integers(2, 5),
    st.sampled_from([1, 7, 40]),
    st.sampled_from([1, 10**9]),
)
def test_servers_mix_as_kronecker_products_and_their_rows_are_equal(
    name, servers, local_size, d, rowwise_from
):
    before, embedded.GRAIN = embedded.GRAIN, rowwise_from
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
