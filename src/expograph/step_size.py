"""The step size of every step: a warm-up, then a decay."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StepSize:
    """Step k -> its step size: a linear warm-up to lr, then the decay.

    With t = k - warmup_steps, T = steps - warmup_steps and the drops of `step` at absolute steps:
        constant      lr
        cosine        lr (1 + cos(pi t / T)) / 2
        step          lr * decay_factor^(how many of decay_steps are <= k)
        inverse       lr / (1 + t / decay_steps[0])
        inverse_sqrt  lr / sqrt(1 + t / decay_steps[0])

    Attributes:
        lr: what the warm-up ends at.
        steps: of the whole training; only `cosine` needs it.
        warmup_steps: the first of them is lr / warmup_steps; 0 for none.
        decay: one of the words above.
        decay_steps: step: where the step size drops; inverse and inverse_sqrt: its one scale.
        decay_factor: step: what it is multiplied by at each drop.
    """

    lr: float
    steps: int
    warmup_steps: int = 0
    decay: str = "constant"
    decay_steps: Sequence[int] = ()
    decay_factor: float = 0.1

    def __call__(self, k: int) -> float:
        if k < self.warmup_steps:
            return self.lr * (k + 1) / self.warmup_steps
        t = k - self.warmup_steps
        match self.decay:
            case "constant":
                return self.lr
            case "cosine":
                return self.lr * (1 + math.cos(math.pi * t / (self.steps - self.warmup_steps))) / 2
            case "step":
                return self.lr * self.decay_factor ** sum(drop <= k for drop in self.decay_steps)
            case "inverse":
                return self.lr / (1 + t / self.decay_steps[0])
            case "inverse_sqrt":
                return self.lr / math.sqrt(1 + t / self.decay_steps[0])
        raise ValueError(f"unknown decay {self.decay!r}")
