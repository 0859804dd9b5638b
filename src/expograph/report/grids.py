"""Tables of the report: what renderings show, with links, as the templates want them."""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from expograph.analysis.table_result import TableResult
from expograph.graphs.topology import TOPOLOGIES
from expograph.report import panels
from expograph.report.layout import Entry, layout
from expograph.report.reading import Scale


class Place(NamedTuple):
    """One place of a table: its text, and where a click leads."""

    text: str
    link: str = ""


class Grid(NamedTuple):
    """A table as the templates want it.

    Attributes:
        heading: "" for none.
        columns: heading and whether the column quotes published numbers.
        rows: of places.
    """

    heading: str
    columns: list[tuple[str, bool]]
    rows: list[list[Place]]


def grid(table: TableResult, links: Mapping[str, str] | None = None) -> Grid:
    """A table with its links: a topology's name leads to its page, a number to its runs.

    Args:
        links: key of a run -> where it is described.
    """
    laid = layout(table)
    rows = [
        [
            Place(entry.text, "" if quoted else _link(entry, links or {}))
            for entry, (_, quoted) in zip(row, laid.columns, strict=True)
        ]
        for row in laid.rows
    ]
    return Grid(laid.heading, laid.columns, rows)


def of_text(frame: pd.DataFrame) -> Grid:
    """A frame of text, without links."""
    rows = [[Place(str(text)) for text in row] for row in frame.itertuples(index=False)]
    return Grid("", [(str(name), False) for name in frame.columns], rows)


def _link(entry: Entry, links: Mapping[str, str]) -> str:
    if entry.cell is None:
        return topology_page(entry.value) if (entry.key or "").endswith("topology") else ""
    return next((links[key] for key in entry.cell.runs if key in links), "")


def topology_page(name: object) -> str:
    """The page of a topology; "" for what has none."""
    return f"topology-{name}.html" if name in TOPOLOGIES else ""


def run_links(scale: Scale) -> dict[str, str]:
    """Key of a run -> its setting on the page of runs."""
    if scale.runs is None:
        return {}
    page = f"{scale.name}-runs.html"
    keys, settings = panels.settings(scale.runs), panels.grouped(scale.runs)
    runs = scale.runs[["key", *keys]].merge(settings, how="left", on=keys)
    return {key: f"{page}#{run}" for key, run in zip(runs["key"], runs["run"], strict=True)}
