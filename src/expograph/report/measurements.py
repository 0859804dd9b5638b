"""Measurements and the cost model on disk: table.json, and renderings of it."""

from pathlib import Path

import pandas as pd

from expograph.analysis.table_result import TableResult, Tables, save
from expograph.analysis.written import heading_of, name_of, written
from expograph.files import replace_text
from expograph.report import latex
from expograph.report.tables import markdown


def write(tables: Tables, folder: Path) -> None:
    """Write table.json, all there is, and of what is to be shown table.md and table.tex."""
    save(tables, folder)
    frames = {t.heading: frame_of(t) for t in tables.tables if t.shown and t.rows}
    parts = [f"## {heading}\n\n{markdown(frame)}\n" for heading, frame in frames.items()]
    notes = "".join(f"- {note}\n" for note in tables.notes)
    replace_text(folder / "table.md", "\n".join([f"# {tables.title}\n", *parts, notes]))
    snippets = [latex.snippet(heading, frame) for heading, frame in frames.items()]
    text = "\n\\bigskip\n".join([f"% {tables.title}", *snippets])
    replace_text(folder / "table.tex", text)


def frame_of(table: TableResult) -> pd.DataFrame:
    """A table as text, a row a row."""
    headings = [heading_of(key) for key in table.labels]
    return pd.DataFrame(
        [
            dict(zip(headings, map(_label, row.labels), strict=True))
            | {c.name: written(cell, c) for c, cell in zip(table.columns, row.cells, strict=True)}
            for row in table.rows
        ]
    )


def _label(value: object) -> str:
    return "" if value is None else name_of(value)
