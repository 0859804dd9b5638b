"""Transient iterations: measured from curves, arranged by nodes, and their growth with n.

`measure` gives the numbers, a row each; other tables, figures and claims are made from these.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from expograph.analysis.grouping import grouped
from expograph.analysis.statistics import transient
from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.analysis.written import name_of
from expograph.config import Table
from expograph.config.facts import is_reference, over_exact
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
    found = transient(*_curves(both, errors, table), table.factor)
    beyond = end if None in found else None
    return Cell(mean=found.steps, low=found.low, high=found.high, beyond=beyond, **about)


class Curves(NamedTuple):
    """Errors of one setting and of its reference: block steps (B,), (seeds, B) each, by seed."""

    steps: np.ndarray
    ours: np.ndarray
    theirs: np.ndarray


def curves_of(
    summary: pd.DataFrame, errors: Errors, table: Table, topology: str, nodes: int
) -> Curves | None:
    """The curves of one graph and n whose runs are all done; None without them."""
    runs = summary[(summary["nodes"] == nodes) & (summary["status"] == "done")]
    ours = runs[runs["topology"] == topology]
    wanted = {over_exact(name) for name in ours["algorithm"]}
    exact = (runs["topology"] == "fully_connected") & runs["algorithm"].isin(wanted)
    both = ours.merge(runs[exact], on="seed", suffixes=("", "_reference")).sort_values("seed")
    return None if both.empty else _curves(both, errors, table)


def _curves(both: pd.DataFrame, errors: Errors, table: Table) -> Curves:
    """Of runs, a row a seed, merged with those of their references, which are as long or longer."""
    end, metric = int(both["steps"].iloc[0]), table.metrics[0]
    steps, ours = _until([errors[key][metric] for key in both["key"]], end)
    _, theirs = _until([errors[key][metric] for key in both["key_reference"]], end)
    return Curves(steps, ours, theirs)


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
        rows.append(labels | what | numbers | {"seeds": cell.count, "steps": int(steps.number)})
    columns = [*measured.labels, "what", "transient", "low", "high", "seeds", "steps"]
    return pd.DataFrame(rows, columns=columns)


def by_nodes(measured: TableResult, rows: list[str]) -> TableResult:
    """The numbers of `measure`: a line for each number of nodes, a column for each of `rows`."""
    places = {at(measured, row, [*rows, "nodes"]): row.cells[0] for row in measured.rows}
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


def at(measured: TableResult, row: Row, keys: list[str]) -> tuple[Any, ...]:
    """The values that a row of `measure` has for these keys."""
    values = dict(zip(measured.labels, row.labels, strict=True))
    return tuple(values[key] for key in keys)


def fitted(measured: pd.DataFrame) -> pd.DataFrame:
    """The rows of a `frame` that an exponent is fitted to."""
    used = measured[measured["transient"].notna() & (measured["transient"] >= FIT_FROM)]
    return used.sort_values("nodes")
