"""Means with intervals over seeds, and the transient iterations of a set of curves."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit


class Mean(NamedTuple):
    """A mean over seeds.

    Attributes:
        mean: the sample mean.
        half_width: of the 95 % Student-t confidence interval; None for fewer than two values.
        count: how many values.
    """

    mean: float
    half_width: float | None
    count: int

    def __str__(self) -> str:
        if self.half_width is None:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ± {self.half_width:.2f}"


def mean_interval(values: np.ndarray, confidence: float = 0.95) -> Mean:
    """Mean and t-interval of independent values, shape (seeds,), at least one."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return Mean(float(values.mean()), None, len(values))
    quantile = stdtrit(len(values) - 1, (1 + confidence) / 2)  # of Student's t
    error = values.std(ddof=1) / np.sqrt(len(values))
    return Mean(float(values.mean()), float(quantile * error), len(values))


class Transient(NamedTuple):
    """Measured transient iterations.

    Attributes:
        steps: the measured number; None if the curve is still above the bound at its end.
        low, high: 95 % bootstrap interval over seeds; None for an end beyond the last step.
    """

    steps: int | None
    low: int | None
    high: int | None


def transient_steps(
    steps: np.ndarray, curve: np.ndarray, reference: np.ndarray, factor: float
) -> int | None:
    """First recorded step from which `curve` stays within `factor` times `reference` to the end.

    Args:
        steps: (T,) recorded steps, increasing.
        curve, reference: (T,) seed-averaged errors of the decentralized and of parallel SGD.
        factor: above 1; part of the definition, so state it with the number.
    Returns:
        The step; 0 if the curve is within the bound throughout; None if it ends outside.
    """
    outside = np.flatnonzero(curve > factor * reference)
    if len(outside) == 0:
        return 0
    if outside[-1] == len(steps) - 1:
        return None
    return int(steps[outside[-1] + 1])


def transient(
    steps: np.ndarray,
    curves: np.ndarray,
    references: np.ndarray,
    factor: float,
    resamples: int = 400,
) -> Transient:
    """Transient iterations of seed-averaged curves with a bootstrap interval over the seeds.

    Args:
        steps: (T,) recorded steps.
        curves, references: (seeds, T) errors; row i of both has the same seed, so they are
            resampled together.
        factor: see `transient_steps`.
    """
    rng = np.random.default_rng(0)
    measured = transient_steps(steps, curves.mean(axis=0), references.mean(axis=0), factor)
    draws = []
    for _ in range(resamples):
        pick = rng.integers(len(curves), size=len(curves))
        found = transient_steps(
            steps, curves[pick].mean(axis=0), references[pick].mean(axis=0), factor
        )
        draws.append(np.inf if found is None else found)
    low, high = np.quantile(draws, [0.025, 0.975], method="nearest")
    return Transient(measured, *(None if np.isinf(q) else int(q) for q in (low, high)))
