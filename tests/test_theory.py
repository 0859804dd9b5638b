"""The noise model against its closed form, its fixed point and a measured run."""

import numpy as np
import pytest

from expograph.graphs.theory import noise_transient, transient_order
from expograph.graphs.topology import build


@pytest.mark.parametrize("n", [4, 8, 16, 32])
def test_one_peers_noise_sum_is_n_minus_1_minus_log2_n(n):
    found = noise_transient(build("one_peer_exponential", n), factor=2)
    assert found == pytest.approx(n * (2 * (n - 1 - np.log2(n))) ** 2)


@pytest.mark.parametrize("name", ["ring", "star", "grid", "static_exponential"])
def test_static_graphs_noise_sum_is_of_their_singular_values(name):
    """W normal: S = sum over modes of |lambda|^2 / (1 - |lambda|^2)."""
    topology = build(name, 12)
    values = np.sort(np.abs(np.linalg.eigvals(topology.at(0).dense())))[:-1] ** 2
    expected = 12 * (2 * (values / (1 - values)).sum() / 0.5) ** 2
    assert noise_transient(topology) == pytest.approx(expected, rel=1e-4)


def test_simulated_noise_has_the_predicted_size():
    """x <- W (x + noise) settles at a consensus distance of sigma^2 S / n a coordinate."""
    topology, rng = build("one_peer_exponential", 8), np.random.default_rng(0)
    x, seen = np.zeros((8, 2000)), []
    for k in range(60):
        x = topology.at(k).csr @ (x + rng.standard_normal(x.shape))
        if k >= 20:
            seen.append(((x - x.mean(axis=0)) ** 2).sum(axis=0).mean())
    S = (noise_transient(topology, factor=2) / 8) ** 0.5 / 2
    assert np.mean(seen) == pytest.approx(S, rel=0.02)


def test_a_random_schedules_noise_sum_is_its_mean():
    """E W W^T over one-peer graphs drawn uniformly contracts each mode on its own."""
    n, topology = 8, build("one_peer_exponential_uniform", 8)
    found = (noise_transient(topology, factor=2) / n) ** 0.5 / 2
    steps = [np.abs(build("one_peer_exponential", n).at(k).eigenvalues()) ** 2 for k in range(3)]
    kept = np.mean(steps, axis=0)[1:]
    assert found == pytest.approx((kept / (1 - kept)).sum(), rel=0.1)


def test_orders_are_those_of_the_gap():
    assert transient_order("ring", 64) / transient_order("ring", 32) == pytest.approx(
        2**7, rel=0.02
    )
    assert transient_order("star", 64) / transient_order("star", 32) == pytest.approx(2**5)
    assert transient_order("one_peer_exponential", 16) == 16**3 * 16
