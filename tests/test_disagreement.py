"""S and H against closed forms, a table computed elsewhere, and sums over products."""

import itertools

import numpy as np
import pytest

from expograph.graphs import disagreement
from expograph.graphs.disagreement import H, S
from expograph.graphs.forms import Circulant
from expograph.graphs.modes import modes_of
from expograph.graphs.topology import Topology, build

# S/n and H/n by an independent computation, two digits
COMPUTED = {
    ("one_peer_exponential", 16): (0.69, 1.3),
    ("static_exponential", 16): (0.18, 0.33),
    ("torus", 16): (0.20, 0.60),
    ("grid", 16): (0.56, 6.1),
    ("ring", 16): (1.5, 46),
    ("one_peer_exponential", 32): (0.81, 1.8),
    ("static_exponential", 32): (0.19, 0.37),
    ("torus", 32): (0.39, 4.0),
    ("grid", 32): (0.89, 29),
    ("ring", 32): (3.5, 399),
    ("one_peer_exponential", 64): (0.89, 2.2),
    ("static_exponential", 64): (0.18, 0.37),
    ("torus", 64): (0.44, 4.5),
    ("grid", 64): (0.94, 34),
    ("ring", 64): (7.4, 3.3e3),
    ("one_peer_exponential", 256): (0.97, 2.7),
    ("static_exponential", 256): (0.15, 0.30),
    ("torus", 256): (0.71, 22),
    ("grid", 256): (1.3, 155),
    ("ring", 256): (31, 2.1e5),
    ("one_peer_exponential", 1024): (0.99, 2.9),
    ("static_exponential", 1024): (0.12, 0.23),
    ("torus", 1024): (0.98, 96),
    ("ring", 1024): (127, 1.3e7),
    ("one_peer_exponential", 4096): (1.00, 3.0),
    ("static_exponential", 4096): (0.10, 0.18),
    ("torus", 4096): (1.26, 392),
    ("ring", 4096): (511, 8.6e8),
}


@pytest.mark.parametrize(("name", "n"), COMPUTED)
def test_the_table_computed_elsewhere(name, n):
    topology = build(name, n)
    wanted = COMPUTED[name, n]
    assert (S(topology) / n, H(topology) / n) == pytest.approx(wanted, rel=0.05, abs=0.005)


@pytest.mark.parametrize("t", range(1, 13))
def test_one_peers_noise_sum_is_n_minus_1_minus_log2_n_and_its_pull_stays_below_3n(t):
    topology = build("one_peer_exponential", 2**t)
    assert S(topology) == pytest.approx(2**t - 1 - t, rel=1e-9, abs=1e-9)
    assert H(topology) < 3 * 2**t


@pytest.mark.parametrize("n", [8, 16])
def test_the_order_of_one_peer_graphs_changes_neither(n):
    steps = [build("one_peer_exponential", n).at(k) for k in range(n.bit_length() - 1)]
    found = []
    for order in itertools.permutations(steps):
        topology = Topology("ordered", n, len(order), lambda k, order=order: order[k % len(order)])
        found.append((S(topology), H(topology)))
    np.testing.assert_allclose(found, np.tile(found[0], (len(found), 1)), rtol=1e-12)


@pytest.mark.parametrize(("n", "share"), [(16, 0.6875), (256, 0.96484375)])
def test_de_bruijn_has_one_peers_noise_and_half_its_pull(n, share):
    topology = build("de_bruijn", n)
    assert modes_of(topology) is None
    assert S(topology) / n == pytest.approx(share) == S(build("one_peer_exponential", n)) / n
    assert H(topology) / n == pytest.approx(share)
    assert H(build("one_peer_exponential", 16)) / 16 == pytest.approx(1.3125)


@pytest.mark.parametrize("name", ["ring", "star", "grid", "torus", "hypercube", "half_random"])
def test_static_graphs_are_sums_over_eigenvalues(name):
    topology = build(name, 12)
    values = np.linalg.eigvalsh(topology.at(0).dense())[:-1]
    assert S(topology) == pytest.approx((values**2 / (1 - values**2)).sum())
    assert H(topology) == pytest.approx(((values / (1 - values)) ** 2).sum())


@pytest.mark.parametrize(
    "name",
    ["one_peer_exponential", "one_peer_hypercube", "static_exponential", "torus", "ring", "grid"],
)
@pytest.mark.parametrize("n", [6, 8, 12])
def test_they_are_the_sums_over_products_of_the_definition(name, n):
    topology, J = build(name, n), np.full((n, n), 1 / n)
    noise, pull = [], []
    first = -(-400 // topology.period) * topology.period
    for k in range(first, first + topology.period):
        product, squares, total = np.eye(n), 0.0, np.zeros((n, n))
        for j in range(k, -1, -1):
            product = product @ topology.at(j).csr  # W(k) ... W(j)
            squares += np.linalg.norm(product) ** 2 - 1
            total += product - J
        noise.append(squares)
        pull.append(np.linalg.norm(total) ** 2)
    assert (S(topology), H(topology)) == pytest.approx((np.mean(noise), np.mean(pull)), rel=1e-4)


@pytest.mark.parametrize("name", ["torus", "one_peer_exponential", "one_peer_hypercube", "ring"])
def test_modes_and_dense_recursions_agree(name, monkeypatch):
    topology = build(name, 16)
    assert modes_of(topology) is not None
    wanted = S(topology), H(topology)
    monkeypatch.setattr(disagreement, "modes_of", lambda topology: None)
    assert (S(topology), H(topology)) == pytest.approx(wanted)


def test_random_matchings_average_to_their_closed_form():
    """E W is a projection's: with a = (n-2) / 2(n-1) on what is mean-free, S = (n-1) a / (1-a)."""
    n, topology = 8, build("random_match", 8)
    a = (n - 2) / (2 * (n - 1))
    assert S(topology) == pytest.approx((n - 1) * a / (1 - a), rel=0.02)
    assert H(topology) == pytest.approx((n - 1) * a * (1 + a) / (1 - a) ** 2, rel=0.05)


def test_ranks_that_never_hear_of_each_other_never_agree():
    apart = Topology("apart", 4, 1, lambda k: Circulant(4, {0: 0.5, 2: 0.5}))
    assert S(apart) == H(apart) == np.inf
    assert S(build("ring", 1)) == 0
    assert S(build("fully_connected", 5)) == pytest.approx(0, abs=1e-30)


@pytest.mark.parametrize("name", ["ring", "random_match"])
def test_too_many_ranks_are_refused_in_one_line(name):
    topology = build(name, 8192 if name == "ring" else 1026)
    with pytest.raises(ValueError, match=r"at most [\d,]+ ranks") as refused:
        S(topology)
    assert "\n" not in str(refused.value)
