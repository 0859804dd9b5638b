"""What can be wrong with a graph of the user's own, said before anything is trained.

`checks.check_schedule` is a part of every training and looks at sums of weights; here are the
mistakes beyond those: of shape, of senders that receivers do not know, of parts that never meet.
"""

from collections.abc import Collection, Iterator

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from expograph.graphs.checks import (
    CHECKED_ENTRIES,
    Need,
    ScheduleError,
    check_schedule,
)
from expograph.graphs.mixing import Mixing, Stochastic
from expograph.graphs.schedule import Topology

STEPS = 64  # walked of a schedule that is random or has a longer period
MOST_RANKS = 4096  # above it matrices take seconds to look at
MOST_PAIRS = 2**12  # of a matrix whose senders are looked at one by one


def check(
    schedule: Topology, stochastic: Stochastic = "doubly", needs: Collection[Need] = ()
) -> None:
    """Check a schedule before anything is trained with it.

    Args:
        schedule: over at most `MOST_RANKS` ranks; larger ones are only checked in training.
        stochastic: which sums of weights must be one.
        needs: what else its matrices must be, as of `check_schedule`.
    Raises:
        ScheduleError: in one line with the topology, the step and the rank.
    """
    if schedule.n > MOST_RANKS:
        return
    steps = list(_walk(schedule))
    for k, W in steps:
        _check_shape(schedule, k, W)
    check_schedule(schedule, stochastic, needs)
    for k, W in steps:
        _check_senders(schedule, k, W)
    if schedule.period is not None and schedule.period <= len(steps):
        _check_connected(schedule, [W for _, W in steps])


def _walk(schedule: Topology) -> Iterator[tuple[int, Mixing]]:
    entries = 0
    for k in range(min(schedule.period or STEPS, STEPS)):
        W = schedule.at(k)
        yield k, W
        entries += W.entries
        if entries > CHECKED_ENTRIES:
            return


def _check_shape(schedule: Topology, k: int, W: Mixing) -> None:
    shape, n = W.csr.shape, schedule.n
    if shape != (n, n):
        raise ScheduleError(
            f"{schedule.name}, step {k}: a matrix of shape {shape}; {n} ranks need ({n}, {n})"
        )
    if not np.isfinite(W.csr.data).all():
        raise ScheduleError(f"{schedule.name}, step {k}: a weight is not finite")


def _check_senders(schedule: Topology, k: int, W: Mixing) -> None:
    """Ranks of an engine wait for their `sources`, and send to their `destinations` alone."""
    if W.entries > MOST_PAIRS or W.is_exact_average:  # of an average no pair is asked for
        return
    sent = {(j, i) for j in range(W.n) for i in W.destinations(j)}
    expected = {(j, i) for i in range(W.n) for j in W.sources(i)}
    if sent != expected:
        j, i = min(sent ^ expected)
        does = "sends" if (j, i) in sent else "does not send"
        knows = "expects" if (j, i) in expected else "does not expect"
        raise ScheduleError(
            f"{schedule.name}, step {k}: rank {j} {does} to rank {i}, which {knows} it: "
            "sources and destinations must name the same pairs"
        )


def _check_connected(schedule: Topology, steps: list[Mixing]) -> None:
    """Ranks that no chain of messages of a period joins never agree."""
    union = sum((csr_array(abs(W.csr)) for W in steps[1:]), csr_array(abs(steps[0].csr)))
    parts, part_of = connected_components(union, directed=True, connection="strong")
    if parts > 1:
        other = int(np.flatnonzero(part_of != part_of[0])[0])
        raise ScheduleError(
            f"{schedule.name}: {parts} groups of ranks never hear each other, as ranks 0 and "
            f"{other}: the graph over a period must be connected"
        )
