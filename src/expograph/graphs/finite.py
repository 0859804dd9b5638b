"""Graphs after which all ranks have the exact average, for n that need not be a power of two.

Base-(k+1) and what it is made of (Takezawa et al. 2023, arXiv:2305.11420), hyper-cuboids and de
Bruijn graphs (Nguyen et al. 2023, arXiv:2311.01317). All but de Bruijn graphs are undirected.
"""

import math
from typing import NamedTuple

import numpy as np

from expograph.graphs.forms import linked, pairing
from expograph.graphs.mixing import Mixing, Sparse, from_coordinates
from expograph.graphs.schedule import Topology, Undefined, at_least, cyclic, floor_log


class Links(NamedTuple):
    """Undirected links (m, 2), each once, and their weights (m,)."""

    edges: np.ndarray
    weights: np.ndarray


def hyper_hypercube(n: int, *, k: int = 1) -> Topology:
    """k-peer hyper-hypercube: in each step cliques of at most k + 1 ranks average, weights equal.

    n = n_1 n_2 ... n_L, each at most k + 1; in step l the ranks average that differ in digit l
    alone, written with n_1, ..., n_L as radices. L steps average exactly; a rank has n_l - 1 peers
    in step l. With k = 1 it is the one-peer hypercube.

    Args:
        n: number of ranks, without prime factors above k + 1.
        k: the most peers of a rank in a step, at least 1.
    Raises:
        Undefined: for other n.
    Ref: Takezawa et al. 2023, section 4.1.
    """
    at_least(1, k=k)
    factors, rest = smooth_factors(n, k)
    if rest > 1:
        prime = prime_factors(n)[-1]
        raise Undefined(
            f"{n} has the prime factor {prime}, above k + 1 = {k + 1}: k = {prime - 1} or more, "
            "or base for any n"
        )
    return _cyclic("hyper_hypercube", n, _hyper_hypercube(np.arange(n), factors))


def hyper_cuboid(n: int) -> Topology:
    """p-peer hyper-cuboid: in step l ranks average that differ in digit l of their mixed radix.

    The radices are the prime factors of n, p_1 <= p_2 <= ...; a rank has p_l - 1 peers in step l.
    As many steps as prime factors average exactly, for any n; a prime n takes one, with all.
    Ref: Nguyen et al. 2023.
    """
    return _cyclic("hyper_cuboid", n, _hyper_hypercube(np.arange(n), prime_factors(n)))


def de_bruijn(n: int, *, p: int = 2) -> Topology:
    """The same each step: rank j sends 1/p of its model to each of p j, ..., p j + p - 1 mod n.

    For n = p^t, t steps average exactly: after one-peer graphs' log2 n steps for p = 2, with two
    messages a step, one-peer's S, and H = S. Over other n (Imase & Itoh 1981) it is doubly
    stochastic too, and an entry of W^t is within p^-t of 1/n. It is not symmetric, nor normal.

    Args:
        n: number of ranks.
        p: how many parts a model is sent in, at least 2.
    Ref: Nguyen et al. 2023, who take n = p^t.
    """
    at_least(2, p=p)
    senders = np.repeat(np.arange(n), p)
    receivers = (p * senders + np.tile(np.arange(p), n)) % n
    W = from_coordinates(n, np.full(n * p, 1 / p), receivers, senders)
    return cyclic("de_bruijn", [Sparse(W)])


def simple_base(n: int, *, k: int = 1) -> Topology:
    """Simple Base-(k+1): exact for any n, at most k peers a rank and step.

    n is written in base k + 1, n = a_1 (k+1)^p_1 + a_2 (k+1)^p_2 + ..., and ranks are cut into
    blocks of those sizes. Every block averages inside; then each block hands its share of the mean
    to all later ones, one after the other; at last what it handed out is spread inside again.
    Takes at most 2 log_(k+1) n + 2 steps.

    Args:
        n: number of ranks.
        k: the most peers of a rank in a step, at least 1.
    Ref: Takezawa et al. 2023, algorithm 2.
    """
    at_least(1, k=k)
    return _cyclic("simple_base", n, _simple_base(np.arange(n), k))


