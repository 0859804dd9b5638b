"""A table as the entries that every rendering shows, and how wide text is cut into lines."""

import re
import textwrap
from typing import Any, NamedTuple

from expograph.analysis.table_result import Cell, Column, TableResult, Tables
from expograph.analysis.written import heading_of, name_of, published, written

LONGEST = 32  # characters of a cell's line
NARROWEST = 14  # characters of a heading's line, if the cells below are no wider
NO_BREAK = "\u00a0"
_WHOLE = re.compile(r" [=±] ")


class Entry(NamedTuple):
    """What stands in one place of a rendering.

    Attributes:
        text: plain text in one line.
        cell: the cell it writes; None for a label.
        key, value: of a label.
    """

    text: str
    cell: Cell | None = None
    key: str | None = None
    value: Any = None


class Layout(NamedTuple):
    """A table as it is shown.

    Attributes:
        heading: plain text in one line.
        labels: how many of the columns, from the first, tell the rows apart.
        columns: heading, and whether it quotes numbers published elsewhere.
        rows: of entries, one a column.
    """

    heading: str
    labels: int
    columns: list[tuple[str, bool]]
    rows: list[list[Entry]]


def one_line(text: object) -> str:
    """Text whose line breaks, of any kind, are spaces."""
    return " ".join(str(text).split())


def visible(tables: Tables) -> list[TableResult]:
    """Those that renderings show, in order."""
    return [table for table in tables.tables if table.shown and table.rows]


def layout(table: TableResult) -> Layout:
    """The places of a table: published numbers in columns of their own, beside ours."""
    columns = [(one_line(heading_of(key)), False) for key in table.labels]
    for column in table.columns:
        columns.append((one_line(column.name), column.published == "itself"))
        if column.published == "beside":
            columns.append((one_line(f"{column.name}, published"), True))
    rows = []
    for row in table.rows:
        entries = [
            Entry(one_line(name_of(value)), key=key, value=value)
            for key, value in zip(table.labels, row.labels, strict=True)
        ]
        for column, cell in zip(table.columns, row.cells, strict=True):
            entries += _entries(cell, column)
        rows.append(entries)
    return Layout(one_line(table.heading), len(table.labels), columns, rows)


def _entries(cell: Cell, column: Column) -> list[Entry]:
    entries = [Entry(one_line(written(cell, column)), cell)]
    if column.published == "beside":
        entries.append(Entry(published(cell, column), cell))
    return entries


def lines_of(
    texts: list[str], name: str, whole: re.Pattern[str] = _WHOLE
) -> tuple[list[str], list[list[str]]]:
    """A column cut into lines: of its heading, which is no wider than it must be, of its cells.

    Args:
        texts: its cells.
        whole: what no line break may part.
    """

    def wrapped(text: str, width: int) -> list[str]:
        kept = whole.sub(lambda found: found[0].replace(" ", NO_BREAK), text)
        lines = textwrap.wrap(kept, width, break_long_words=False, break_on_hyphens=False)
        return [line.replace(NO_BREAK, " ") for line in lines] or [""]

    cells = [wrapped(text, LONGEST) for text in texts]
    widest = max((len(line) for cell in cells for line in cell), default=0)
    return wrapped(name, max(widest, NARROWEST)), cells


def blocks(widths: list[int], room: int) -> list[list[int]]:
    """Columns, by their numbers, in as few blocks as fit the room, and these about equally wide."""

    def filled(room: int) -> list[list[int]]:
        made: list[list[int]] = [[]]
        used = 0
        for j, width in enumerate(widths):
            if made[-1] and used + width > room:
                made, used = [*made, []], 0
            made[-1].append(j)
            used += width
        return made

    fewest = len(filled(room))
    narrower = (filled(r) for r in range(room))
    return next((made for made in narrower if len(made) == fewest), filled(room))


def split(
    table: Layout, room: int, gap: int, whole: re.Pattern[str] = _WHOLE
) -> list[list[list[list[str]]]]:
    """A table cut into blocks that fit the room, each with the labels' columns first.

    Args:
        room: characters a line.
        gap: characters between two columns.
        whole: what no line break may part.
    Returns:
        Blocks of columns of places, the heading's first, of lines of text.
    """
    columns = []
    for j, (name, _) in enumerate(table.columns):
        heading, cells = lines_of([row[j].text for row in table.rows], name, whole)
        columns.append([heading, *cells])
    widths = [max(len(line) for place in column for line in place) + gap for column in columns]
    labels = columns[: table.labels]
    left = room - sum(widths[: table.labels])
    return [
        [*labels, *(columns[table.labels + j] for j in block)]
        for block in blocks(widths[table.labels :], left)
    ]
