"""The transient stage of a network: the length of training from which a graph loses no accuracy.

Each length is a run with its own schedule. A graph's transient is the length where its mean gap to
the reference, paired by seed, comes within some points for good: between two lengths by a straight
line against the logarithm of the steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from expograph.analysis.grouping import grouped
from expograph.analysis.statistics import RESAMPLES
from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.config import Table
from expograph.graphs import disagreement
from expograph.graphs.topology import build
from expograph.own import is_own

ID = "stage"


class Gaps(NamedTuple):
    """How far a setting lies below its reference.

    Attributes:
        steps: (L,) lengths of training, ascending.
        points: (seeds, L) of accuracy, positive where the reference is better.
        keys: of the runs.
    """

    steps: np.ndarray
    points: np.ndarray
    keys: tuple[str, ...]


def gaps(summary: pd.DataFrame, table: Table, metric: str) -> Mapping[tuple[Any, ...], Gaps]:
    """The gaps of each row of a table over steps that `table.compare` names a reference for."""
    rows = grouped(summary, table.rows)
    found = {}
    for labels, runs in rows.items():
        other = tuple((dict(zip(table.rows, labels, strict=True)) | table.compare).values())
        if other == labels or other not in rows:
            continue
        ours, theirs = (_by_seed(side, metric) for side in (runs, rows[other]))
        if ours is None or theirs is None or not ours.index.equals(theirs.index):
            continue
        steps = [k for k in ours.columns if k in theirs.columns]
        keys = (*runs["key"], *rows[other]["key"])
        found[labels] = Gaps(np.array(steps), (theirs[steps] - ours[steps]).to_numpy(), keys)
    return found


def _by_seed(runs: pd.DataFrame, metric: str) -> pd.DataFrame | None:
    """A row a seed, a column a length; None unless all runs are done."""
    if (runs["status"] != "done").any() or runs.duplicated(["seed", "steps"]).any():
        return None
    return runs.pivot(index="seed", columns="steps", values=metric)


def within_from(steps: np.ndarray, gap: np.ndarray, points: float) -> float | None:
    """The length from which a mean gap (L,) stays within so many points; None if it does not.

    The shortest length, if it is within them throughout.
    """
    outside = np.flatnonzero(gap > points)
    if not len(outside):
        return float(steps[0])
    i = int(outside[-1])
    if i == len(steps) - 1:
        return None
    share = (gap[i] - points) / (gap[i] - gap[i + 1])
    return float(steps[i] * (steps[i + 1] / steps[i]) ** share)


def stage_table(summary: pd.DataFrame, table: Table, metric: str) -> TableResult:
    """The transient of each row, with a bootstrap interval over seeds, beside theory's S and H."""
    within = table.within
    assert within is not None, "a table of a stage has `within`"
    rows = []
    for labels, found in gaps(summary, table, metric).items():
        where = dict(zip(table.rows, labels, strict=True))
        rows.append(Row(labels=labels, cells=(_transient(found, within), *_theory(where))))
    return TableResult(
        id=ID,
        heading=f"steps until within {within:g} point of the reference",
        labels=tuple(table.rows),
        columns=(
            Column(name="steps", format=".0f"),
            Column(name="S / n", format=".3g"),
            Column(name="H / n", format=".3g"),
        ),
        rows=tuple(rows),
    )


def _transient(found: Gaps, points: float) -> Cell:
    steps = found.steps
    measured = within_from(steps, found.points.mean(axis=0), points)
    rng, seeds = np.random.default_rng(0), len(found.points)
    draws = []
    for _ in range(RESAMPLES):
        pick = rng.integers(seeds, size=seeds)
        drawn = within_from(steps, found.points[pick].mean(axis=0), points)
        draws.append(np.inf if drawn is None else drawn)
    low, high = (
        None if np.isinf(end) else float(end)
        for end in np.quantile(draws, [0.025, 0.975], method="nearest")
    )
    beyond = float(steps[-1]) if None in (measured, low, high) else None
    return Cell(mean=measured, low=low, high=high, beyond=beyond, count=seeds, runs=found.keys)


def _theory(where: Mapping[str, Any]) -> Sequence[Cell]:
    """S / n and H / n of a row's graph, by which theory puts graphs in order; not of a user's."""
    if "topology" not in where or "nodes" not in where or is_own(where["topology"]):
        return Cell(), Cell()
    graph, n = build(where["topology"], where["nodes"]), where["nodes"]
    return tuple(Cell(mean=number(graph) / n) for number in (disagreement.S, disagreement.H))
