"""Means with intervals over seeds, and the transient iterations of a set of curves."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from expograph.runs.thinning import blocks


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


class Paired(NamedTuple):
    """A mean difference between two settings whose runs share their seeds.

    Attributes:
        mean: of the differences.
        half_width: of its 95 % Student-t confidence interval.
        p: of the two-sided paired t-test against no difference.
        count: how many pairs.
    """

    mean: float
    half_width: float
    p: float
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.half_width:.2f} (p = {self.p:.2g})"


def paired(values: np.ndarray, others: np.ndarray) -> Paired:
    """The mean of `values - others`, both (seeds,) with at least two seeds in the same order.

    Differences that are all equal have p = 0, or 1 if they are zero.
    """
    differences = np.asarray(values, dtype=float) - np.asarray(others, dtype=float)
    mean, half_width, count = mean_interval(differences)
    error = differences.std(ddof=1) / np.sqrt(count)
    if error == 0:
        return Paired(mean, 0.0, float(mean == 0), count)
    return Paired(mean, half_width, float(2 * stdtr(count - 1, -abs(mean) / error)), count)


class Slope(NamedTuple):
    """The exponent of a power law y = c n^exponent.

    Attributes:
        exponent: by least squares on logarithms.
        low, high: its 95 % confidence interval.
        count: how many points.
    """

    exponent: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.exponent:.2f} [{self.low:.2f}, {self.high:.2f}]"


def power_law(n: np.ndarray, y: np.ndarray) -> Slope:
    """Fit log y = log c + exponent log n to (k,) positive values, k >= 3, with its interval."""
    x, z = np.log(np.asarray(n, dtype=float)), np.log(np.asarray(y, dtype=float))
    centred = x - x.mean()
    exponent = float(centred @ z / (centred @ centred))
    residuals = z - z.mean() - exponent * centred
    df = len(x) - 2
    error = np.sqrt(residuals @ residuals / df / (centred @ centred))
    half_width = float(stdtrit(df, 0.975) * error)
    return Slope(exponent, exponent - half_width, exponent + half_width, len(x))


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
    """First of `steps` from which `curve` stays within `factor` times `reference` to the end.

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

    The curves are averaged over `blocks` first, unless they are already: without, the last of many
    random excursions above the bound is what is found.

    Args:
        steps: (T,) recorded steps, or first steps of blocks.
        curves, references: (seeds, T) errors; row i of both has the same seed, so they are
            resampled together.
        factor: see `transient_steps`.
    """
    rng = np.random.default_rng(0)
    _, references = blocks(steps, references)
    steps, curves = blocks(steps, curves)
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
