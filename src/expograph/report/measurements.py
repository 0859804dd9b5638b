"""Measurements and the cost model on disk: table.json, and renderings of it."""

from pathlib import Path

import pandas as pd

from expograph.analysis.table_result import TableResult, Tables, save
from expograph.analysis.written import heading_of, name_of, written
from expograph.report.tables import write as write_frames


def write(tables: Tables, folder: Path) -> None:
    """Write table.json, all there is, and of what is to be shown table.md, .csv and .tex."""
    save(tables, folder)
    frames = {table.heading: frame_of(table) for table in tables.tables if table.shown}
    notes = "".join(f"- {note}\n" for note in tables.notes)
    write_frames(frames, notes, folder, tables.title)


def frame_of(table: TableResult) -> pd.DataFrame:
    """A table as text, a row a row."""
    rows = [
        {
            heading_of(key): _label(value)
            for key, value in zip(table.labels, row.labels, strict=True)
        }
        | {c.name: written(cell, c) for c, cell in zip(table.columns, row.cells, strict=True)}
        for row in table.rows
    ]
    return pd.DataFrame(rows)


def _label(value: object) -> str:
    return "" if value is None else name_of(value)
