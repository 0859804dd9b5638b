"""Which step size of a grid is best in each row of a table, and which the grid still lacks.

The best of a row has the highest mean over seeds of the table's first metric; one that diverged
with any seed is out. Where the best lies on an edge, the grid must grow beyond it.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from expograph.analysis.grouping import grouped
from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.config import Run, Table

ID = "chosen"


class Choice(NamedTuple):
    """What a row's grid showed.

    Attributes:
        labels: the row's values of the table's keys.
        lr: the best step size.
        score: its mean.
        seeds: over how many.
        beyond: the step size to try next, the best being on an edge; None if it is not.
    """

    labels: tuple
    lr: float
    score: float
    seeds: int
    beyond: float | None


def choices(summary: pd.DataFrame, table: Table) -> list[Choice]:
    """The choice of each row, in the table's order.

    Rows with runs still to come are left out; one that diverged everywhere chooses of 0 seeds.
    """
    found = []
    for labels, runs in grouped(summary, table.rows).items():
        if (runs["status"] == "missing").any():
            continue
        scores = {lr: _score(same, table.metrics[0]) for lr, same in runs.groupby("lr")}
        grid = sorted(scores)
        finite = {lr: score for lr, score in scores.items() if score is not None}
        if not finite:
            found.append(Choice(labels, grid[0], float("nan"), 0, _digits(grid[0] / 2)))
            continue
        lr = max(finite, key=finite.__getitem__)
        seeds = runs.loc[runs["lr"] == lr, "seed"].nunique()
        found.append(Choice(labels, lr, finite[lr], seeds, _beyond(grid, lr)))
    return found


def _score(runs: pd.DataFrame, metric: str) -> float | None:
    mean = float(runs[metric].mean())
    return mean if (runs["status"] == "done").all() and not math.isnan(mean) else None


def _beyond(grid: Sequence[float], lr: float) -> float | None:
    """The next step size in the grid's ratio, if `lr` is an edge of it."""
    if len(grid) < 2:
        return _digits(2 * lr)
    if lr == grid[-1]:
        return _digits(lr * grid[-1] / grid[-2])
    return _digits(lr * grid[0] / grid[1]) if lr == grid[0] else None


def _digits(lr: float) -> float:
    return float(f"{lr:.3g}")


def grown(runs: Iterable[Run], summary: pd.DataFrame, table: Table) -> list[Run]:
    """The runs that the grid lacks: of each row whose best is on an edge, all seeds one beyond."""
    by_key = {run.key: run for run in runs}
    rows = grouped(summary, table.rows)
    more: dict[str, Run] = {}
    for choice in choices(summary, table):
        if choice.beyond is None:
            continue
        for key in rows[choice.labels]["key"]:
            run = by_key[key].model_copy(update={"lr": choice.beyond})
            more.setdefault(run.key, run)
    return [run for key, run in more.items() if key not in by_key]


def chosen_table(summary: pd.DataFrame, table: Table) -> TableResult:
    """The choices as a table."""
    rows = [
        Row(
            labels=choice.labels,
            cells=(Cell(mean=choice.lr), Cell(mean=choice.score, count=choice.seeds)),
        )
        for choice in choices(summary, table)
        if choice.seeds
    ]
    return TableResult(
        id=ID,
        heading="Chosen step sizes",
        labels=tuple(table.rows),
        columns=(Column(name="lr", format="g"), Column(name=table.metrics[0])),
        rows=tuple(rows),
    )
