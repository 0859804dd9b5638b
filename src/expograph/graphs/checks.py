"""Checks of a whole schedule, before anything is trained with it."""

import numpy as np

from expograph.graphs.topology import Topology

CHECKED_STEPS = 16  # of a random schedule, which has no period to walk
TOLERANCE = 1e-9  # on a sum of weights


def steps_checked(schedule: Topology) -> range:
    """The steps that a check looks at: one period, or the first ones of a random schedule."""
    return range(schedule.period or CHECKED_STEPS)


def check_schedule(schedule: Topology, stochastic: str = "doubly") -> None:
    """Walk the schedule's period, or the first steps of a random one.

    Args:
        stochastic: "doubly", "row" or "column": the sums of W(k) that must be one.
    Raises:
        ValueError: for the first step where a sum is not one.
    """
    axes = {"row": {"row": 1}, "column": {"column": 0}, "doubly": {"row": 1, "column": 0}}
    for k in steps_checked(schedule):
        for what, axis in axes[stochastic].items():
            sums = np.asarray(schedule.at(k).csr.sum(axis=axis)).ravel()
            worst = int(np.abs(sums - 1).argmax())
            if abs(sums[worst] - 1) > TOLERANCE:
                raise ValueError(
                    f"{schedule.name}, step {k}: weights of {what} {worst} sum to "
                    f"{sums[worst]:.9g}; the algorithm needs {stochastic} stochastic matrices"
                )
