"""Tables of the report: frames of text with links, as the templates want them."""

from typing import NamedTuple

import pandas as pd

from expograph.config import published_numbers
from expograph.graphs.topology import TOPOLOGIES
from expograph.report import panels
from expograph.report.reading import Scale
from expograph.report.style import name_of
from expograph.report.tables import UNAVAILABLE, Published


class Cell(NamedTuple):
    """A table's cell: its text, and where a click leads."""

    text: str
    link: str = ""


class Grid(NamedTuple):
    """A table as the templates want it.

    Attributes:
        heading: "" for none.
        columns: heading and whether the column quotes published numbers.
        rows: of cells.
    """

    heading: str
    columns: list[tuple[str, bool]]
    rows: list[list[Cell]]


def grid(frame: pd.DataFrame, heading: str = "", links: dict[tuple, str] | None = None) -> Grid:
    """A frame of text with links: names of topologies to their pages, cells by (row, column)."""
    pages = {name_of(name): f"topology-{name}.html" for name in TOPOLOGIES}
    theirs = ("published", "claimed by the paper")
    columns = [(str(c), any(words in str(c) for words in theirs)) for c in frame.columns]
    rows = [
        [
            Cell(str(value), (links or {}).get((i, column)) or pages.get(str(value), ""))
            for column, value in zip(frame.columns, row, strict=True)
        ]
        for i, row in enumerate(frame.itertuples(index=False))
    ]
    return Grid(heading, columns, rows)


def published(scale: Scale) -> tuple[Grid, Published] | None:
    """The published numbers that an experiment will stand beside, as a table of their own."""
    experiment = scale.experiment
    if not (experiment.table and experiment.table.published):
        return None
    found = Published(experiment.table.published, published_numbers(experiment.path))
    frame = pd.DataFrame(
        [
            {"topology": name_of(row)} | {f"{n} nodes, published": v for n, v in cells.items()}
            for row, cells in found.cells.items()
        ]
    )
    return grid(frame.fillna(UNAVAILABLE), found.caption), found


def cell_links(scale: Scale, frame: pd.DataFrame) -> dict[tuple, str]:
    """(row number, column) -> the runs behind a pivot table's cell."""
    table = scale.experiment.table
    if scale.runs is None or table is None or table.kind != "pivot":
        return {}
    keys = [key.rsplit(".", 1)[-1] for key in table.rows]
    if not set(keys) <= set(frame):
        return {}
    targets: dict[tuple, set[str]] = {}
    grouped = panels.grouped(scale.runs)
    if not {*table.rows, table.column} <= set(grouped):
        return {}
    for setting in grouped.to_dict("records"):
        value = setting[table.column]
        column = f"{value} nodes" if table.column == "nodes" else name_of(value)
        where = (*(_plain(name_of(setting[key])) for key in table.rows), column)
        targets.setdefault(where, set()).add(setting["run"])
    return {
        (i, column): f"{scale.name}-runs.html#{min(found)}"
        for i, row in enumerate(frame.to_dict("records"))
        for column in frame.columns
        if (found := targets.get((*(_plain(row[key]) for key in keys), column)))
    }


def _plain(text: str) -> str:
    """A number in its shortest form: 1.0 in one file is 1 in another."""
    try:
        return f"{float(text):g}"
    except ValueError:
        return text
