"""Tables whose makers still hand over text: frames of strings, written like all others."""

from pathlib import Path

import pandas as pd

from expograph.analysis.published import Published
from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.analysis.written import UNAVAILABLE
from expograph.report import rendering
from expograph.report.markdown import markdown

__all__ = ["UNAVAILABLE", "Published", "markdown", "write"]


def write(frames: dict[str, pd.DataFrame], notes: str, folder: Path, title: str) -> None:
    """Write frames, heading -> table, and notes, lines that begin with "- "."""
    tables = [_of_text(heading, frame) for heading, frame in frames.items() if not frame.empty]
    lines = [line.removeprefix("- ") for line in notes.splitlines()]
    rendering.write(Tables(title=title, tables=tuple(tables), notes=tuple(lines)), folder)


def _of_text(heading: str, frame: pd.DataFrame) -> TableResult:
    first, *others = map(str, frame.columns)
    rows = [
        Row(labels=(label,), cells=tuple(Cell(text=str(text)) for text in texts))
        for label, *texts in frame.itertuples(index=False)
    ]
    columns = tuple(Column(name=name) for name in others)
    return TableResult(
        id=heading, heading=heading, labels=(first,), columns=columns, rows=tuple(rows)
    )
