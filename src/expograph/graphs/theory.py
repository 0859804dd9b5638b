"""What the paper and the literature around it predict, to be set beside what we measure.

Only facts whose source could be read are called the paper's. Rates that we derived from a
published bound say so.
"""

import math
from typing import NamedTuple

from expograph.graphs.disagreement import S
from expograph.graphs.spectral import spectral_gap
from expograph.graphs.topology import Topology, build, ceil_log2
from expograph.looks import look_of


def static_exponential_gap(n: int) -> float:
    """2 / (1 + ceil(log2 n)): the static exponential graph's 1 - rho for even n.

    A lower bound for odd n >= 3. Ref: Ying et al. 2021, Proposition 1.
    """
    return 2 / (1 + ceil_log2(n))


def ring_gap(n: int) -> float:
    """2/3 (1 - cos(2 pi / n)) for n >= 4: 1 - rho of the ring with weights 1/3.

    Below 4 the smallest eigenvalue has the largest modulus or the ring is complete.
    """
    return 2 / 3 * (1 - math.cos(2 * math.pi / n))


def star_gap(n: int) -> float:
    """1 / n: 1 - rho of the star with Metropolis weights, n >= 3; over two ranks W is J."""
    return 1 / n


def uniform_sampling_contraction(n: int) -> float:
    """1 - 1/tau: worst-case E |W x|^2 / |x|^2 of one one-peer exponential step drawn uniformly.

    For mean-free x, n a power of two, tau = log2 n: the Fourier mode that only one of the tau
    matrices annihilates keeps its energy under all the others.
    """
    return 1 - 1 / ceil_log2(n)


def transient_bound(n: int, rho: float) -> float:
    """n^3 rho^4 / (1 - rho)^2: the order of the transient iterations, without its constant.

    From DSGD's rate on identically distributed data, s/sqrt(nT) + (s rho)^(2/3) / (T^(2/3)
    (1 - rho)^(1/3)) + ...: the number of steps T from which the first term, parallel SGD's,
    leads. Ref: rate in Koloskova et al. 2020; the inversion is ours.
    """
    return n**3 * rho**4 / (1 - rho) ** 2


def noise_transient(topology: Topology, factor: float = 1.5) -> float:
    """n (2 S / (factor - 1))^2: transient iterations, up to a constant, in the noise model.

    The model: least squares with H = I, one common minimiser, gradient noise of equal variance in
    every direction on every worker, step size c sqrt(n / k). Then the noise of a step leaves
    1/n sum |x_i - x_bar|^2 = lr^2 sigma^2 S / n, `disagreement.S`, beside parallel SGD's
    lr sigma^2 / 2n, and the first is below (factor - 1) of the second once
    k > c^2 n (2 S / (factor - 1))^2. S is a trace, the mean over all modes; `transient_bound`
    takes the slowest mode for all of them. Derived by us; W(k) need not be symmetric.

    Raises:
        ValueError: for more ranks than `disagreement.S` takes.
    """
    return topology.n * (2 * S(topology) / (factor - 1)) ** 2


def transient_order(name: str, n: int) -> float | None:
    """`transient_bound`'s order n^3 / (1 - rho)^2 for a topology, at one n; None without a source.

    One-peer graphs take n^3 log2^2 n, the static exponential graph's order: for those of which
    `RATES` gives it. Other time-varying graphs, such as random match, have no bound that we know.
    """
    topology = build(name, n)
    if topology.period == 1:
        return n**3 / spectral_gap(topology.at(0)) ** 2
    if name in RATES and RATES[name].transient:
        return n**3 * math.log2(n) ** 2
    return None


class Rate(NamedTuple):
    """Orders of a topology's costs in n; "" where none is known.

    Attributes:
        communication: messages the busiest rank sends a step.
        gap: 1 - rho, or "" for time-varying graphs.
        transient: transient iterations by `transient_bound` and the gap's order; an upper bound
            for the 1/2-random graph, whose rho tends to 0; for one-peer graphs as for the static
            exponential graph (the paper's claim); EquiStatic's gap is with high probability, for
            as many offsets as its bound asks for.
    """

    communication: str
    gap: str
    transient: str


RATES: dict[str, Rate] = {
    "fully_connected": Rate("2 (all-reduce)", "1", "0"),
    "ring": Rate("2", "1/n^2", "n^7"),
    "star": Rate("n", "1/n", "n^5"),
    "grid": Rate("4", "1/n", "n^5"),
    "torus": Rate("4", "1/n", "n^5"),
    "hypercube": Rate("log n", "1/log n", "n^3 log^2 n"),
    "half_random": Rate("n", "1", "at most n^3"),
    "random_match": Rate("1", "", ""),
    "static_exponential": Rate("log n", "1/log n", "n^3 log^2 n"),
    "one_peer_exponential": Rate("1", "", "n^3 log^2 n"),
    "one_peer_hypercube": Rate("1", "", "n^3 log^2 n"),
    "directed_exponential": Rate("1", "", ""),
    "bipartite_exponential": Rate("1", "", ""),
    "k_peer_exponential": Rate("k", "", ""),
    "null_cascade": Rate("k", "", ""),
    "hyper_hypercube": Rate("k", "", ""),
    "simple_base": Rate("k", "", ""),
    "base": Rate("k", "", ""),
    "de_bruijn": Rate("p", "", ""),
    "d_equistatic": Rate("log n", "1", "n^3"),
    "u_equistatic": Rate("log n", "1", "n^3"),
    "od_equidyn": Rate("1", "", ""),
    "ou_equidyn": Rate("1", "", ""),
    "inner_outer_exponential": Rate("1", "", ""),
    "alternating_exp_ring": Rate("1/2", "", ""),
    "uniform_gossip": Rate("1", "", ""),
    "directed_random": Rate("peers", "", ""),
}


def rate_of(name: str) -> Rate:
    """The orders of a topology, ours or a user's own that declared them; "" where none is known."""
    look = look_of(name)
    return RATES.get(name, Rate(look.communication, look.gap, look.transient))


# Transient orders that the paper claims according to its abstract and a published review; the
# paper's own Table 1 was not available to us.
PAPER_TRANSIENT = {
    "static_exponential": "n^3 log^2 n",
    "one_peer_exponential": "n^3 log^2 n",
}
