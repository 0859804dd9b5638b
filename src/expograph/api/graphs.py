"""What a matrix or a schedule implies, asked of anything that `topology` takes."""

from typing import Any

from expograph.graphs import disagreement, spectral
from expograph.graphs.convert import mixing, topology
from expograph.graphs.topology import Topology

__all__ = ["H", "S", "averages_exactly", "contraction", "mixing", "spectral_gap", "topology"]


def spectral_gap(W: Any) -> float:
    """1 - rho of one doubly stochastic matrix, rho its second largest eigenvalue in modulus.

    Args:
        W: a matrix (n, n), dense or sparse, a `Mixing`, a graph, or a schedule of period 1.
    Raises:
        ValueError: in one line: for a schedule that varies in time, which `contraction` of a
            period says more of; for what is no doubly stochastic matrix.

    >>> round(spectral_gap(topology("ring", 8)), 6)  # 2/3 (1 - cos(2 pi / 8))
    0.195262

    Ref: Ying et al. 2021, Proposition 1: 2 / (1 + ceil(log2 n)) of the static exponential graph.
    """
    schedule = _schedule(W)
    if schedule.period != 1:
        raise ValueError(
            f"{schedule.name} varies in time: the gap is of one matrix, as topology.at(0); "
            "contraction(topology) is of a period"
        )
    return spectral.spectral_gap(schedule.at(0))


def contraction(schedule: Any, start: int = 0, steps: int | None = None) -> float:
    """||W(start + steps - 1) ... W(start) - J||_2, by which disagreement shrinks at least.

    Args:
        schedule: a schedule, or anything that `topology` takes but a name.
        start: the first step, at least 0.
        steps: how many; None for a period.
    Returns:
        0 where these steps average exactly; 1 where they do not connect all ranks.
    Raises:
        ValueError: in one line; a random schedule has no period, so that `steps` must be given.

    >>> contraction(topology("one_peer_exponential", 8))
    0.0
    >>> round(contraction(topology("star", 4), steps=2), 6)  # (1 - 1/4)^2
    0.5625
    """
    schedule = _schedule(schedule)
    return spectral.contraction(spectral.window_of(schedule, *_window(schedule, start, steps)))


def averages_exactly(schedule: Any, start: int = 0, steps: int | None = None) -> bool:
    """Whether consecutive matrices multiply to J = 11^T / n, up to rounding.

    Args:
        schedule, start, steps: as of `contraction`: one period from step 0 by default.
    Raises:
        ValueError: in one line, as `contraction`.

    >>> averages_exactly(topology("one_peer_exponential", 8))
    True
    >>> averages_exactly(topology("one_peer_exponential", 6))
    False

    Ref: Ying et al. 2021, Lemma 1 (one-peer exponential, n a power of two).
    """
    schedule = _schedule(schedule)
    return spectral.averages_exactly(schedule, *_window(schedule, start, steps))


def S(schedule: Any) -> float:
    """What gradient noise leaves between the ranks: 1/n sum |x_i - x_bar|^2 = lr^2 sigma^2 S / n.

    The sum over past steps of |W(k) ... W(k-t+1)|_F^2 - 1, mean over k; lr the step size, sigma^2
    the noise of a gradient, summed over coordinates. Infinite where ranks are not connected.

    Args:
        schedule: a schedule, or anything that `topology` takes but a name.
    Raises:
        ValueError: in one line, for more than 4,096 ranks, or 1,024 of general matrices.

    >>> round(S(topology("one_peer_exponential", 8)), 9)  # n - 1 - log2 n
    4.0

    Ref: `graphs.disagreement`, derived here; one normal W: sum |lambda|^2 / (1 - |lambda|^2).
    """
    return disagreement.S(_schedule(schedule))


def H(schedule: Any) -> float:
    """What unlike data leave between the ranks: 1/n sum |x_i - x_bar|^2 = lr^2 zeta^2 H / n.

    |sum over past steps of W(k) ... W(k-t+1) - J|_F^2, mean over k; zeta^2 the variance of the
    ranks' gradients at the common minimiser, summed over coordinates.

    Args:
        schedule: a schedule, or anything that `topology` takes but a name.
    Raises:
        ValueError: in one line, as `S`.

    >>> round(H(topology("fully_connected", 8)), 9)
    0.0
    >>> round(H(topology("ring", 4)), 6)  # eigenvalues 1/3, 1/3, -1/3: 1/4 + 1/4 + 1/16
    0.5625

    Ref: `graphs.disagreement`, derived here; one normal W: sum |lambda / (1 - lambda)|^2.
    """
    return disagreement.H(_schedule(schedule))


def _schedule(what: Any) -> Topology:
    return what if isinstance(what, Topology) else topology(what)


def _window(schedule: Topology, start: int, steps: int | None) -> tuple[int, int]:
    if steps is None:
        steps = schedule.period
    if steps is None:
        raise ValueError(f"{schedule.name} has no period: give steps")
    if start < 0 or steps < 1:
        raise ValueError(f"start must be at least 0 and steps at least 1, got {start} and {steps}")
    return start, steps
