"""EquiTopo: graphs drawn so that disagreement shrinks at a rate that does not depend on n.

Each is made of basis graphs, A(a) = 1/n I + (n-1)/n P^a with the cyclic shift (P x)_i = x_{i-1},
one for every offset a = 1, ..., n - 1; their mean over all offsets is J. Ref: Song et al. 2022,
arXiv:2210.07881.
"""

import numpy as np

from expograph.graphs.forms import Circulant, pairing
from expograph.graphs.mixing import Mixing
from expograph.graphs.schedule import Topology, at_least, ceil_log2, cyclic, drawn
from expograph.randomness import TOPOLOGY, generator

SETS = 2**32 - 1  # the address of the offsets that are drawn once; steps have the others


def d_equistatic(n: int, *, offsets: int = 0, seed: int = 0) -> Topology:
    """D-EquiStatic: the mean of A(a) over offsets drawn once, with replacement. Directed.

    With probability 1 - p, |W - J|_2 < e for (8/3) ln(2 n / p) / e^2 offsets or more.

    Args:
        n: number of ranks.
        offsets: how many are drawn, the most peers of a rank; 0 for ceil(log2 n), as many as the
            static exponential graph has.
        seed: of the draw.
    """
    chosen = _offsets(n, offsets or ceil_log2(n), seed)
    return cyclic("d_equistatic", [_mean(n, chosen)], seed)


def u_equistatic(n: int, *, offsets: int = 0, seed: int = 0) -> Topology:
    """U-EquiStatic: the mean of (A(a) + A(a)^T) / 2 over offsets drawn once. Undirected.

    The bound is D-EquiStatic's; a rank has up to twice as many peers as offsets are drawn.

    Args:
        n: number of ranks.
        offsets: how many are drawn, with replacement; 0 for ceil(log2 n).
        seed: of the draw.
    """
    chosen = _offsets(n, offsets or ceil_log2(n), seed)
    return cyclic("u_equistatic", [_mean(n, np.append(chosen, n - chosen))], seed)


def od_equidyn(n: int, *, eta: float = 0.5, offsets: int = 0, seed: int = 0) -> Topology:
    """OD-EquiDyn: at each step (1 - eta) I + eta A(a) with an offset a drawn anew. One peer.

    Over all offsets a step leaves E |W x|^2 = (1 - 2 eta (1 - eta (n-1)/n)) |x|^2 of any
    disagreement x: less than half for eta = 1/2, for any n (the equality is ours).

    Args:
        n: number of ranks.
        eta: share of the basis graph, above 0 and at most 1.
        offsets: how many offsets the steps choose from, drawn once; 0 for all of 1, ..., n - 1.
        seed: of the draws.
    """
    chosen, weight = _offsets(n, offsets, seed), _weight(n, eta)

    def at(k: int) -> Mixing:
        a = int(generator(seed, TOPOLOGY, k).choice(chosen))
        return Circulant(n, {0: 1 - weight, a % n: weight} if n > 1 else {0: 1.0})

    return drawn("od_equidyn", n, at, seed)


def ou_equidyn(n: int, *, eta: float = 0.5, offsets: int = 0, seed: int = 0) -> Topology:
    """OU-EquiDyn: at each step a matching of ranks a apart, offset and first rank drawn anew.

    From a drawn rank on, every rank i that is free takes i + a if that is free; a pair puts
    eta (n-1)/n on each other, the others idle. Undirected, one peer.

    Args:
        n: number of ranks.
        eta: share of the matching, above 0 and at most 1.
        offsets: how many offsets the steps choose from, drawn once; 0 for all of 1, ..., n - 1.
        seed: of the draws.
    """
    chosen, weight = _offsets(n, offsets, seed), _weight(n, eta)

    def at(k: int) -> Mixing:
        draws = generator(seed, TOPOLOGY, k)
        a, start = int(draws.choice(chosen)), int(draws.integers(n))
        return pairing(n, matched(n, a, start), weight) if n > 1 else Circulant(1, {0: 1.0})

    return drawn("ou_equidyn", n, at, seed)


def matched(n: int, a: int, start: int) -> np.ndarray:
    """Pairs (m, 2) of free ranks i and i + a mod n, taken in the order start, start + 1, ..."""
    free, pairs = np.ones(n, dtype=bool), []
    for i in (*range(start, n), *range(start)):
        j = (i + a) % n
        if free[i] and free[j]:
            free[i] = free[j] = False
            pairs.append((i, j))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _offsets(n: int, number: int, seed: int) -> np.ndarray:
    """Offsets drawn once with replacement; all of them, 1 ... n - 1, for number 0."""
    at_least(0, offsets=number)
    every = np.arange(1, max(n, 2))
    return generator(seed, TOPOLOGY, SETS).choice(every, size=number) if number else every


def _mean(n: int, offsets: np.ndarray) -> Circulant:
    weights = dict.fromkeys(range(n), 0.0)
    weights[0] = 1 / n
    for a in offsets.tolist():
        weights[a % n] += (n - 1) / n / len(offsets)
    return Circulant(n, weights)


def _weight(n: int, eta: float) -> float:
    """What a rank puts on its peer."""
    if not 0 < eta <= 1:
        raise ValueError(f"eta must be above 0 and at most 1, got {eta}")
    return eta * (n - 1) / n
