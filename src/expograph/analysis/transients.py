"""Transient iterations: measured from curves, arranged by nodes, and their growth with n.

`measure` gives the numbers, a row each; other tables, figures and claims are made from these.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from expograph.analysis.grouping import grouped, plain
from expograph.analysis.statistics import Slope, power_law, transient
from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.analysis.written import UNAVAILABLE, name_of
from expograph.config import Table
from expograph.config.facts import is_reference, over_exact
from expograph.graphs import theory
from expograph.graphs.topology import build
from expograph.runs.thinning import BlockMeans

MEASURED = "measured"  # id of the table of all measured numbers
FIT_FROM = 100  # steps: what is shorter is the initial phase's, not the network's


Errors = Mapping[str, Mapping[str, BlockMeans]]  # key of a run -> metric -> its means over blocks


def measure(summary: pd.DataFrame, errors: Errors, table: Table) -> TableResult:
    """Transient iterations of every topology and number of nodes, against its reference.

    The reference of an algorithm is itself over exact averaging: the runs over `fully_connected`
    that are alike in the keys of `table.rows`, nodes and seed.

    Args:
        summary: `results.summary` of the experiment.
        errors: `results.errors_of` the experiment.
        table: gives `factor`; the error is the metric `table.metrics[0]`.
    Returns:
        A row for the keys of `table.rows` and nodes; columns transient, with its bootstrap
        interval or the reason why there is none, and steps, up to which was measured.
    """
    others = [key for key in table.rows if key not in ("topology", "algorithm")]
    told = [*(["algorithm"] if "algorithm" in table.rows else []), "topology"]
    rows = []
    for where, alike in grouped(summary, [*others, "nodes"]).items():
        pairs = zip(alike["algorithm"], alike["topology"], strict=True)
        exact = pd.Series([is_reference(*pair) for pair in pairs], index=alike.index)
        for which, runs in grouped(alike[~exact], told).items():
            wanted = {over_exact(name) for name in runs["algorithm"]}
            references = alike[exact & alike["algorithm"].isin(wanted)]
            steps = Cell(mean=runs["steps"].iloc[0])
            cells = (_measured(runs, references, errors, table), steps)
            rows.append(Row(labels=(*where, *which), cells=cells))
    return TableResult(
        id=MEASURED,
        heading="transient iterations, every one",
        labels=(*others, "nodes", *told),
        columns=(Column(name="transient", format=".0f"), Column(name="steps", format=".0f")),
        rows=tuple(rows),
        shown=False,
    )


def _measured(runs: pd.DataFrame, references: pd.DataFrame, errors: Errors, table: Table) -> Cell:
    """The transient iterations of one setting, or the reason why there are none."""
    if runs["seed"].duplicated().any() or references["seed"].duplicated().any():
        return Cell(count=0, text="its runs differ in more than the seed")
    both = runs.merge(references, on="seed", suffixes=("", "_reference"))
    if both.empty:
        return Cell(count=0, text="no parallel SGD to compare with")
    about = {"count": len(both), "runs": (*both["key"], *both["key_reference"])}
    statuses = {*both["status"], *both["status_reference"]}
    if statuses != {"done"}:
        return Cell(text="diverged" if "diverged" in statuses else "missing", **about)
    end = int(both["steps"].iloc[0])
    if both["steps_reference"].min() < end:
        return Cell(text="its reference has fewer steps", **about)
    metric = table.metrics[0]
    steps, ours = _until([errors[key][metric] for key in both["key"]], end)
    _, theirs = _until([errors[key][metric] for key in both["key_reference"]], end)
    found = transient(steps, ours, theirs, table.factor)
    beyond = end if None in found else None
    return Cell(mean=found.steps, low=found.low, high=found.high, beyond=beyond, **about)


def _until(errors: list[BlockMeans], end: int) -> tuple[np.ndarray, np.ndarray]:
    """First steps of the blocks up to `end` (B,), and the means of every seed (seeds, B)."""
    parts = [error.until(end) for error in errors]
    return parts[0][0], np.stack([means for _, means in parts])


def frame(measured: TableResult) -> pd.DataFrame:
    """What `measure` gave as a frame for arithmetic and figures.

    Returns:
        A row a row: its labels, what ("measured", or why not), transient, low, high (NaN for what
        lies beyond the last step), seeds, steps.
    """
    rows = []
    for row in measured.rows:
        cell, steps = row.cells
        numbers = {"transient": cell.mean, "low": cell.low, "high": cell.high}
        numbers = {k: np.nan if v is None else v for k, v in numbers.items()}
        what = {"what": cell.text or "measured"}
        labels = dict(zip(measured.labels, row.labels, strict=True))
        rows.append(labels | what | numbers | {"seeds": cell.count, "steps": int(steps.mean)})
    columns = [*measured.labels, "what", "transient", "low", "high", "seeds", "steps"]
    return pd.DataFrame(rows, columns=columns)


def by_nodes(measured: TableResult, rows: list[str]) -> TableResult:
    """The numbers of `measure`: a line for each number of nodes, a column for each of `rows`."""
    places = {_at(measured, row, [*rows, "nodes"]): row.cells[0] for row in measured.rows}
    settings = list(dict.fromkeys(values[:-1] for values in places))
    sizes = sorted({values[-1] for values in places})
    return TableResult(
        id="transients",
        heading="transient iterations",
        labels=("nodes",),
        columns=tuple(
            Column(
                name=", ".join(map(name_of, values)),
                key=", ".join(rows),
                value=values[0] if len(values) == 1 else list(values),
                format=".0f",
            )
            for values in settings
        ),
        rows=tuple(
            Row(labels=(n,), cells=tuple(places.get((*values, n), Cell()) for values in settings))
            for n in sizes
        ),
    )


def exponents(measured: TableResult, rows: list[str]) -> TableResult:
    """How transient iterations grow with n, beside theory's orders: a line for each of `rows`.

    Each theory's column is the exponent of the power law nearest to its values at the same n.
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
        runs.setdefault(_at(measured, row, rows), []).extend(row.cells[0].runs)
    lines = []
    for labels, group in grouped(frame(measured), rows).items():
        topology = plain(group["topology"].iloc[0])
        cells = (*_fits(topology, group, tuple(runs[labels])), *_orders(topology))
        lines.append(Row(labels=labels, cells=cells))
    return TableResult(
        id="exponents",
        heading="their growth: n^exponent",
        labels=tuple(rows),
        columns=columns,
        rows=tuple(lines),
    )


