"""Schedules of circulant matrices with up to k peers: k-peer exponential and null-cascade graphs.

A circulant step multiplies the mode of frequency f by a polynomial in e^(-2 pi i f / n); a period
averages exactly where every frequency but 0 is a zero of one of them. All steps commute. Ref: Niwa
et al., NeurIPS 2025.
"""

from collections.abc import Iterator

import numpy as np

from expograph.graphs.finite import prime_factors, smooth_factors
from expograph.graphs.forms import Circulant
from expograph.graphs.schedule import Topology, Undefined, at_least, cyclic, floor_log

POSITIVE = 1e-9  # a weight above this is one


def k_peer_exponential(n: int, *, k: int = 1) -> Topology:
    """At step l each rank averages with the ranks (k+1)^l, ..., k (k+1)^l before it, equal weights.

    The period is floor(log_(k+1) n). It averages exactly iff n is a power of k + 1; otherwise it
    leaves max over f of |sin(pi f (k+1)^tau / n) / ((k+1)^tau sin(pi f / n))| (theorem 2 there).
    For k = 1 it is the one-peer exponential graph, without the last step where n is no power of 2.

    Args:
        n: number of ranks, at least k + 1 (or 1).
        k: peers of a rank in a step, at least 1.
    Raises:
        Undefined: for fewer ranks.
    """
    at_least(1, k=k)
    if 1 < n <= k:
        raise Undefined(f"needs more than k = {k} ranks: a step has k peers a rank")
    steps = [
        Circulant(n, {j * (k + 1) ** t: 1 / (k + 1) for j in range(k + 1)})
        for t in range(floor_log(n, k + 1))
    ]
    return cyclic("k_peer_exponential", steps or [Circulant(1, {0: 1.0})])


def null_cascade(n: int, *, k: int = 2) -> Topology:
    """Exact averaging for any n by circulant steps of at most k peers, which all commute.

    n is factored into parts up to k + 1, and primes p above. A part s takes a step with s equal
    weights. A prime takes ceil((p - 1) / 2 / floor(k / 2)) steps: the zeros e^(2 pi i f / p) of the
    p equal weights are shared out, floor(k / 2) conjugate pairs a step from the highest f down,
    ranks being renumbered by a factor that makes the weights of a step positive. The largest
    weight of a step is the rank's own.

    Args:
        n: number of ranks.
        k: the most peers of a rank in a step, at least 2.
    Ref: theorem 3 there. Which pairs share a step, where several could, is our reading of its
        algorithms 3 and 4; their tables have one step less at n = 30, k = 3.
    """
    at_least(2, k=k)
    large = [p for p in prime_factors(n) if p > k + 1]
    smooth, _ = smooth_factors(n, k)
    steps, done = [], 1  # frequencies that are no multiples of `done` have a zero
    for size in reversed(smooth):
        hop = n // (size * done)
        steps.append(Circulant(n, {j * hop: 1 / size for j in range(size)}))
        done *= size
    for p in reversed(large):
        hop = n // (p * done)
        for weights, factor in _nulls(p, k // 2):
            own = int(weights.argmax())
            offsets = (hop * factor * (np.arange(len(weights)) - own)) % n
            steps.append(Circulant(n, dict(zip(offsets.tolist(), weights.tolist(), strict=True))))
        done *= p
    return cyclic("null_cascade", steps or [Circulant(1, {0: 1.0})])


def _nulls(p: int, pairs: int) -> Iterator[tuple[np.ndarray, int]]:
    """Positive weights whose zeros, together, are all p-th roots of one but 1; `pairs` at a time.

    Yields:
        Weights of x^0, x^m, x^2m, ..., which sum to one, and m.
    """
    waiting = list(range((p - 1) // 2, 0, -1))
    while waiting:
        weights, m, number = next(_positive(p, waiting[:pairs]))
        del waiting[:number]
        yield weights, m


def _positive(p: int, wanted: list[int]) -> Iterator[tuple[np.ndarray, int, int]]:
    """Choices of (weights, m, zeros taken), those with most zeros first; one zero always works."""
    for number in range(len(wanted), 0, -1):
        for m in range(1, p):
            weights = np.ones(1)
            for f in wanted[:number]:
                weights = np.convolve(weights, [1, -2 * np.cos(2 * np.pi * f * m / p), 1])
            if weights.min() > POSITIVE:
                yield weights / weights.sum(), m, number
