"""Spectral quantities against dense linear algebra, closed forms and the paper's statements."""

import itertools

import numpy as np
import pytest
from graphs import graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from expograph.graphs import spectral, theory
from expograph.graphs.mixing import Sparse
from expograph.graphs.topology import build, ceil_log2, names, one_peer_exponential, undefined


def dense_rho(W: np.ndarray) -> float:
    return float(np.sort(np.abs(np.linalg.eigvals(W)))[::-1][1])


@settings(max_examples=50, deadline=None)
@given(graphs(st.integers(2, 40)), st.integers(0, 50))
def test_rho_and_contraction_equal_dense_linear_algebra(graph, k):
    name, n = graph
    W = build(name, n, 2).at(k)
    assert spectral.rho(W) == pytest.approx(dense_rho(W.dense()), abs=1e-9)
    expected = np.linalg.norm(W.dense() - 1 / n, ord=2)
    assert spectral.contraction([W]) == pytest.approx(expected, abs=1e-12)


def test_iterative_solvers_equal_dense_ones(monkeypatch):
    for name, n in itertools.product(("grid", "star", "hypercube", "half_random"), (60, 61)):
        W = build(name, n, 1).at(0)
        window = spectral.window_of(build("random_match", n, 1), 0, 4)
        dense = spectral.rho(W), spectral.contraction(window)
        monkeypatch.setattr(spectral, "DENSE_LIMIT", 10)
        assert (spectral.rho(W), spectral.contraction(window)) == pytest.approx(dense, abs=1e-9)
        monkeypatch.undo()


def test_directed_matrix_uses_moduli_not_real_parts(monkeypatch):
    n = 30
    shift = np.roll(np.eye(n), 1, axis=1)
    W = Sparse(csr_array(0.5 * np.eye(n) + 0.5 * shift))
    expected = np.cos(np.pi / n)  # |1 + e^(2 pi i / n)| / 2
    assert spectral.rho(W) == pytest.approx(expected)
    monkeypatch.setattr(spectral, "DENSE_LIMIT", 10)
    assert spectral.rho(W) == pytest.approx(expected)


def test_proposition_1_for_every_n_up_to_4096():
    """gap = 2 / (1 + ceil(log2 n)) for even n, larger for odd n; and ||W - J||_2 = rho."""
    for n in range(2, 4097):
        W = build("static_exponential", n).at(0)
        gap, bound = spectral.spectral_gap(W), theory.static_exponential_gap(n)
        if n % 2 == 0:
            assert gap == pytest.approx(bound, abs=1e-12), n
        else:
            assert gap > bound + 1e-6, n
    for n in (6, 7, 32, 33):
        W = build("static_exponential", n).at(0)
        assert np.linalg.norm(W.dense() - 1 / n, ord=2) == pytest.approx(spectral.rho(W))


@pytest.mark.parametrize("tau", range(1, 11))
def test_lemma_1_powers_of_two_average_exactly_from_any_start(tau):
    topology = one_peer_exponential(2**tau)
    for start in range(tau):
        assert spectral.averages_exactly(topology, start, tau)
        assert tau == 1 or not spectral.averages_exactly(topology, start, tau - 1)


@pytest.mark.parametrize("tau", range(1, 6))
def test_lemma_1_any_order_without_repetition(tau):
    n = 2**tau
    steps = [one_peer_exponential(n).at(t).dense() for t in range(tau)]
    for order in itertools.permutations(range(tau)):
        product = np.eye(n)
        for t in order:
            product = steps[t] @ product
        np.testing.assert_allclose(product, np.full((n, n), 1 / n), atol=1e-14)
    permuted = build("one_peer_exponential_permutation", n, 7)
    assert all(spectral.averages_exactly(permuted, p * tau, tau) for p in range(5))


@pytest.mark.parametrize("n", [n for n in range(3, 200) if n & (n - 1)])
def test_lemma_1_fails_off_the_powers_of_two(n):
    topology = one_peer_exponential(n)
    assert spectral.contraction(spectral.window_of(topology, 0, topology.period)) > 1e-3


