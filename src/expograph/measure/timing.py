"""Times of contenders that run in turn, so that a machine that slows down slows down all."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from expograph.measure.ratios import Ratio


class Rounds(NamedTuple):
    """Seconds of each contender in each round."""

    seconds: Mapping[str, list[float]]

    def ratio(self, group: str, measured: str, over: str, under: str, target: str = "") -> Ratio:
        """The median over the rounds of seconds(over) / seconds(under)."""
        pairs = zip(self.seconds[over], self.seconds[under], strict=True)
        return Ratio(f"{group}: {measured}", statistics.median(a / b for a, b in pairs), target)


def interleaved(rounds: int, **contenders: Callable[[], object]) -> Rounds:
    """Run each contender once a round, after two rounds that warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds + 2):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return Rounds({name: times[2:] for name, times in seconds.items()})
