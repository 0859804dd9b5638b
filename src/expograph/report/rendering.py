"""A folder of the results as its readers want it: table.json, and what is made of it."""

from pathlib import Path

import pandas as pd

from expograph.analysis.table_result import FILE, Tables, encoded
from expograph.report import latex, markdown, unchanged
from expograph.report.layout import visible

NUMBERS = ("mean", "half_width", "low", "high", "beyond", "p", "count", "published", "text")


def as_csv(tables: Tables) -> str:
    """All cells in one long table: `table`, the rows' labels, `column`, and the cell's numbers.

    What a table has no label or a cell no number for is empty.
    """
    records = [
        {"table": table.id, **record} for table in visible(tables) for record in table.records()
    ]
    labels = list(dict.fromkeys(key for table in visible(tables) for key in table.labels))
    columns = ["table", *labels, "column", *NUMBERS]
    return pd.DataFrame(records, columns=columns, dtype=object).to_csv(index=False)


STALE = "table_*.tex"  # of a folder that had more tables once
FORMATS = {  # name -> suffix of the file, and what makes its text
    "markdown": ("md", markdown.document),
    "latex": ("tex", latex.document),
    "csv": ("csv", as_csv),
}


def files_of(tables: Tables) -> dict[str, bytes]:
    """Name -> content: table.json, and of what is shown table.md, table.csv and table.tex.

    table.tex has all tables; if they are several, table_1.tex and so on have one each, for a
    document's `\\input`.
    """
    texts = {FILE: encoded(tables)}
    texts |= {f"table.{suffix}": text_of(tables) for suffix, text_of in FORMATS.values()}
    several = visible(tables) if len(visible(tables)) > 1 else []
    for k, table in enumerate(several, start=1):
        texts[f"table_{k}.tex"] = latex.snippet(table)
    return {name: text.encode() for name, text in texts.items()}


def write(tables: Tables, folder: Path) -> None:
    """Write the files of tables into `folder`, unless those that are there say the same."""
    unchanged.write(folder, files_of(tables), STALE)
