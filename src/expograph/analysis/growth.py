"""How transient iterations grow with n, with the error of their points: seeds are resampled
through the whole fit.

A resample draws seeds with replacement, the same ones for every graph and n, averages their
curves, finds each crossing between two blocks by a straight line in logarithms, and fits a power
law to the graphs' crossings at the n that they have in common.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from expograph.analysis.grouping import grouped, plain
from expograph.analysis.statistics import RESAMPLES, fitted_exponent
from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.analysis.transients import FIT_FROM, Curves, Errors, at, curves_of, frame
from expograph.analysis.written import UNAVAILABLE
from expograph.config import Table
from expograph.config.facts import is_reference
from expograph.graphs import theory
from expograph.graphs.topology import build
from expograph.own import is_own


class Growth(NamedTuple):
    """Exponents of several graphs' transient iterations.

    Attributes:
        nodes: the n that are fitted, the same for all.
        exponents: by topology, of all seeds.
        draws: by topology (RESAMPLES,), of resampled seeds; those of one index share their seeds.
    """

    nodes: tuple[int, ...]
    exponents: dict[str, float]
    draws: dict[str, np.ndarray]

    @property
    def where(self) -> str:
        """The n in words."""
        return f"n = {', '.join(map(str, self.nodes))}"

    def interval(self, topology: str) -> tuple[float, float]:
        """The 95 % bootstrap interval of an exponent."""
        low, high = np.quantile(self.draws[topology], [0.025, 0.975])
        return float(low), float(high)


Grown = Mapping[tuple[Any, ...], Growth | None]  # by a row's labels


def crossing(steps: np.ndarray, curve: np.ndarray, bound: np.ndarray) -> float:
    """Where `curve` comes below `bound` for good, between two of the (B,) steps.

    The first step if it is below throughout, the last if it ends above.
    """
    above = np.flatnonzero(curve > bound)
    if not len(above):
        return float(steps[0])
    i = int(above[-1])
    if i == len(steps) - 1:
        return float(steps[-1])
    over = np.log(curve[i : i + 2] / bound[i : i + 2])  # positive, then not
    x = np.log(steps[i : i + 2])
    return float(np.exp(x[0] + (x[1] - x[0]) * over[0] / (over[0] - over[1])))


def growth(
    summary: pd.DataFrame, errors: Errors, table: Table, topologies: Sequence[str]
) -> Growth | None:
    """The growth of these graphs' transient iterations; None for fewer than three n in common."""
    curves = {
        (name, n): found
        for name in topologies
        for n in sorted(summary["nodes"].unique())
        if (found := curves_of(summary, errors, table, name, int(n))) is not None
    }
    everyone = slice(None)
    whole = {at: crossing(*_averaged(found, everyone, table)) for at, found in curves.items()}
    sizes = [
        int(n)
        for n in sorted({n for _, n in curves})
        if all(whole.get((name, n), 0) >= FIT_FROM for name in topologies)
    ]
    if len(sizes) < 3:
        return None
    exponents = {
        name: fitted_exponent(sizes, [whole[name, n] for n in sizes]) for name in topologies
    }
    rng = np.random.default_rng(0)
    seeds = len(next(iter(curves.values())).ours)
    draws: dict[str, list[float]] = {name: [] for name in topologies}
    for _ in range(RESAMPLES):
        pick = rng.integers(seeds, size=seeds)
        for name in topologies:
            steps = [crossing(*_averaged(curves[name, n], pick, table)) for n in sizes]
            draws[name].append(fitted_exponent(sizes, steps))
    return Growth(tuple(sizes), exponents, {name: np.array(d) for name, d in draws.items()})


def by_rows(summary: pd.DataFrame, errors: Errors, table: Table) -> Grown:
    """The growth of each row of a table of transients, by its labels."""
    pairs = zip(summary["algorithm"], summary["topology"], strict=True)
    exact = pd.Series([is_reference(*pair) for pair in pairs], index=summary.index)
    found = {}
    for labels, runs in grouped(summary[~exact], table.rows).items():
        topology = plain(runs["topology"].iloc[0])
        both = pd.concat([runs, summary[exact]])
        found[labels] = growth(both, errors, table, [topology])
    return found


def _averaged(
    found: Curves, pick: np.ndarray | slice, table: Table
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, curve and bound of the picked seeds."""
    bound = table.factor * found.theirs[pick].mean(axis=0)
    return found.steps, found.ours[pick].mean(axis=0), bound


def exponents(measured: TableResult, rows: list[str], grown: Grown) -> TableResult:
    """How transient iterations grow with n, beside theory's orders: a line for each of `rows`.

    Each theory's column is the exponent of the power law nearest to its values at the same n.

    Args:
        measured: `transients.measure` of the same.
        grown: of each row, `by_rows`.
    """
    columns = (
        Column(name="n"),
        Column(name="measured"),
        Column(name="noise model"),
        Column(name="upper bound"),
        Column(name="upper bound's order"),
        Column(name="claimed by the paper", published="itself"),
    )
    runs: dict[tuple[Any, ...], list[str]] = {}
    for row in measured.rows:
        runs.setdefault(at(measured, row, rows), []).extend(row.cells[0].runs)
    lines = []
    for labels, group in grouped(frame(measured), rows).items():
        topology = plain(group["topology"].iloc[0])
        cells = (*_fits(topology, grown.get(labels), tuple(runs[labels])), *_orders(topology))
        lines.append(Row(labels=labels, cells=cells))
    return TableResult(
        id="exponents",
        heading="their growth: n^exponent",
        labels=tuple(rows),
        columns=columns,
        rows=tuple(lines),
    )


def _fits(topology: str, grown: Growth | None, runs: tuple[str, ...]) -> tuple[Cell, ...]:
    """Of one topology: the n that are fitted, and the exponents of measurement and theories."""
    if grown is None:
        return Cell(), Cell(runs=runs, text="fewer than three n"), Cell(), Cell()
    low, high = grown.interval(topology)
    noise: list[float] = []
    bound: list[float] = []
    if not is_own(topology):  # whose module is not imported here
        noise = [theory.noise_transient(build(topology, n)) for n in grown.nodes]
        every = (theory.transient_order(topology, n) for n in grown.nodes)
        bound = [order for order in every if order is not None]  # none without a source
    return (
        Cell(text=", ".join(map(str, grown.nodes))),
        Cell(mean=grown.exponents[topology], low=low, high=high, count=len(grown.nodes), runs=runs),
        Cell(mean=fitted_exponent(grown.nodes, noise)) if noise else Cell(),
        Cell(mean=fitted_exponent(grown.nodes, bound)) if bound else Cell(),
    )


def _orders(topology: str) -> tuple[Cell, Cell]:
    """The upper bound's order in n, and the paper's."""
    rate = theory.rate_of(topology)
    claimed = theory.PAPER_TRANSIENT.get(topology, UNAVAILABLE)
    return Cell(text=rate.transient or "unknown"), Cell(text=claimed)
