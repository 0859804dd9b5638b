"""Means with intervals over seeds, and the transient iterations of a set of curves."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
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
    count: int  # type: ignore[assignment]  # of a tuple, whose method nobody calls

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
    count: int  # type: ignore[assignment]  # of a tuple, whose method nobody calls

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    def not_above(self, bound: float) -> float:
        """p-value of the one-sided t-test against a true difference of `bound` or less."""
        if self.half_width == 0 or math.isinf(bound):
            return float(self.mean <= bound)
        error = self.half_width / stdtrit(self.count - 1, 0.975)
        return float(stdtr(self.count - 1, (bound - self.mean) / error))

    def not_below(self, bound: float) -> float:
        """p-value of the one-sided t-test against a true difference of `bound` or more."""
        return self._replace(mean=-self.mean).not_above(-bound)

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
    assert half_width is not None, "one pair has no interval"
    return Paired(mean, half_width, float(2 * stdtr(count - 1, -abs(mean) / error)), count)


def half_width_of_difference(half_widths: tuple[float, float], counts: tuple[int, int]) -> float:
    """Half-width of the 95 % interval of the difference of two independent means (Welch).

    With t(k) the 97.5 % point of Student's t of k degrees of freedom, a mean of n values with the
    half-width h has the standard error e = h / t(n - 1); the difference has

        t(k) sqrt(e1^2 + e2^2),  k = (e1^2 + e2^2)^2 / (e1^4 / (n1 - 1) + e2^4 / (n2 - 1))

    Means that share some of their values depend on each other, the interval is too wide for them.

    Args:
        half_widths: of the 95 % Student-t intervals of the two means.
        counts: of how many values each is, at least 2.
    """
    squares = [
        float(h / stdtrit(n - 1, 0.975)) ** 2 for h, n in zip(half_widths, counts, strict=True)
    ]
    total = sum(squares)
    if total == 0:
        return 0.0
    k = 1 / sum((e / total) ** 2 / (n - 1) for e, n in zip(squares, counts, strict=True))
    return float(stdtrit(k, 0.975) * np.sqrt(total))


def half_width_of_another(half_width: float, count: int) -> float:
    """Half-width of the 95 % interval of one more value, around the mean of `count` others.

    h sqrt(n + 1), h being the half-width of the mean of n values: the prediction interval.
    """
    return half_width * float(np.sqrt(count + 1))


def holm(p: Sequence[float]) -> list[float]:
    """p-values adjusted for being many, in their order, by Holm's step-down rule.

    The i-th smallest of m becomes the largest of (m - j + 1) p_j, j <= i, at most 1 (Holm 1979).
    """
    adjusted, least = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        least = max(least, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = least
    return adjusted


RESAMPLES = 1000  # bootstrap draws of what is fitted or interpolated


def fitted_exponent(n: ArrayLike, y: ArrayLike) -> float:
    """The exponent of log y = log c + exponent log n by least squares, (k,) values, k >= 2."""
    x, z = np.log(np.asarray(n, dtype=float)), np.log(np.asarray(y, dtype=float))
    centred = x - x.mean()
    return float(centred @ z / (centred @ centred))


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
