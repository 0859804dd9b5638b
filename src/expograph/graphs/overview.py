"""A topology in a line: what a step costs, and how fast and how well it averages."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from expograph.graphs import ceca
from expograph.graphs.disagreement import H, S
from expograph.graphs.mixing import Mixing
from expograph.graphs.schedule import Topology, ceil_log2
from expograph.graphs.spectral import averages_exactly, exact_after, spectral_gap, window_of

ROUNDS = 8  # of a random schedule, in which it must average exactly to be called exact
EXACT = 1e-12  # relative: less of what was apart is rounding
RANDOM_STEPS = 4  # looked at of a schedule without a period
DISAGREEMENT = 512  # ranks up to which S and H are computed: seconds for all topologies
DISAGREEMENT_STEPS = 256  # of a random schedule, over which S and H are means


class Overview(NamedTuple):
    """The facts of a schedule over n ranks.

    Attributes:
        period: steps; None for a schedule that is drawn.
        degree: the most ranks that one sends to in a step.
        messages: models that the busiest rank sends a step, mean over a period, as engines count.
        gap: 1 - rho of a static graph; None for others.
        S, H: what noise and unlike data leave between the ranks (`disagreement`); None where the
            matrices are not doubly stochastic, or above 512 ranks.
        exact: whether one period averages exactly; of a random schedule, each of its first rounds.
        exact_after: after how many steps from step 0 it does, within two periods; None if not.
    """

    period: int | None
    degree: int
    messages: float
    gap: float | None
    S: float | None
    H: float | None
    exact: bool
    exact_after: int | None


def overview(topology: Topology) -> Overview:
    """What `Overview` says, computed from the matrices."""
    window = looked_at(topology)
    known = topology.n <= DISAGREEMENT and all(W.is_("doubly") for W in window)
    return Overview(
        period=topology.period,
        degree=int(max(W.out_degrees.max() for W in window)),
        messages=messages(window),
        gap=spectral_gap(window[0]) if topology.period == 1 else None,
        S=S(topology, DISAGREEMENT_STEPS) if known else None,
        H=H(topology, DISAGREEMENT_STEPS) if known else None,
        exact=is_exact(topology),
        exact_after=exact_after(topology, 2 * rounds(topology)),
    )


def of_two_models(n: int, ports: int) -> Overview:
    """CECA's facts: a rule of two models a rank has no gap, and neither S nor H.

    Raises:
        Undefined: for one port and odd n.
    """
    period = max(1, len(ceca.rounds(n, ports)))
    exact = ceca.deviation(np.random.default_rng(0).standard_normal((n, 3)), ports) < EXACT
    sent = min(1, n - 1)
    return Overview(period, sent, float(sent), None, None, None, exact, period if exact else None)


def rounds(topology: Topology) -> int:
    """Steps of a period; of a random schedule ceil(log2 n), which is as many as can suffice."""
    return topology.period or max(1, ceil_log2(topology.n))


def looked_at(topology: Topology) -> list[Mixing]:
    """The matrices of a period, or the first ones of a random schedule."""
    return window_of(topology, 0, topology.period or RANDOM_STEPS)


def messages(window: Sequence[Mixing]) -> float:
    """Models that the busiest rank sends a step, mean over the window, as the engines count."""
    return float(np.mean([W.messages for W in window], axis=0).max())


def is_exact(topology: Topology) -> bool:
    """Whether one period averages exactly; of a random schedule every one of its first rounds."""
    steps = rounds(topology)
    starts = [0] if topology.period else range(0, ROUNDS * steps, steps)
    return all(averages_exactly(topology, start, steps) for start in starts)
