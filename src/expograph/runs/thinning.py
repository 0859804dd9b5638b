"""Fewer records of a curve: those that a figure can show, and means over blocks of steps."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

BLOCKS_A_DECADE = 24  # steps grow by a tenth from block to block


def recorded_steps(steps: int, record_every: int) -> np.ndarray:
    """The steps at which a run of `steps` steps leaves a record: 0, record_every, ..., steps."""
    return np.append(np.arange(0, steps, record_every), steps)


def thinned(steps: Sequence[int] | np.ndarray, points: int) -> np.ndarray:
    """At most `points` of the steps, denser at the start, as logarithmic axes want them."""
    steps = np.asarray(steps)
    picked = np.unique(np.geomspace(1, max(1, len(steps)), points).round().astype(int)) - 1
    return np.asarray(steps[picked[: len(steps)]])


def blocks(steps: np.ndarray, curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Curves averaged over blocks of steps of equal length on a logarithmic scale.

    Block means are left as they are: each is alone in its block.

    Args:
        steps: (T,) recorded steps, positive and increasing.
        curves: (..., T).
    Returns:
        The first step of each block (B,), and the means (..., B).
    """
    index = np.floor(BLOCKS_A_DECADE * np.log10(steps)).astype(int)
    starts = np.flatnonzero(np.diff(index, prepend=index[0] - 1))
    lengths = np.diff(starts, append=len(steps))
    return steps[starts], np.add.reduceat(curves, starts, axis=-1) / lengths


class BlockMeans(NamedTuple):
    """A run's curve as means over blocks, of which a shorter run's part can be had exactly.

    Attributes:
        last: the run's last recorded step.
        steps: (B,) the first recorded step of each block.
        means: (B,).
        partial: step -> mean of its block's records up to that step, for ends of other runs.
    """

    last: int
    steps: np.ndarray
    means: np.ndarray
    partial: dict[int, float]

    @classmethod
    def of(cls, steps: np.ndarray, values: np.ndarray, ends: Iterable[int]) -> "BlockMeans":
        """Of (T,) recorded steps and values; step 0 is in no block.

        Args:
            steps, values: of one run, in order.
            ends: steps up to which the curve will be compared with a shorter run's.
        """
        steps, values = steps[steps > 0], values[steps > 0]
        partial = {}
        for end in ends:
            if len(steps) and steps[0] <= end < steps[-1]:
                part = steps <= end
                partial[int(end)] = float(blocks(steps[part], values[part])[1][-1])
        if not len(steps):
            return cls(0, steps, values, {})
        return cls(int(steps[-1]), *blocks(steps, values), partial)

    def until(self, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Steps and means of the blocks up to a step.

        Raises:
            KeyError: if the curve was not prepared to end there.
        """
        if end >= self.last:
            return self.steps, self.means
        part = self.steps <= end
        means = self.means[part].copy()
        if len(means):
            means[-1] = self.partial[end]
        return self.steps[part], means
