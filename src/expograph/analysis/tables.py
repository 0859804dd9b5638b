"""Runs -> tables: one number a row and column, and differences paired by seed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from expograph.analysis.grouping import grouped, values_of
from expograph.analysis.published import Published
from expograph.analysis.statistics import mean_interval, paired
from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.analysis.written import column_name, name_of
from expograph.config import Table
from expograph.config.facts import PROBLEMS, heading
from expograph.runs.results import varying

ERRORS = PROBLEMS["least_squares"].metrics  # become small
MakeCell = Callable[[pd.DataFrame, str], Cell]  # runs that differ in their seeds only, a metric


def cell_of(runs: pd.DataFrame, metric: str) -> Cell:
    """Mean and interval over seeds, or what kept it from being a number."""
    keys, count = tuple(runs["key"]), len(runs)
    missing = int((~runs["status"].isin(["done", "diverged"])).sum())
    diverged = int((runs["status"] == "diverged").sum())
    if missing:
        return Cell(runs=keys, text=f"missing ({missing} of {count} runs)")
    if diverged:
        return Cell(runs=keys, text=f"diverged ({diverged} of {count} runs)")
    values = runs[metric].to_numpy(dtype=float)
    if wrong := int((~np.isfinite(values)).sum()):
        return Cell(runs=keys, text=f"no number ({wrong} of {count} runs)")
    mean, half_width, count = mean_interval(values)
    return Cell(mean=mean, half_width=half_width, count=count, runs=keys)


def live_cell(runs: pd.DataFrame, metric: str) -> Cell:
    """The same while runs are still to come: the mean so far, and of how many seeds it is."""
    done = runs[runs["status"] == "done"]
    if len(done) == len(runs) or (runs["status"] == "diverged").any():
        return cell_of(runs, metric)
    if done.empty or not math.isfinite(done[metric].mean()):
        return Cell(runs=tuple(runs["key"]), text="-")
    so_far = float(done[metric].mean())
    return Cell(mean=so_far, count=len(done), planned=len(runs), runs=tuple(done["key"]))


def pivot(
    summary: pd.DataFrame,
    table: Table,
    metric: str,
    published: Published | None,
    make_cell: MakeCell = cell_of,
) -> TableResult:
    """A row for each value of `table.rows` in run order, a column for each of `table.column`.

    What else the runs of one cell differ in, seeds apart, becomes further rows: a cell's interval
    is over seeds and nothing else. A key that some runs do not have has the value None there.
    """
    columns = values_of(summary, table.column)
    keys = [*table.rows, *_further_keys(summary, table)]
    cells = grouped(summary, [*keys, table.column])
    rows = []
    for labels in grouped(summary, keys):
        made = []
        for value in columns:
            runs = cells.get((*labels, value))
            cell = Cell() if runs is None else make_cell(runs, metric)
            number = published.number(labels, value) if published else None
            if published and number is not None:
                cell = cell.model_copy(update={"published": number, "source": published.source})
            made.append(cell)
        rows.append(Row(labels=labels, cells=tuple(made)))
    return TableResult(
        id=metric,
        heading=heading(metric),
        labels=tuple(keys),
        columns=_columns(
            table,
            columns,
            published="beside" if published and published.cells else None,
            format=".3g" if metric in ERRORS else ".2f",
        ),
        rows=tuple(rows),
    )


def _further_keys(summary: pd.DataFrame, table: Table) -> list[str]:
    """The keys outside the table in which runs of one cell differ."""
    inside = [*table.rows, table.column]
    cells = grouped(summary, inside).values()
    outside = [key for key in varying(summary) if key not in inside]
    return [key for key in outside if any(len(values_of(runs, key)) > 1 for runs in cells)]


def _columns(table: Table, values: list[Any], **others: Any) -> tuple[Column, ...]:
    return tuple(
        Column(name=column_name(table.column, value), key=table.column, value=value, **others)
        for value in values
    )


def differences(summary: pd.DataFrame, table: Table, metric: str) -> TableResult:
    """Each row of the pivot table minus the row `table.compare`, paired by seed."""
    columns = values_of(summary, table.column)
    cells = grouped(summary, [*table.rows, table.column])
    rows = []
    for labels in grouped(summary, table.rows):
        where = dict(zip(table.rows, labels, strict=True))
        other = tuple((where | table.compare).values())
        if other != labels:
            made = [
                _difference(cells.get((*labels, value)), cells.get((*other, value)), metric)
                for value in columns
            ]
            rows.append(Row(labels=labels, cells=tuple(made)))
    compared = ", ".join(name_of(value) for value in table.compare.values())
    return TableResult(
        id=f"{metric}_difference",
        heading=f"{heading(metric)}: difference from {compared}, same seeds",
        labels=tuple(table.rows),
        columns=_columns(table, columns, format="+.2f"),
        rows=tuple(rows),
    )


def _difference(ours: pd.DataFrame | None, theirs: pd.DataFrame | None, metric: str) -> Cell:
    """Mean difference over all seeds of ours; an empty cell if not every one has its pair."""
    if ours is None or theirs is None or metric not in ours:
        return Cell()
    done = [runs[runs["status"] == "done"].set_index("seed") for runs in (ours, theirs)]
    seeds = done[0].index.intersection(done[1].index)
    if len(seeds) < 2 or len(seeds) != len(ours) or not done[1].index.is_unique:
        return Cell()
    values = [runs.loc[seeds, metric] for runs in done]
    if not np.isfinite(values).all():
        return Cell()
    mean, half_width, p, count = paired(*values)
    keys = [*done[0].loc[seeds, "key"], *done[1].loc[seeds, "key"]]
    return Cell(mean=mean, half_width=half_width, p=p, count=count, runs=tuple(keys))
