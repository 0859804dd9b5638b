"""The newer graphs: their theorems for every n up to 128, and values of their authors' own code."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from graphs import defined

from expograph.graphs import ceca, equi
from expograph.graphs.disagreement import H, S
from expograph.graphs.forms import pairing
from expograph.graphs.overview import of_two_models, overview
from expograph.graphs.spectral import contraction, rho, window_of
from expograph.graphs.topology import Undefined, build, names, undefined

EVERY = range(1, 129)
ROUNDING = 1e-13


def product(topology) -> np.ndarray:
    result = np.eye(topology.n)
    for k in range(topology.period):
        result = topology.at(k).csr @ result
    return result


def off(topology) -> float:
    """The largest entry of a period's product, less 1/n."""
    return np.abs(product(topology) - 1 / topology.n).max()


def degree(topology) -> int:
    steps = window_of(topology, 0, topology.period)
    return int(max(max(W.out_degrees.max(), W.in_degrees.max()) for W in steps))


def is_power(n: int, b: int) -> bool:
    return b ** round(math.log(n, b)) == n


def primes(n: int) -> list[int]:
    return [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]


@pytest.mark.parametrize("name", ["base", "simple_base"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_base_graphs_are_exact_for_every_n_within_their_bound(name, k):
    """Takezawa et al. 2023, theorem 1: at most 2 log_(k+1) n + 2 steps."""
    for n in EVERY:
        topology = build(f"{name}(k={k})", n)
        assert off(topology) < ROUNDING, n
        assert topology.period <= 2 * math.log(n, k + 1) + 2 + 1e-9
        assert degree(topology) <= k


def test_base_graphs_take_as_many_steps_as_their_authors():
    """Periods for n = 2, 3, ...: github yukiTakezawa/BaseGraph, base_graph.py, run beside ours."""
    periods = {
        "base": [1, 3, 2, 5, 4, 5, 3, 7, 6, 7, 5, 7, 6, 7, 4, 9, 8, 9, 7, 9, 8, 9, 6],
        "base(k=2)": [1, 1, 2, 3, 2, 4, 3, 2, 4, 5, 3, 5, 5, 4, 4, 5, 3, 6, 5, 5, 6, 6, 4],
    }
    for name, expected in periods.items():
        assert [build(name, n).period for n in range(2, 2 + len(expected))] == expected


def test_base_2_over_five_by_hand():
    """5 = 4 + 1: blocks 0-3 and 4. Links and weights of BaseGraph's SimpleBaseGraph(5)."""
    topology = build("simple_base", 5)
    links = [
        {
            (i, j): round(w, 12)
            for i in range(5)
            for j, w in topology.at(k).sources(i).items()
            if i < j
        }
        for k in range(topology.period)
    ]
    half = 0.5
    assert links == [
        {(0, 1): half, (2, 3): half},
        {(0, 2): half, (1, 3): half},
        {(0, 1): half, (3, 4): 0.8},
        {(0, 1): half, (2, 3): half},
        {(0, 2): half, (1, 3): half},
    ]


@pytest.mark.parametrize("k", [1, 2, 4])
def test_hyper_hypercubes_are_exact_where_n_has_small_factors_alone(k):
    for n in EVERY:
        if max(primes(n), default=1) > k + 1:
            with pytest.raises(Undefined, match="prime factor"):
                build(f"hyper_hypercube(k={k})", n)
        else:
            topology = build(f"hyper_hypercube(k={k})", n)
            assert off(topology) < ROUNDING and degree(topology) <= k
    twelve = build("hyper_hypercube(k=3)", 12)  # 3 x 4
    assert (twelve.period, degree(twelve)) == (2, 3)


def test_hyper_cuboids_are_exact_after_as_many_steps_as_prime_factors():
    for n in EVERY:
        topology = build("hyper_cuboid", n)
        assert off(topology) < ROUNDING
        degrees = [int(W.out_degrees.max()) for W in window_of(topology, 0, topology.period)]
        assert math.prod(d + 1 for d in degrees) == n
        assert n == 1 or all(d + 1 in primes(n) for d in degrees)


@pytest.mark.parametrize("p", [2, 3, 4])
def test_de_bruijn_is_exact_for_powers_and_near_to_it_for_every_n(p):
    for n in EVERY:
        W, power = build(f"de_bruijn(p={p})", n).at(0).csr, np.eye(n)
        for t in range(1, 9):
            power = W @ power
            assert np.abs(power - 1 / n).max() < p**-t + ROUNDING
            if n == p**t:
                assert np.abs(power - 1 / n).max() < ROUNDING
        assert W.nnz <= p * n


@pytest.mark.parametrize("t", [3, 5, 6])
def test_de_bruijn_has_one_peers_noise_and_its_pull_is_the_same_number(t):
    topology = build("de_bruijn", 2**t)
    assert S(topology) == pytest.approx(2**t - 1 - t) == H(topology)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_k_peer_exponential_leaves_what_its_theorem_says(k):
    """Niwa et al. 2025, theorem 2: zero iff n is a power of k + 1."""
    for n in range(k + 1, 129):
        topology = build(f"k_peer_exponential(k={k})", n)
        tau, f = topology.period, np.arange(1, n)
        assert (k + 1) ** tau <= n < (k + 1) ** (tau + 1) and degree(topology) == k
        hops = (k + 1) ** tau
        bound = np.abs(np.sin(np.pi * f * hops / n) / (hops * np.sin(np.pi * f / n))).max()
        left = contraction(window_of(topology, 0, tau))
        assert left == pytest.approx(bound, abs=1e-12)
        assert (left < 1e-12) == is_power(n, k + 1)


@pytest.mark.parametrize(
    ("n", "k", "left"),  # Niwa et al.'s formula by an independent computation
    [(15, 2, 0.5083), (17, 2, 0.6021), (30, 2, 0.1095), (27, 2, 0.0), (27, 1, 0.5157)],
)
def test_k_peer_exponential_by_numbers(n, k, left):
    topology = build(f"k_peer_exponential(k={k})", n)
    found = np.linalg.norm(product(topology) - 1 / n, ord=2)
    assert found == pytest.approx(left, abs=5e-5)


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_null_cascades_are_exact_for_every_n_within_their_bound(k):
    for n in EVERY:
        topology = build(f"null_cascade(k={k})", n)
        assert off(topology) < ROUNDING
        assert degree(topology) <= k and not any(topology.at(t).has_negative for t in range(9))
        steps, rest = 0, n
        for p in reversed(primes(n)):  # (p - 1) / 2 pairs of zeros, k // 2 a step
            while p > k + 1 and rest % p == 0:
                steps, rest = steps + math.ceil((p - 1) / 2 / (k // 2)), rest // p
        assert topology.period <= max(1, steps + math.log2(rest))
    assert build("null_cascade", 15).at(1).self_weight(0) > 0.4  # the largest weight is the own


@pytest.mark.parametrize(
    ("n", "k", "period"),  # the tables of Niwa et al. 2025; theirs is 3 at (30, 3), ours 4
    [
        (15, 2, 3),
        (17, 2, 8),
        (30, 2, 4),
        (15, 3, 3),
        (17, 3, 8),
        (30, 4, 3),
        (31, 4, 8),
        (69, 2, 12),
    ],
)
def test_null_cascades_take_as_many_steps_as_in_their_paper(n, k, period):
    assert build(f"null_cascade(k={k})", n).period == period


@pytest.mark.parametrize(
    ("n", "k", "period"),  # of Base-(k+1), in the same tables
    [(15, 2, 4), (17, 2, 5), (30, 2, 5), (17, 3, 5), (30, 4, 3), (31, 4, 5), (69, 2, 7)],
)
def test_base_graphs_take_as_many_steps_as_in_that_paper(n, k, period):
    assert build(f"base(k={k})", n).period == period


# ---- EquiTopo ----


@pytest.mark.parametrize("n", [2, 3, 8, 17])
@pytest.mark.parametrize("eta", [0.5, 1.0])
def test_equidyn_shrinks_every_disagreement_alike_in_expectation(n, eta):
    weight, expected = eta * (n - 1) / n, np.zeros((n, n))
    for a in range(1, n):
        P = np.roll(np.eye(n), a, axis=0)
        W = (1 - weight) * np.eye(n) + weight * P
        expected += W.T @ W / (n - 1)
    factor = 1 - 2 * eta * (1 - eta * (n - 1) / n)
    rest = np.eye(n) - 1 / n
    np.testing.assert_allclose(rest @ expected @ rest, factor * rest, atol=1e-12)
    drawn = build(f"od_equidyn(eta={eta})" if eta != 0.5 else "od_equidyn", n, seed=3)
    for k in range(5):
        W = drawn.at(k)
        assert W.self_weight(0) == pytest.approx(1 - weight) and W.in_degrees.max() == 1


@pytest.mark.parametrize("n", [3, 4, 8, 17])
def test_undirected_equidyn_shrinks_at_a_rate_that_n_does_not_change(n):
    weight, expected = 0.5 * (n - 1) / n, np.zeros((n, n))
    for a in range(1, n):
        for start in range(n):
            W = pairing(n, equi.matched(n, a, start), weight).dense()
            expected += W @ W / (n * (n - 1))
    assert np.linalg.eigvalsh(expected - 1 / n)[-1] < 0.6  # one-peer, sampled: 1 - 1 / log2 n


def test_equistatic_has_the_eigenvalues_of_its_authors():
    """n = 300, 9 offsets: 0.71 directed, 0.63 undirected (kexinjinnn/EquiTopo, consensus.ipynb)."""
    for name, theirs in (("d_equistatic", 0.71), ("u_equistatic", 0.63)):
        found = [rho(build(f"{name}(offsets=9)", 300, seed).at(0)) for seed in range(15)]
        assert np.median(found) == pytest.approx(theirs, abs=0.05)
    assert rho(build("static_exponential", 300).at(0)) == pytest.approx(0.8)


def test_equistatic_keeps_its_bound():
    """(8/3) ln(2 n / p) / e^2 offsets: |W - J| < e but with probability p."""
    n, e, p = 40, 0.6, 0.1
    offsets = math.ceil(8 / 3 * math.log(2 * n / p) / e**2)
    found = [
        contraction([build(f"d_equistatic(offsets={offsets})", n, s).at(0)]) for s in range(40)
    ]
    assert np.mean(np.array(found) >= e) <= p


def test_equistatic_is_the_mean_of_its_basis_graphs_by_hand():
    n, W = 5, equi._mean(5, np.array([1, 1, 3]))
    assert W.weights == pytest.approx({0: 1 / n, 1: 0.8 * 2 / 3, 3: 0.8 / 3})
    everything = equi._mean(7, np.arange(1, 7))
    assert everything.is_exact_average


# ---- pairings, servers, CECA, push ----


def hops(topology) -> list[int]:
    return [
        (next(iter(topology.at(k).sources(1))) - 1) % topology.n for k in range(topology.period)
    ]


def test_pairings_of_stochastic_gradient_push_and_quasi_global_momentum():
    """What odd ranks are paired with, ahead: graph_manager.py of
    facebookresearch/stochastic_gradient_push; topology.py of epfml/quasi-global-momentum."""
    assert hops(build("bipartite_exponential", 8)) == [1, 7, 3, 5]
    assert hops(build("bipartite_exponential", 16)) == [1, 15, 3, 13, 5, 11, 9, 7]
    assert hops(build("bipartite_exponential(rule=qgm)", 16)) == [1, 3, 7]
    forwards = [16 - hop for hop in hops(build("directed_exponential", 16))]  # sent to
    assert forwards == [1, 15, 2, 14, 4, 12, 8]
    assert "even" in undefined("bipartite_exponential", 7)


@pytest.mark.parametrize("t", range(1, 8))
def test_directed_exponential_and_alternating_ring_are_exact_for_powers_of_two(t):
    directed, alternating = (
        build(g, 2**t) for g in ("directed_exponential", "alternating_exp_ring")
    )
    assert directed.period == 2 * t - 1 and off(directed) < ROUNDING
    assert alternating.period == 2 * t and off(alternating) < ROUNDING


def test_alternating_ring_by_hand():
    """github WangZesen/Decent-DP, topo.py: 4 nodes, then servers of two."""
    graph = build("alternating_exp_ring", 4)
    pairs = [
        sorted((i, j) for i in range(4) for j in graph.at(k).sources(i) if i < j) for k in range(4)
    ]
    assert pairs == [[(2, 3)], [(0, 1)], [(1, 3)], [(0, 2)]]
    assert off(build("alternating_exp_ring", 8, local_size=2)) < ROUNDING


@pytest.mark.parametrize(("n", "local"), [(8, 4), (16, 4), (12, 3), (30, 5), (24, 8)])
def test_inner_outer_is_bluefogs(n, local):
    util = pytest.importorskip("bluefog.common.topology_util")
    ours = build(f"inner_outer_exponential(local={local})", n)
    for rank in range(n):
        theirs = util.GetInnerOuterExpo2DynamicSendRecvRanks(n, local, rank)
        for k in range(2 * ours.period):
            send, receive = next(theirs)
            assert ours.at(k).destinations(rank) == send
            assert list(ours.at(k).sources(rank)) == receive


@pytest.mark.parametrize("ports", [1, 2])
def test_ceca_is_exact_after_ceil_log2_n_rounds_from_any_start(ports):
    """Ding et al. 2023, by plain loops over the ranks as well."""
    for n in range(2, 129):
        if ports == 1 and n % 2:
            with pytest.raises(Undefined, match="even"):
                ceca.rounds(n, ports)
            continue
        found = ceca.rounds(n, ports)
        assert len(found) == (n - 1).bit_length()
        assert ceca.deviation(np.eye(n), ports) < ROUNDING
        assert all(sorted(r.heard) == list(range(n)) for r in found)
        if ports == 1:
            assert all((r.heard[r.heard] == np.arange(n)).all() for r in found)
    x = np.random.default_rng(1).standard_normal(14)
    hat = x.copy()
    for r in ceca.rounds(14, ports):
        heard = [(hat if r.hat else x)[j] for j in r.heard]
        x = np.array([(1 - r.x) * own + r.x * h for own, h in zip(x, heard, strict=True)])
        hat = np.array(
            [(1 - r.x_hat) * own + r.x_hat * h for own, h in zip(hat, heard, strict=True)]
        )
    assert np.ptp(x) < ROUNDING


@pytest.mark.parametrize("name", ["uniform_gossip", "directed_random"])
def test_push_sum_finds_the_mean_over_graphs_that_are_column_stochastic_alone(name):
    topology, n = build(name, 12, seed=2), 12
    x, w = np.random.default_rng(0).standard_normal(n), np.ones(n)
    mean = x.mean()
    for k in range(200):
        W = topology.at(k)
        assert W.column_stochastic and not W.is_("doubly")
        x, w = W.csr @ x, W.csr @ w
    assert not W.row_stochastic
    np.testing.assert_allclose(x / w, mean, atol=1e-10)


# ---- all together ----


@pytest.mark.parametrize("name", names())
def test_a_graph_says_over_which_n_it_is_not_defined(name):
    over = [n for n in range(2, 65) if undefined(name, n) is None]
    assert len(over) >= 6 and 16 in over
    for n in {5, 7, 12} - set(over):
        reason = undefined(name, n)
        assert reason and "\n" not in reason


@pytest.mark.parametrize("n", [2, 5, 12])
def test_names_over_n_are_those_that_can_be_built(n):
    assert set(names(n)) == {name for name in names() if undefined(name, n) is None}
    pushed = {"uniform_gossip", "directed_random"} if n > 2 else set()  # two that push average
    assert set(names(n)) - set(defined(n, "doubly")) == pushed


@pytest.mark.parametrize(
    ("text", "n", "said"),
    [
        ("base(k=0)", 5, "k must be at least 1, got 0"),
        ("null_cascade(k=1)", 5, "k must be at least 2"),
        ("de_bruijn(p=1)", 5, "p must be at least 2"),
        ("od_equidyn(eta=0.0)", 5, "eta must be above 0"),
        ("d_equistatic(offsets=-1)", 5, "offsets must be at least 0"),
        ("inner_outer_exponential(local=2)", 8, "local must be at least 3"),
        ("directed_random(peers=0)", 8, "peers must be at least 1"),
        ("ceca_2p", 8, "two models a rank"),
        ("alternating_exp_ring", 12, "8 and 16 are the nearest"),
        ("hyper_hypercube", 12, "k = 2 or more"),
    ],
)
def test_what_a_graph_cannot_be_is_one_line(text, n, said):
    with pytest.raises(ValueError, match=said) as refused:
        build(text, n)
    assert "\n" not in str(refused.value)


def test_the_page_on_any_n_has_the_numbers_of_the_command():
    page = (Path(__file__).parents[1] / "docs" / "any-n.md").read_text()
    rows = re.findall(r"^\| `(\S+)` \|((?: [^|]*; [^|]*\|){4})$", page, re.M)
    assert len(rows) == 12 + 10
    for name, cells in rows:
        for n, cell in zip((6, 12, 24, 48), cells.split("|"), strict=False):
            two_models = ceca.NAMES.get(name)
            known = of_two_models(n, two_models) if two_models else overview(build(name, n))
            sent = f"{known.messages:.2f}".rstrip("0").rstrip(".")
            expected = [f"{sent}; {known.exact_after or 'never'}"]
            if known.S is not None:
                expected.append(f"{known.S / n:.3g}; {known.H / n:.3g}")
            assert cell.strip() in expected, (name, n)
