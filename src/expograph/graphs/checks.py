"""Checks of a whole schedule, before anything is trained with it."""

from collections.abc import Collection
from typing import Literal

import numpy as np

from expograph.graphs.mixing import Stochastic
from expograph.graphs.schedule import Topology

Need = Literal["static", "symmetric", "flat"]
CHECKED_STEPS = 256  # of a random schedule, which has no period to walk
CHECKED_ENTRIES = 2**24  # after so many nonzeros the walk ends: a second's work
TOLERANCE = 1e-9  # on a sum of weights


class ScheduleError(ValueError):
    """A schedule that an algorithm cannot use, or that ranks do not agree on; one line."""


def check_schedule(
    schedule: Topology, stochastic: Stochastic = "doubly", needs: Collection[Need] = ()
) -> None:
    """Walk the schedule's period, or the first steps of a random one, and check its weights.

    Weights must not be negative, and rows (what a rank takes in) or columns (what becomes of a
    rank's model) sum to one, or both: else models shrink or blow up, or their mean drifts.

    Args:
        stochastic: which sums must be one.
        needs: what else: "static", the same at each step; "symmetric"; "flat", servers of one rank.
    Raises:
        ScheduleError: naming the topology, the first such step and the rank.
    """
    if "flat" in needs and schedule.local_size > 1:
        raise ScheduleError(f"{schedule.name}: the algorithm needs servers of one rank each")
    if "static" in needs and schedule.period != 1:
        raise ScheduleError(f"{schedule.name}: the algorithm needs the same matrix at each step")
    entries = 0
    for k in range(schedule.period or CHECKED_STEPS):
        W = schedule.at(k)
        if W.n != schedule.n:
            raise ScheduleError(
                f"{schedule.name}, step {k}: a matrix over {W.n} ranks, not over {schedule.n}"
            )
        if W.has_negative:
            raise ScheduleError(f"{schedule.name}, step {k}: a weight is negative")
        sums = {"row": W.row_sums, "column": W.column_sums}
        for what in sums if stochastic == "doubly" else (stochastic,):
            off = np.abs(sums[what] - 1)
            rank = int(off.argmax())
            if not off[rank] <= TOLERANCE:  # also where it is not a number
                verb = "takes in" if what == "row" else "gives"
                raise ScheduleError(
                    f"{schedule.name}, step {k}: the weights that rank {rank} {verb} sum to "
                    f"{sums[what][rank]:.9g}; the algorithm needs {stochastic} stochastic matrices"
                )
        if "symmetric" in needs and not W.is_symmetric:
            raise ScheduleError(
                f"{schedule.name}, step {k}: the algorithm needs symmetric matrices"
            )
        entries += W.entries
        if entries > CHECKED_ENTRIES:
            return