@pytest.mark.parametrize(
    ("n", "residual"),
    list(
        zip(
            (3, 5, 6, 7, 12, 17, 33, 48, 100),
            (0.25, 0.20225, 0.21651, 0.125, 0.20913, 0.06144, 0.03111, 0.20690, 0.19164),
            strict=True,
        )
    ),
)
def test_residual_of_one_period(n, residual):
    topology = one_peer_exponential(n)
    window = spectral.window_of(topology, 0, topology.period)
    assert spectral.contraction(window) == pytest.approx(residual, abs=1e-5)


@pytest.mark.parametrize("n", [8, 16, 32, 64, 128])
def test_uniform_sampling_contracts_by_one_minus_one_over_tau_and_is_not_exact(n):
    tau = ceil_log2(n)
    energy = np.mean(
        [np.abs(one_peer_exponential(n).at(t).eigenvalues()) ** 2 for t in range(tau)], axis=0
    )
    assert energy[1:].max() == pytest.approx(theory.uniform_sampling_contraction(n))
    sampled = build("one_peer_exponential_uniform", n, 0)
    exact = [spectral.averages_exactly(sampled, k, tau) for k in range(40)]
    repeats = [
        len({sampled.at(j).destinations(0)[0] for j in range(k, k + tau)}) < tau for k in range(40)
    ]
    assert exact == [not r for r in repeats]  # exact only by the luck of no repetition


@pytest.mark.parametrize("n", [4, 8, 16, 32, 64])
def test_one_peer_hypercube_averages_exactly_only_at_powers_of_two(n):
    for size, exact in ((n, True), (n - 1, False), (n + 1, False)):
        topology = build("one_peer_hypercube", size)
        assert spectral.averages_exactly(topology, 0, topology.period) is exact


@pytest.mark.parametrize("n", [4, 5, 16, 63, 300])
def test_closed_forms_of_ring_and_star(n):
    assert spectral.spectral_gap(build("ring", n).at(0)) == pytest.approx(theory.ring_gap(n))
    assert spectral.spectral_gap(build("star", n).at(0)) == pytest.approx(theory.star_gap(n))


def test_a_million_ranks():
    W = build("static_exponential", 2**20).at(0)
    assert spectral.spectral_gap(W) == pytest.approx(2 / 21, abs=1e-12)


@pytest.mark.parametrize("n", [2048, 2053])  # a power of two, and a prime: the grid is a path
def test_large_graphs_have_gaps_and_windows(n):
    """Above DENSE_LIMIT, windows that average exactly among them: ARPACK fails on a zero matrix."""
    # closed forms: products of paths, W = I - (Laplacian) / 5 inside
    assert spectral.spectral_gap(build("star", n).at(0)) == pytest.approx(theory.star_gap(n))
    assert 0 < spectral.spectral_gap(build("grid", n).at(0)) < 1e-3
    assert spectral.spectral_gap(build("half_random", n, 1).at(0)) > 0.5
    for name in ("one_peer_hypercube", "one_peer_exponential"):
        topology = build(name, n)
        exact = n == 2048
        assert spectral.averages_exactly(topology, 0, topology.period) is exact
        assert not spectral.averages_exactly(topology, 0, topology.period - 1)


def test_the_gap_of_a_long_path_is_the_one_of_its_cosine():
    """Metropolis weights of a path are 1/3 but at its ends, where they keep the rows' sums."""
    n = 1531  # prime, above DENSE_LIMIT
    W = build("grid", n).at(0)
    expected = 2 / 3 * (1 - np.cos(np.pi / n))
    assert spectral.spectral_gap(W) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", names())
def test_symmetry_is_that_of_the_entries(name):
    for n in (m for m in (1, 2, 3, 4, 8, 9) if undefined(name, m) is None):
        W = build(name, n, 1).at(1)
        assert spectral.is_symmetric(W) == np.allclose(W.dense(), W.dense().T, rtol=0, atol=1e-12)
