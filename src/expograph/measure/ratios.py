"""Ratios that are promised, each with its target, as one table."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables


class Ratio(NamedTuple):
    """One measured ratio, or seconds or GiB where its name says so.

    Attributes:
        group: of ratios that belong together.
        measured: of what.
        value: the number, a median where there are rounds.
        low, high: quartiles over the rounds; None for one measurement.
        target: what is promised of it, "<= 1.25" or ">= 4"; "" if nothing.
    """

    group: str
    measured: str
    value: float
    low: float | None = None
    high: float | None = None
    target: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the value is what is promised; None without a promise."""
        if not self.target:
            return None
        sign, bound = bound_of(self.target)
        return self.value <= bound if sign == "<=" else self.value >= bound


def bound_of(target: str) -> tuple[str, float]:
    """Sign and number of a target such as "<= 1.25"."""
    sign, number = target.split()
    return sign, float(number)


def tables_of(ratios: Iterable[Ratio], threads: int, made: Mapping[str, Any]) -> Tables:
    """What is written of the embedded engine's speed and memory."""
    rows = tuple(
        Row(
            labels=(r.group, r.measured),
            cells=(Cell(mean=r.value, low=r.low, high=r.high), Cell(text=r.target)),
        )
        for r in ratios
    )
    table = TableResult(
        id="ratios",
        heading="Ratios within one run",
        labels=("of", "measured"),
        columns=(Column(name="value"), Column(name="target")),
        rows=rows,
    )
    note = (
        f"{made['cpu']}, {threads} threads where none are named, torch {made['torch']}; medians "
        "[quartiles] of interleaved rounds; `make bench`"
    )
    return Tables(
        title="Speed and memory of the embedded engine",
        tables=(table,),
        notes=(note,),
        made={**made, "threads": threads},
    )
