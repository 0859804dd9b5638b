"""Graphs over which every rank hears at most one other a step, weights 1/2, 1/2."""

from typing import Literal

import numpy as np

from expograph.graphs.forms import Circulant, pairing
from expograph.graphs.mixing import Mixing
from expograph.graphs.schedule import Topology, Undefined, ceil_log2, cyclic, drawn
from expograph.graphs.static import hypercube_edges
from expograph.randomness import TOPOLOGY, generator


def _one_peer_steps(n: int) -> list[Mixing]:
    steps: list[Mixing] = [Circulant(n, {0: 0.5, 2**t: 0.5}) for t in range(ceil_log2(n))]
    return steps or [Circulant(n, {0: 1.0})]


Order = Literal["cyclic", "permutation", "uniform"]


def one_peer_exponential(n: int, *, order: Order = "cyclic", seed: int = 0) -> Topology:
    """At step k each rank averages with the one rank 2^t before it, weights 1/2, 1/2.

        W(k) = (I + P^(2^t)) / 2, (P x)_i = x_{i - 1 mod n}, t = order's k-th choice in 0..tau-1

    tau = ceil(log2 n). Any tau matrices without repetition multiply to J iff n is a power of two
    (Ying et al. 2021, Lemma 1); they commute, being circulant.

    Args:
        n: number of ranks.
        order: "cyclic", t = k mod tau, as BlueFog's GetDynamicOnePeerSendRecvRanks over the
            static graph; "permutation", each period of tau steps in a fresh random order, still
            exact after each period; "uniform", t drawn anew each step, exact by luck only.
        seed: of the two random orders.
    """
    steps = _one_peer_steps(n)
    tau = len(steps)
    if order == "cyclic":
        return cyclic("one_peer_exponential", steps)

    def permuted(k: int) -> Mixing:
        period, t = divmod(k, tau)
        return steps[int(generator(seed, TOPOLOGY, period).permutation(tau)[t])]

    def uniform(k: int) -> Mixing:
        return steps[generator(seed, TOPOLOGY, k).integers(tau)]

    at = {"permutation": permuted, "uniform": uniform}[order]
    return drawn(f"one_peer_exponential(order={order})", n, at, seed)


def one_peer_hypercube(n: int) -> Topology:
    """At step k ranks that differ in bit (k mod tau) average in pairs, weights 1/2, 1/2.

    tau = ceil(log2 n). Exact averaging after tau steps iff n is a power of two; otherwise a rank
    whose partner is missing idles. Ref: Shi et al. 2016; the undirected twin of one-peer
    exponential graphs, and what Decent-DP calls "one-peer-exp" (n a power of two).
    """
    steps = [pairing(n, hypercube_edges(n, bit)) for bit in range(ceil_log2(n))]
    return cyclic("one_peer_hypercube", steps or [pairing(n, np.empty((0, 2), int))])


def random_match(n: int, *, seed: int = 0) -> Topology:
    """At each step a fresh random matching averages in pairs, weights 1/2, 1/2.

    For odd n one random rank idles. Ref: the bipartite random match graph of Ying et al.
    """

    def at(k: int) -> Mixing:
        order = generator(seed, TOPOLOGY, k).permutation(n)
        return pairing(n, order[: n - n % 2].reshape(-1, 2))

    return drawn("random_match", n, at, seed)


Rule = Literal["sgp", "qgm"]


def bipartite_exponential(n: int, *, rule: Rule = "sgp") -> Topology:
    """Every odd rank averages with the even rank some odd number of ranks ahead, and back.

    Args:
        n: number of ranks, even.
        rule: which odd numbers, in turn: "sgp", 1, -1, 3, -3, 5, -5, 9, ..., that is +-(1 + 2^i),
            each once, of stochastic gradient push's DynamicBipartiteExponentialGraph; "qgm",
            1, 3, 7, ..., 2^p - 1 for p up to log2(n - 1), of quasi-global momentum (over four
            ranks 1 alone, which never connects them).
    Raises:
        Undefined: for odd n > 1.
    """
    if n > 1 and n % 2:
        raise Undefined("pairs odd ranks with even ones: n must be even")
    if n == 1:
        return cyclic("bipartite_exponential", [pairing(1, np.empty((0, 2), int))])
    most = (n - 1).bit_length() - 1  # floor(log2(n - 1))
    if rule == "sgp":
        hops = [sign * (1 + 2**i if i else 1) for i in range(most + 1) for sign in (1, -1)]
    else:
        hops = [2**p - 1 for p in range(1, most + 1)] or [1]
    distinct = dict.fromkeys(hop % n for hop in hops)
    odd = np.arange(1, n, 2)
    steps = [pairing(n, np.stack([odd, (odd + hop) % n], axis=1)) for hop in distinct]
    return cyclic("bipartite_exponential", steps)


def directed_exponential(n: int) -> Topology:
    """At step k each rank sends half to the rank h ahead, h = 1, -1, 2, -2, 4, -4, ... in turn.

    Powers of two below n, both ways, each hop mod n once: the graph of stochastic gradient push
    (its DynamicDirectedExponentialGraph), whose matrices are doubly stochastic like the one-peer
    exponential graph's. For n a power of two a period averages exactly. Ref: Assran et al. 2019.
    """
    hops = dict.fromkeys(s * 2**t % n for t in range(ceil_log2(n)) for s in (1, -1))
    steps = [Circulant(n, {0: 0.5, hop: 0.5}) for hop in hops]
    return cyclic("directed_exponential", steps or [Circulant(n, {0: 1.0})])
