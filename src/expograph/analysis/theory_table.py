"""Table 1: what a step costs, the spectral gap, transient iterations in theory and as measured."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.analysis.written import UNAVAILABLE
from expograph.graphs import theory
from expograph.graphs.mixing import Mixing
from expograph.graphs.spectral import contraction, spectral_gap, window_of
from expograph.graphs.topology import build, ceil_log2
from expograph.own import is_own

TIME_VARYING = "time-varying"  # in place of a spectral gap


class _Described(NamedTuple):
    """A column and what makes its cell of a topology's name."""

    column: Column
    cell: Callable[[str], Cell]


def theory_table(summary: pd.DataFrame, measured: TableResult, heading: str) -> TableResult:
    """Cost of a step, spectral gap, and transient iterations, a row a topology.

    Args:
        summary: `results.summary` of the experiment.
        measured: what `transients.measure` returned, with rows for topology and nodes.
    """
    at: dict[tuple[Any, Any], Cell] = {}
    for row in measured.rows:
        labels = dict(zip(measured.labels, row.labels, strict=True))
        at[labels["topology"], labels["nodes"]] = row.cells[0]
    sizes = sorted({n for _, n in at})
    described = [
        *_costs(summary, sizes[-1]),
        *_orders(),
        *(
            _Described(
                Column(name=f"n^3 rho^4/(1-rho)^2, n = {n}", format=".2g"),
                partial(_bound, n=n),
            )
            for n in sizes
        ),
        *(
            _Described(
                Column(name=f"transient, measured, n = {n}", key="nodes", value=n, format=".0f"),
                partial(_found, at, n=n),
            )
            for n in sizes
        ),
    ]
    return TableResult(
        id="theory",
        heading=heading,
        labels=("topology",),
        columns=tuple(one.column for one in described),
        rows=tuple(
            Row(labels=(name,), cells=tuple(one.cell(name) for one in described))
            for name in dict.fromkeys(name for name, _ in at)
        ),
    )


def _costs(summary: pd.DataFrame, n: int) -> list[_Described]:
    """Messages and spectra, as computed and counted at one n."""
    tau = max(1, ceil_log2(n))
    return [
        _Described(
            Column(name="messages a step, order"), lambda name: _text(_rate(name).communication)
        ),
        _Described(
            Column(name=f"sent by the busiest rank, n = {n}"), lambda name: _sent(summary, name, n)
        ),
        _Described(
            Column(name="1 - rho, order"), lambda name: _text(_rate(name).gap or TIME_VARYING)
        ),
        _Described(
            Column(name=f"1 - rho, n = {n}", format=".4f"),
            lambda name: _of_static(name, n, spectral_gap),
        ),
        _Described(
            Column(name=f"norm of W(tau-1)...W(0) - J, tau = {tau}", format=".4f"),
            lambda name: _contraction(name, n, tau),
        ),
    ]


def _orders() -> list[_Described]:
    """Orders of the transient iterations in n."""
    return [
        _Described(
            Column(name="transient, claimed by the paper", published="itself"),
            lambda name: _text(theory.PAPER_TRANSIENT.get(name, UNAVAILABLE)),
        ),
        _Described(
            Column(name="transient, theory"), lambda name: _text(_rate(name).transient or "unknown")
        ),
    ]


def _rate(name: str) -> theory.Rate:
    return theory.rate_of(name)


def _text(text: str) -> Cell:
    return Cell(text=text)


def _bound(name: str, n: int) -> Cell:
    """The bound on the transient iterations, up to its constant."""
    return _of_static(name, n, lambda W: theory.transient_bound(W.n, 1 - spectral_gap(W)))


def _found(at: Mapping[tuple[Any, Any], Cell], name: str, n: int) -> Cell:
    """What was measured."""
    return at.get((name, n), Cell())


def _of_static(name: str, n: int, number: Callable[[Mixing], float]) -> Cell:
    """A number of a topology's only matrix."""
    if is_own(name):  # whose module is not imported here
        return Cell()
    topology = build(name, n, seed=0)
    if topology.period != 1:
        return Cell(text=TIME_VARYING)
    value = float(number(topology.at(0)))
    return Cell(mean=value) if np.isfinite(value) else Cell()


def _contraction(name: str, n: int, tau: int) -> Cell:
    if is_own(name):
        return Cell()
    return Cell(mean=contraction(window_of(build(name, n, seed=0), 0, tau)))


def _sent(summary: pd.DataFrame, name: str, n: int) -> Cell:
    """Messages of one model that the busiest rank sent a step, as the engine counted its bytes."""
    runs = summary[(summary["topology"] == name) & (summary["nodes"] == n)]
    done = runs[runs["status"] == "done"]
    if done.empty:
        return Cell(runs=tuple(runs["key"]), text="missing")
    message = 8 * done["problem.dim"] * done["steps"]  # bytes of one float64 vector a step
    sent = float((done["bytes_sent_max"] / message).mean())
    return Cell(mean=sent, count=len(done), runs=tuple(done["key"]))
