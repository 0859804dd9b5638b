"""Times of contenders in interleaved rounds: a machine that slows down slows all of them down."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch

from expograph.measure.ratios import Ratio

WARM_UP = 2  # rounds that are not counted


class Rounds(NamedTuple):
    """Seconds of each contender in each round, by name."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        """Seconds of a contender in the middle one of its rounds."""
        return float(np.median(self.seconds[name]))

    def fastest(self, *names: str) -> str:
        """Which of some contenders has the least median."""
        return min(names, key=self.median)

    def ratio(
        self,
        group: str,
        measured: str,
        above: str,
        below: str,
        target: str = "",
        factor: float = 1.0,
    ) -> Ratio:
        """Seconds of `above` over those of `below`, times a factor: median and quartiles."""
        each = np.divide(self.seconds[above], self.seconds[below]) * factor
        low, middle, high = np.percentile(each, [25, 50, 75])
        return Ratio(group, measured, float(middle), float(low), float(high), target)


def interleaved(
    rounds: int, *, warm_up: int = WARM_UP, **contenders: Callable[[], object]
) -> Rounds:
    """Run each contender once a round, after `warm_up` rounds that are not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(warm_up + rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return Rounds(seconds)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Torch computes with so many threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
