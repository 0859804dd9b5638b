"""Claims about transient iterations: their growth with n, and who has fewer."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from expograph.analysis.statistics import power_law
from expograph.analysis.transients import fitted, transient_exponent
from expograph.analysis.written import name_of
from expograph.claims import evidence
from expograph.claims.arguments import Exponent, TransientsConfig
from expograph.claims.outcome import NotMeasured, Part, between, every
from expograph.graphs import theory
from expograph.graphs.topology import build

EXPONENTIAL = ("one_peer_exponential", "static_exponential")


def same_iterations(
    root: Path,
    config: TransientsConfig,
    order: Exponent,
    logarithms: Exponent,
    exponents: Exponent,
    factor: Annotated[float, Field(ge=1, le=1000)],
) -> list[Part]:
    """Exponents of one-peer and static graphs against n^order log2^logarithms n, and each other.

    `exponents` is how far these may be apart, `factor` the iterations themselves.
    """
    measured, runs = evidence.transients(root, config)
    parts, slopes = [], []
    for name in EXPONENTIAL:
        at = measured[measured["topology"] == name]
        slope = transient_exponent(at)
        if slope is None:
            raise NotMeasured(f"fewer than three n of {name} have transient iterations")
        slopes.append(slope)
        sizes = fitted(at)["nodes"].to_numpy(dtype=float)
        claimed = power_law(sizes, sizes**order * np.log2(sizes) ** logarithms).exponent
        parts.append(
            Part(
                name,
                f"{name_of(name)}: no steeper than n^{order:g} log2^{logarithms:g} n, which is "
                f"n^{claimed:.2f} at n = {sizes.min():.0f} ... {sizes.max():.0f}",
                between(slope.low, slope.high, most=claimed),
                f"measured n^{slope}, {slope.count} n",
                runs,
            )
        )
    one, static = slopes
    apart = one.exponent - static.exponent
    half_width = math.hypot(one.high - one.low, static.high - static.low) / 2
    parts.append(
        Part(
            "exponents",
            f"their exponents differ by no more than {exponents:g}",
            between(apart - half_width, apart + half_width, -exponents, exponents),
            f"difference {apart:+.2f} ± {half_width:.2f}",
            runs,
        )
    )
    return [*parts, _same_number(measured, factor, runs)]


def _same_number(measured: pd.DataFrame, factor: float, runs: tuple[str, ...]) -> Part:
    pairs = [
        (n, one, static)
        for n, one, static in _at_equal_n(measured, *EXPONENTIAL)
        if one.transient > 0 and static.transient > 0
    ]
    quotients = [(_low(a) / max(_high(b), 1), _high(a) / max(_low(b), 1)) for _, a, b in pairs]
    return Part(
        "factor",
        f"the same number, within a factor of {factor:g}, at equal n",
        every(between(low, high, 1 / factor, factor) for low, high in quotients),
        "one-peer over static: "
        + ", ".join(
            f"{a.transient / b.transient:.1f} [{low:.1f}, {high:.1f}] at n = {n}"
            for (n, a, b), (low, high) in zip(pairs, quotients, strict=True)
        ),
        runs,
    )


def _at_equal_n(measured: pd.DataFrame, ours: str, other: str) -> Iterator[tuple[int, Any, Any]]:
    """n and the rows of two topologies, where both were measured."""
    at = {(row.topology, int(row.nodes)): row for row in measured.itertuples()}
    for n in sorted(n for name, n in at if name == ours and (other, n) in at):
        yield n, at[ours, n], at[other, n]


def fewer_iterations(root: Path, config: TransientsConfig) -> list[Part]:
    """Transient iterations at equal n: bootstrap intervals that do not overlap decide."""
    measured, runs = evidence.transients(root, config)
    parts = []
    for ours in ("static_exponential", "one_peer_exponential"):
        for other in ("ring", "star", "grid", "torus"):
            # where both are zero there is nothing to compare
            pairs = [
                (n, a, b)
                for n, a, b in _at_equal_n(measured, ours, other)
                if a.transient != 0 or b.transient != 0
            ]
            compared = [f"n = {n}: {_steps(a)} against {_steps(b)}" for n, a, b in pairs]
            parts.append(
                Part(
                    f"{ours}/{other}",
                    f"{name_of(ours)} before {name_of(other)}",
                    every(
                        between(_low(a) - _high(b), _high(a) - _low(b), most=0) for _, a, b in pairs
                    ),
                    "; ".join(compared) or "no n in common",
                    runs,
                )
            )
    return parts


def _steps(row: Any) -> str:
    return f"> {row.steps}" if pd.isna(row.transient) else f"{row.transient:.0f}"


def _low(row: Any) -> float:
    return row.steps if pd.isna(row.low) else row.low


def _high(row: Any) -> float:
    return math.inf if pd.isna(row.high) else row.high


def rates(root: Path, config: TransientsConfig) -> list[Part]:
    """Measured exponents against the upper bound's and against the noise model's.

    Of a graph for which theory has no bound nothing is claimed.
    """
    measured, runs = evidence.transients(root, config)
    parts = []
    for name, at in measured.groupby("topology", sort=False):
        slope = transient_exponent(at)
        if slope is None:
            lacking = "fewer than three n with transient iterations"
            parts.append(Part(name, name_of(name), "not measured", lacking))
            continue
        sizes = fitted(at)["nodes"].astype(int).tolist()
        bound = [theory.transient_order(name, n) for n in sizes]
        if None in bound:  # theory has no upper bound for it
            continue
        noise = [theory.noise_transient(build(name, n)) for n in sizes]
        steepest = power_law(sizes, bound).exponent
        parts.append(
            Part(
                name,
                f"{name_of(name)}: no steeper than the bound, n^{steepest:.2f} at these n",
                between(slope.low, slope.high, most=steepest),
                f"measured n^{slope} at n = {', '.join(map(str, sizes))}; noise model "
                f"n^{power_law(sizes, noise).exponent:.2f}",
                runs,
            )
        )
    return parts
