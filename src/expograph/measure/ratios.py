"""Ratios that are promised, each with its target, as one table."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables


class Ratio(NamedTuple):
    """One measured ratio, or seconds or GiB where its name says so.

    Attributes:
        measured: of what.
        value: the number.
        target: what is promised of it, as in "<= 1.25"; "" if nothing.
        group: of ratios that belong together.
        low, high: quartiles over rounds; None for one measurement.
    """

    measured: str
    value: float
    target: str = ""
    group: str = ""
    low: float | None = None
    high: float | None = None


def tables_of(ratios: Iterable[Ratio], threads: int, made: Mapping[str, Any]) -> Tables:
    """What is written of the embedded engine's speed and memory."""
    rows = tuple(
        Row(labels=(r.measured,), cells=(Cell(mean=r.value), Cell(text=r.target))) for r in ratios
    )
    table = TableResult(
        id="ratios",
        heading="Ratios within one run",
        labels=("measured",),
        columns=(Column(name="value"), Column(name="target")),
        rows=rows,
    )
    note = f"{made['cpu']}, {threads} threads, torch {made['torch']}; `make bench`"
    return Tables(
        title="Speed and memory of the embedded engine",
        tables=(table,),
        notes=(note,),
        made={**made, "threads": threads},
    )