def base(n: int, *, k: int = 1) -> Topology:
    """Base-(k+1): exact for any n in few steps, at most k peers a rank and step.

    n = p q with p all of n that factors up to k + 1 make; p groups of q ranks run the simple graph,
    then ranks of equal place in their groups a hyper-hypercube. Where the simple graph over n is
    shorter it is that. Takes at most 2 log_(k+1) n + 2 steps.

    Args:
        n: number of ranks.
        k: the most peers of a rank in a step, at least 1: Base-2 for k = 1.
    Ref: Takezawa et al. 2023, algorithm 3.
    """
    at_least(1, k=k)
    ranks = np.arange(n)
    p = math.gcd(n, math.prod(b ** floor_log(n, b) for b in range(2, k + 2)))
    groups = ranks.reshape(p, n // p)
    inside = [_together(step) for step in zip(*(_simple_base(g, k) for g in groups), strict=True)]
    across = _hyper_hypercube(groups.T, smooth_factors(p, k)[0])
    simple = _simple_base(ranks, k)
    shorter = len(simple) < len(inside) + len(across)
    return _cyclic("base", n, simple if shorter else inside + across)


def prime_factors(n: int) -> list[int]:
    """Prime factors in ascending order, each as often as it divides n."""
    factors, p = [], 2
    while p * p <= n:
        while n % p == 0:
            factors.append(p)
            n //= p
        p += 1
    return factors + [n] * (n > 1)


def smooth_factors(n: int, k: int) -> tuple[list[int], int]:
    """Factors of n of at most k + 1, the largest taken first, in ascending order; what is left."""
    factors = []
    for factor in range(k + 1, 1, -1):
        while n % factor == 0:
            factors.append(factor)
            n //= factor
    return factors[::-1], n


def _cyclic(name: str, n: int, steps: list[Links]) -> Topology:
    return cyclic(name, [_matrix(n, step) for step in steps or [_no_links()]])


def _matrix(n: int, step: Links) -> Mixing:
    paired = np.bincount(step.edges.ravel(), minlength=n).max(initial=0) <= 1
    if paired and (step.weights == 0.5).all():
        return pairing(n, step.edges)
    return linked(n, step.edges, step.weights)


def _no_links() -> Links:
    return Links(np.empty((0, 2), dtype=np.int64), np.empty(0))


def _together(parts: tuple[Links, ...] | list[Links]) -> Links:
    parts = [*parts, _no_links()]
    return Links(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _cliques(members: np.ndarray) -> Links:
    """Each row of `members` (groups, size) averages with equal weights."""
    size = members.shape[1]
    i, j = np.triu_indices(size, k=1)
    edges = np.stack([members[:, i].ravel(), members[:, j].ravel()], axis=1)
    return Links(edges, np.full(len(edges), 1 / size))


def _hyper_hypercube(ranks: np.ndarray, factors: list[int]) -> list[Links]:
    """A step a factor, over the last axis of `ranks`; every other row the same beside it."""
    rows, steps, stride = np.atleast_2d(ranks), [], 1
    for factor in factors:
        digits = rows.reshape(len(rows), -1, factor, stride)  # place = (high, digit, low)
        steps.append(_cliques(np.moveaxis(digits, 2, -1).reshape(-1, factor)))
        stride *= factor
    return steps


def _simple_base(ranks: np.ndarray, k: int) -> list[Links]:
    n = len(ranks)
    factors, rest = smooth_factors(n, k)
    if rest == 1:
        return _hyper_hypercube(ranks, factors)
    blocks = _blocks(ranks, k)  # each (a_l, (k+1)^p_l): its rows are the sub-blocks
    whole = [_hyper_hypercube(b.ravel(), smooth_factors(b.size, k)[0]) for b in blocks]
    # a block of one sub-block's rank each has nothing to spread but among themselves
    again = [
        _hyper_hypercube(b, smooth_factors(b.shape[1], k)[0]) if b.size > k else own
        for b, own in zip(blocks, whole, strict=True)
    ]
    last = len(blocks) - 1
    steps = [_together([_in_turn(own, m) for own in whole]) for m in range(len(whole[0]))]
    for t in range(len(again[0]) + 1):
        parts = [_handed_on(blocks[t:], k)] if t < last else []
        parts += [_in_turn(own, t - l - 1) for l, own in enumerate(again[:last]) if l < t]
        parts += [_in_turn(again[last], t - last)] if t >= last else []
        steps.append(_together(parts))
    return steps


def _blocks(ranks: np.ndarray, k: int) -> list[np.ndarray]:
    blocks, start, power = [], 0, (k + 1) ** floor_log(len(ranks), k + 1)
    while start < len(ranks):
        digit = (len(ranks) - start) // power
        if digit:
            blocks.append(ranks[start : start + digit * power].reshape(digit, power))
        start, power = start + digit * power, power // (k + 1)
    return blocks


def _in_turn(steps: list[Links], m: int) -> Links:
    return steps[m % len(steps)] if steps else _no_links()


def _handed_on(blocks: list[np.ndarray], k: int) -> Links:
    """Every rank of the later blocks hears one rank of each sub-block of the first.

    The first block's share of the ranks is what they put on it, together; its ranks that nobody
    hears average among themselves.
    """
    first, later = blocks[0], np.concatenate([b.ravel() for b in blocks[:0:-1]])
    share = first.size / (first.size + later.size)
    heard = first[:, ::-1][:, : later.size]  # the last ranks of each sub-block
    edges = np.stack([np.tile(later, len(first)), heard.ravel()], axis=1)
    links = [Links(edges, np.full(len(edges), share / len(first)))]
    unheard = first[:, : first.shape[1] - later.size].ravel()
    groups = [unheard[i : i + k + 1] for i in range(0, len(unheard), k + 1)]
    return _together(links + [_cliques(group[None]) for group in groups])
