"""Claims about transient iterations: their growth with n, who has fewer, and what theory says."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from expograph.analysis.growth import Growth, growth
from expograph.analysis.predictions import COMPARED, INSIDE, NOT_MEASURED, busiest
from expograph.analysis.statistics import RESAMPLES, fitted_exponent
from expograph.analysis.written import name_of
from expograph.claims import evidence
from expograph.claims.arguments import (
    Blocks,
    ErrorConfig,
    Exponent,
    Share,
    Topologies,
    TransientsConfig,
)
from expograph.claims.outcome import NotMeasured, Part, between, by_draws, every, sure
from expograph.graphs import theory
from expograph.graphs.topology import build

EXPONENTIAL = ("one_peer_exponential", "static_exponential")


def growth_no_faster(
    root: Path, config: TransientsConfig, order: Exponent, logarithms: Exponent, apart: Exponent
) -> list[Part]:
    """Exponents of one-peer and static graphs against n^order log2^logarithms n, and each other.

    Each is fitted at its own n, their difference at the n that both have; `apart` is how large that
    may be.
    """
    found = evidence.convergence(root, config)
    parts = []
    for name in EXPONENTIAL:
        grown = _growth(found, [name])
        n = np.array(grown.nodes, dtype=float)
        claimed = fitted_exponent(n, n**order * np.log2(n) ** logarithms)
        low, high = grown.interval(name)
        parts.append(
            Part.tested(
                name,
                f"{name_of(name)}: no steeper than n^{order:g} log2^{logarithms:g} n, which is "
                f"n^{claimed:.2f} at these n",
                by_draws(grown.draws[name], most=claimed),
                f"measured n^{grown.exponents[name]:.2f} [{low:.2f}, {high:.2f}], {grown.where}",
                found.keys,
            )
        )
    both, (one, static) = _growth(found, EXPONENTIAL), EXPONENTIAL
    draws = both.draws[one] - both.draws[static]
    low, high = np.quantile(draws, [0.025, 0.975])
    middle = both.exponents[one] - both.exponents[static]
    text = f"their exponents differ by no more than {apart:g}"
    shown = f"difference {middle:+.2f} [{low:+.2f}, {high:+.2f}], {both.where}"
    parts.append(Part.tested("exponents", text, by_draws(draws, -apart, apart), shown, found.keys))
    return parts


def _growth(found: evidence.Convergence, topologies: Sequence[str]) -> Growth:
    grown = growth(found.summary, found.errors, found.experiment.required_table, topologies)
    if grown is None:
        raise NotMeasured(f"fewer than three n in common: {', '.join(topologies)}")
    return grown


def same_number(
    root: Path, config: TransientsConfig, factor: Annotated[float, Field(ge=1, le=1000)]
) -> list[Part]:
    """One-peer's transient iterations within a factor of the static graph's, at equal n."""
    found = evidence.convergence(root, config)
    parts = []
    for n, one, static in _at_equal_n(found.measured, *EXPONENTIAL):
        if one.transient > 0 and static.transient > 0:
            low, high = _low(one) / max(_high(static), 1), _high(one) / max(_low(static), 1)
            text = f"n = {n}: within a factor of {factor:g}"
            shown = f"{one.transient / static.transient:.1f} [{low:.1f}, {high:.1f}] times as many"
            holds = between(low, high, 1 / factor, factor)
            parts.append(Part(f"n={n}", text, holds, shown, found.keys))
    return parts


def balance(root: Path, config: TransientsConfig) -> list[Part]:
    """Messages times transient iterations, the exponential graphs' against the others', equal n."""
    found = evidence.convergence(root, config)
    others = [t for t in found.measured["topology"].unique() if t not in EXPONENTIAL]
    parts = []
    for ours, other in itertools.product(EXPONENTIAL, others):
        for n, a, b in _at_equal_n(found.measured, ours, other):
            if a.transient == 0 and b.transient == 0:
                continue  # nothing to compare
            x, y = busiest(build(ours, n)), busiest(build(other, n))
            parts.append(
                Part(
                    f"{ours}/{other}/n={n}",
                    f"{name_of(ours)} fewer messages than {name_of(other)}, n = {n}",
                    between(x * _low(a) - y * _high(b), x * _high(a) - y * _low(b), most=0),
                    f"{_steps(a)} steps x {x:g} against {_steps(b)} x {y:g}",
                    found.keys,
                )
            )
    return parts


def predicted(root: Path, config: TransientsConfig, blocks: Blocks, share: Share) -> list[Part]:
    """Theory's predictions against what was measured, where something was.

    `blocks` is how far the median prediction may be off, in blocks of steps (24 a decade), `share`
    how many predictions must lie in their measured intervals.
    """
    experiment, summary = evidence.finished(root, config)
    table = evidence.table(root / "predictions", experiment.name, "predictions")
    names = [column.name for column in table.columns]
    every = [dict(zip(names, row.cells, strict=True)) for row in table.rows]
    rows = [row for row in every if row[COMPARED].mean is not None]
    if not rows or any(row["measured"].text == NOT_MEASURED for row in every):
        raise NotMeasured("predictions without their measurements: `make predictions`")
    off = np.array([abs(row[COMPARED].number) for row in rows])
    inside = sum(row[INSIDE].text == "yes" for row in rows)
    keys = tuple(summary["key"])
    return [
        Part(
            "distance",
            f"half of the predictions within {blocks} blocks of the measured transient",
            sure(float(np.median(off)) <= blocks),
            f"median {np.median(off):g} blocks, largest {off.max():g}, of {len(off)} predictions",
            keys,
        ),
        Part(
            "inside",
            f"at least {share:.0%} of the predictions in the measured 95 % interval",
            sure(inside >= share * len(rows)),
            f"{inside} of {len(rows)}",
            keys,
        ),
    ]


def linear_speedup(
    root: Path, config: ErrorConfig, topologies: Topologies, within: Exponent
) -> list[Part]:
    """The error after equally many steps against n: as 1/n, so that n times it is flat.

    The seeds are resampled, the same ones at every n.
    """
    _, summary = evidence.finished(root, config)
    parts = []
    for name in topologies:
        runs = summary[summary["topology"] == name]
        errors = runs.pivot(index="nodes", columns="seed", values="error_workers")
        if len(errors) < 3 or errors.isna().to_numpy().any():
            raise NotMeasured(f"{name}: fewer than three n with the same seeds")
        n, of_seeds = errors.index.to_numpy(), errors.to_numpy()
        picks = np.random.default_rng(0).integers(
            of_seeds.shape[1], size=(RESAMPLES, of_seeds.shape[1])
        )
        draws = np.array([fitted_exponent(n, of_seeds[:, pick].mean(axis=1)) for pick in picks])
        low, high = np.quantile(draws, [0.025, 0.975])
        shown = f"n^{fitted_exponent(n, of_seeds.mean(axis=1)):.3f} [{low:.3f}, {high:.3f}]"
        parts.append(
            Part.tested(
                name,
                f"{name_of(name)}: error falls with n as n^-1, within {within:g}",
                by_draws(draws, -1 - within, -1 + within),
                f"{shown}, n = {', '.join(map(str, n))}, {of_seeds.shape[1]} seeds",
                tuple(runs["key"]),
            )
        )
    return parts


def _at_equal_n(measured: pd.DataFrame, ours: str, other: str) -> Iterator[tuple[int, Any, Any]]:
    """n and the rows of two topologies, where both were measured."""
    at = {(row.topology, int(row.nodes)): row for row in measured.itertuples()}
    for n in sorted(n for name, n in at if name == ours and (other, n) in at):
        yield n, at[ours, n], at[other, n]


def fewer_iterations(root: Path, config: TransientsConfig) -> list[Part]:
    """Transient iterations at equal n: bootstrap intervals that do not overlap decide."""
    found = evidence.convergence(root, config)
    measured, runs = found.measured, found.keys
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
    found = evidence.convergence(root, config)
    table = found.experiment.required_table
    parts = []
    for name in found.measured["topology"].unique():
        grown = growth(found.summary, found.errors, table, [name])
        if grown is None:
            lacking = "fewer than three n with transient iterations"
            parts.append(Part(name, name_of(name), "not measured", lacking))
            continue
        every = (theory.transient_order(name, n) for n in grown.nodes)
        bound = [order for order in every if order is not None]
        if not bound:  # theory has no upper bound for it
            continue
        noise = [theory.noise_transient(build(name, n)) for n in grown.nodes]
        steepest = fitted_exponent(grown.nodes, bound)
        low, high = grown.interval(name)
        parts.append(
            Part.tested(
                name,
                f"{name_of(name)}: no steeper than the bound, n^{steepest:.2f} at these n",
                by_draws(grown.draws[name], most=steepest),
                f"measured n^{grown.exponents[name]:.2f} [{low:.2f}, {high:.2f}] at {grown.where}; "
                f"noise model n^{fitted_exponent(grown.nodes, noise):.2f}",
                found.keys,
            )
        )
    return parts