def _at(measured: TableResult, row: Row, keys: list[str]) -> tuple[Any, ...]:
    """The values that a row of `measure` has for these keys."""
    values = dict(zip(measured.labels, row.labels, strict=True))
    return tuple(values[key] for key in keys)


def _fits(topology: str, measured: pd.DataFrame, runs: tuple[str, ...]) -> tuple[Cell, ...]:
    """Of one topology: the n that are fitted, and the exponents of measurement and theories."""
    slope = transient_exponent(measured)
    if slope is None:
        return Cell(), Cell(runs=runs, text="fewer than three n"), Cell(), Cell()
    sizes = fitted(measured)["nodes"].astype(int).tolist()
    ends = {"low": slope.low, "high": slope.high, "count": slope.count}
    noise = [theory.noise_transient(build(topology, n)) for n in sizes]
    bound = [theory.transient_order(topology, n) for n in sizes]  # None: theory has no bound
    return (
        Cell(text=", ".join(map(str, sizes))),
        Cell(mean=slope.exponent, runs=runs, **ends),
        Cell(mean=power_law(sizes, noise).exponent),
        Cell() if None in bound else Cell(mean=power_law(sizes, bound).exponent),
    )


def _orders(topology: str) -> tuple[Cell, Cell]:
    """The upper bound's order in n, and the paper's."""
    rate = theory.RATES.get(topology, theory.Rate("", "", ""))
    claimed = theory.PAPER_TRANSIENT.get(topology, UNAVAILABLE)
    return Cell(text=rate.transient or "unknown"), Cell(text=claimed)


def fitted(measured: pd.DataFrame) -> pd.DataFrame:
    """The rows of a `frame` that an exponent is fitted to."""
    used = measured[measured["transient"].notna() & (measured["transient"] >= FIT_FROM)]
    return used.sort_values("nodes")


def transient_exponent(measured: pd.DataFrame) -> Slope | None:
    """The exponent of the transient iterations in a `frame`; None for fewer than three n."""
    used = fitted(measured)
    return power_law(used["nodes"], used["transient"]) if len(used) >= 3 else None
