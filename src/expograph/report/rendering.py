"""A folder of the results as its readers want it: table.json, and what is made of it."""

from pathlib import Path

import pandas as pd

from expograph.analysis.table_result import Tables, save
from expograph.files import replace_text
from expograph.report import latex, markdown
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


FORMATS = {  # name -> suffix of the file, and what makes its text
    "markdown": ("md", markdown.document),
    "latex": ("tex", latex.document),
    "csv": ("csv", as_csv),
}


def write(tables: Tables, folder: Path) -> None:
    """Write table.json into `folder`, and of what is shown table.md, table.csv and table.tex.

    table.tex has all tables; if they are several, table_1.tex and so on have one each, for a
    document's `\\input`.
    """
    save(tables, folder)
    for suffix, text_of in FORMATS.values():
        replace_text(folder / f"table.{suffix}", text_of(tables))
    for stale in folder.glob("table_*.tex"):
        stale.unlink()
    several = visible(tables) if len(visible(tables)) > 1 else []
    for k, table in enumerate(several, start=1):
        replace_text(folder / f"table_{k}.tex", latex.snippet(table))
