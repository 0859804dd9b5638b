"""Tables in Markdown."""

import re
from collections.abc import Collection

import pandas as pd

from expograph.analysis.table_result import TableResult, Tables
from expograph.report.layout import layout, one_line, visible

_MARKUP = re.compile(r"[\\<]|(?<=\])\(")  # what would begin a tag or a link, or hide a sign


def escaped(text: object) -> str:
    """Plain text in one line that Markdown shows as it is; `code` between backticks stays code."""
    return _MARKUP.sub(lambda found: "\\" + found[0], one_line(text))


def markdown(frame: pd.DataFrame, made: Collection[str] = ()) -> str:
    """A frame of text as a Markdown table, what would be markup or end a cell escaped.

    Args:
        made: columns that are Markdown already, such as links.
    """
    plain = frame.drop(columns=list(made)).map(_in_a_row)
    bare = frame.assign(**plain).rename(columns=_in_a_row)
    return bare.to_markdown(index=False, disable_numparse=True)


def section(table: TableResult) -> str:
    """A table under its heading."""
    text = layout(table)
    names = [name for name, _ in text.columns]
    rows = [[entry.text for entry in row] for row in text.rows]
    return f"## {escaped(text.heading)}\n\n{markdown(pd.DataFrame(rows, columns=names))}\n"


def document(tables: Tables) -> str:
    """All tables of a folder under their title, the notes below."""
    notes = "".join(f"- {escaped(note)}\n" for note in tables.notes)
    return "\n".join([f"# {escaped(tables.title)}\n", *map(section, visible(tables)), notes])


def _in_a_row(text: object) -> str:
    return escaped(text).replace("|", r"\|")
