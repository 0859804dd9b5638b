"""How often a run is saved: as often as was asked for, and in at most a fiftieth of its time."""

import math
import os
import re
import time
from collections.abc import Callable
from typing import NamedTuple

from expograph.config import ConfigError

OPTION, VARIABLE = "--checkpoint", "EXPOGRAPH_CHECKPOINT"
FIRST = 60.0  # seconds of training before the first checkpoint
SHARE = 0.02  # of the time, at most, goes into checkpoints
SLOW_DISK = 100e6  # bytes a second: what the first checkpoint is expected to take
ALLOWED = "minutes, as 5 or 0.5, or steps, as 1000steps, or never"


class Every(NamedTuple):
    """The distance from one checkpoint to the next.

    Attributes:
        seconds: at least so many; infinite for no checkpoints.
        steps: exactly so many, whatever that costs; None to go by the time.
    """

    seconds: float = 300.0
    steps: int | None = None


def asked(option: str | None = None) -> Every:
    """What the command line asks for, or else the environment, or else the default.

    Raises:
        ConfigError: in one line, if that is neither minutes nor steps.
    """
    name = VARIABLE if option is None else OPTION
    text = (os.environ.get(VARIABLE) if option is None else option) or ""
    if not text and option is None:
        return Every()
    if text == "never":
        return Every(math.inf)
    if found := re.fullmatch(r"([1-9]\d{0,9}) ?steps?", text, re.ASCII):
        return Every(math.inf, int(found[1]))
    if re.fullmatch(r"\d{1,9}(\.\d*)?|\.\d+", text, re.ASCII):
        return Every(60 * float(text))
    raise ConfigError(f"{name} {text!r}: needs {ALLOWED}")


class Spacing:
    """When a training is due to be saved."""

    def __init__(
        self, every: Every, size: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin now.

        Args:
            every: what was asked for.
            size: bytes of a checkpoint.
            clock: seconds.
        """
        self.every, self._clock = every, clock
        self._began = self._last = clock()
        self._pause = min(FIRST, every.seconds) if math.isfinite(every.seconds) else math.inf
        self._cost, self._spent = size / SLOW_DISK, 0.0

    def due(self, step: int) -> bool:
        """Whether to save after so many steps.

        What all checkpoints so far and this one take, if it takes as long as the last, stays below
        `SHARE` of the time since the beginning.
        """
        if self.every.steps:
            return step % self.every.steps == 0
        now = self._clock()
        affordable = self._spent + self._cost <= SHARE * (now - self._began)
        return now - self._last >= self._pause and affordable

    def saved(self, seconds: float) -> None:
        """Note that the training has just been saved, and how long that took."""
        self._cost = seconds
        self._spent += seconds
        self._last, self._pause = self._clock(), self.every.seconds
