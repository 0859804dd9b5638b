"""The figure of what the paper is about: accuracy, messages and the time of a step."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from expograph.analysis.table_result import Cell, Row, TableResult
from expograph.report.style import new_figure, styled, training_style

HEADLINE = {  # topology -> what `bench_comm` calls its averaging
    "one_peer_exponential": "one-peer exponential",
    "static_exponential": "static exponential",
    "ring": "ring",
    "fully_connected": "Horovod allreduce",
}


@styled
def headline(
    accuracy: TableResult, runs: pd.DataFrame, times: TableResult, links: TableResult
) -> Figure:
    """What the paper is about in two panels: accuracy against messages a step, and a step's time.

    Args:
        accuracy: of an experiment with one-peer runs, by topology and nodes; the most are shown.
        runs: runs.csv of the same, for the bytes that were sent.
        times, links: of a virtual cluster's `bench_comm`; its largest message is shown.
    Raises:
        ValueError: one of the topologies is in neither.
    """
    figure, (left, right) = new_figure(2, height=1.9)
    nodes = max(column.value for column in accuracy.columns)
    elements = max(n for row in times.rows if (n := _label(times, row, "elements")))
    measured, steps = _column(accuracy, nodes), _steps(times, elements)
    if missing := {*HEADLINE} - {*measured} or {*HEADLINE.values()} - {*steps}:
        raise ValueError(f"nothing of {', '.join(sorted(missing))} to show")
    most = runs[(runs["nodes"] == nodes) & (runs["status"] == "done")]
    sent = most.groupby("topology")["bytes_sent_max"].mean()
    sent /= sent["one_peer_exponential"]  # which sends one message a step
    for row, (topology, averaging) in enumerate(HEADLINE.items()):
        colour, found = training_style(topology)["color"], measured[topology]
        line = {"fmt": "o", "color": colour, "ms": 5, "capsize": 3}
        left.errorbar(found.number, row, xerr=found.half_width, **line)
        time = steps[averaging]["ms"]
        right.barh(row, time, color=colour, height=0.6)
        right.text(time, row, f" {time:.0f}", va="center", fontsize=7)
    names = [f"{training_style(t)['label']}, sends {sent[t]:.2g}" for t in HEADLINE]
    names[0] += " model a step"
    left.set(xlabel="test accuracy (%)", title=f"{nodes} workers, equal steps")
    wire = steps["one-peer exponential"]["wire_ms"]
    right.axvline(wire, ymax=0.9, color="black", linestyle="--", linewidth=1)
    right.text(wire, -0.62, "wire, one message", ha="center", fontsize=7)
    longest = max(steps[averaging]["ms"] for averaging in HEADLINE.values())
    right.set(xlabel="time of an averaging step (ms)", xlim=(0, 1.12 * longest))
    ranks = steps["one-peer exponential"]["ranks"]
    gbit = links.cell("gbit", ranks=ranks).mean
    right.set_title(f"{ranks} hosts, {gbit:.0f} Gbit/s, {elements / 1e6:g} million parameters")
    for ax, shown in ((left, names), (right, ["", "", "", ""])):
        ax.set_yticks(range(len(HEADLINE)), shown)
        ax.set_ylim(3.5, -1)
        ax.grid(axis="y", visible=False)
    return figure


def _label(table: TableResult, row: Row, key: str) -> Any:
    return row.labels[table.labels.index(key)]


def _column(table: TableResult, value: Any) -> dict[str, Cell]:
    """topology -> the cell of a column, where there is a number."""
    at = [column.value for column in table.columns].index(value)
    cells = {_label(table, row, "topology"): row.cells[at] for row in table.rows}
    return {topology: cell for topology, cell in cells.items() if cell.mean is not None}


def _steps(times: TableResult, elements: int) -> dict[str, dict[str, Any]]:
    """averaging -> ranks and each column's number, of the rows with so many elements."""
    return {
        _label(times, row, "averaging"): {"ranks": _label(times, row, "ranks")}
        | {column.name: cell.mean for column, cell in zip(times.columns, row.cells, strict=True)}
        for row in times.rows
        if _label(times, row, "elements") == elements
    }
