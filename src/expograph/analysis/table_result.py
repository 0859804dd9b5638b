"""A table as data: what it is before it is rendered, and what lies in a table.json.

Renderers (`report`) turn it into Markdown, LaTeX, HTML or a screen; claims and figures take their
numbers from it. Nothing reads a rendering.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from expograph.files import DamagedFile, replace_text
from expograph.runs import contents
from expograph.validation import read_json

FILE = "table.json"


class TableError(DamagedFile):
    """A table.json that cannot be used; its message is one line with the file's name."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Cell(_Data):
    """What stands in one place of a table.

    Attributes:
        mean: the number; over seeds where there are several. None if there is none.
        half_width: of the 95 % interval around it.
        low, high: ends of an interval that is not symmetric.
        beyond: the number, or an end of its interval, that is None lies above this.
        p: of a paired test against no difference.
        count: of how many seeds, or pairs of seeds.
        planned: of how many it will be, while some are still to come.
        runs: keys of the runs it rests on.
        published: the number published elsewhere for this place.
        source: where the published number was read.
        text: what stands there in place of a number, or says why there is none.
    """

    mean: float | None = None
    half_width: float | None = None
    low: float | None = None
    high: float | None = None
    beyond: float | None = None
    p: float | None = None
    count: int | None = None
    planned: int | None = None
    runs: tuple[str, ...] = ()
    published: float | None = None
    source: str | None = None
    text: str | None = None

    @property
    def number(self) -> float:
        """The mean, of a cell that is known to have one."""
        assert self.mean is not None, "a cell without a number"
        return self.mean


class Column(_Data):
    """A column of cells.

    Attributes:
        name: its heading, plain text.
        key, value: the config key whose value the column stands for, where it does.
        format: how its numbers are written, as in Python's format().
        published: "beside" if numbers published elsewhere stand beside its own (what a cell has
            none of is not available), "itself" if it quotes what others published.
    """

    name: str
    key: str | None = None
    value: Any = None
    format: str = ".2f"
    published: Literal["beside", "itself"] | None = None


class Row(_Data):
    """A row: the values of the table's `labels`, and a cell for each of its columns."""

    labels: tuple[Any, ...]
    cells: tuple[Cell, ...]


class TableResult(_Data):
    """One table.

    Attributes:
        id: a word by which it is found in its file, such as its metric.
        heading: plain text above it.
        labels: the keys whose values tell the rows apart, such as "topology".
        columns: of cells; the labels' own columns are not among them.
        rows: in order.
        shown: whether renderings show it, or it is there for figures, claims and other tables.
    """

    id: str
    heading: str
    labels: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    shown: bool = True

    @model_validator(mode="after")
    def _rectangular(self) -> Self:
        for i, row in enumerate(self.rows):
            if (len(row.labels), len(row.cells)) != (len(self.labels), len(self.columns)):
                raise ValueError(
                    f"row {i} has {len(row.labels)} labels and {len(row.cells)} cells for "
                    f"{len(self.labels)} and {len(self.columns)}"
                )
        return self

    def cell(self, column: Any, **labels: Any) -> Cell:
        """The cell of the row with these labels, in the column of this value or name.

        Raises:
            KeyError: if there is not exactly one.
        """
        wanted = [labels.get(key.rsplit(".", 1)[-1], labels.get(key)) for key in self.labels]
        rows = [row for row in self.rows if list(row.labels) == wanted]
        places = [j for j, c in enumerate(self.columns) if column in (c.value, c.name)]
        if len(rows) != 1 or len(places) != 1:
            raise KeyError(f"{self.id}: no one cell for {labels}, {column!r}")
        return rows[0].cells[places[0]]

    def means(self) -> list[dict[str, Any]]:
        """A flat dict a row: its labels, and each column's number by its value, else its name."""
        names = [c.name if c.value is None else c.value for c in self.columns]
        return [
            dict(zip(self.labels, row.labels, strict=True))
            | {name: cell.mean for name, cell in zip(names, row.cells, strict=True)}
            for row in self.rows
        ]

    def records(self) -> Iterator[dict[str, Any]]:
        """A flat dict a cell: the row's labels, `column` (its value, else its name), the cell's."""
        for row in self.rows:
            labels = dict(zip(self.labels, row.labels, strict=True))
            for column, cell in zip(self.columns, row.cells, strict=True):
                name = column.name if column.value is None else column.value
                yield {**labels, "column": name, **cell.model_dump()}


class Tables(_Data):
    """All tables of one folder of the results.

    Attributes:
        title: of the whole.
        tables: in the order in which they are shown.
        notes: lines below them.
        made: where they come from: config, command, machine, code.
    """

    title: str
    tables: tuple[TableResult, ...]
    notes: tuple[str, ...] = ()
    made: Mapping[str, Any] = {}

    def __contains__(self, id: str) -> bool:
        return any(table.id == id for table in self.tables)

    def __getitem__(self, id: str) -> TableResult:
        """The table with this id.

        Raises:
            KeyError: if there is none.
        """
        found = [table for table in self.tables if table.id == id]
        if not found:
            raise KeyError(f"no table {id!r}; there are {', '.join(t.id for t in self.tables)}")
        return found[0]


def encoded(tables: Tables) -> str:
    """What a table.json holds; what is at its default is left out."""
    content = tables.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def save(tables: Tables, folder: Path) -> Path:
    """Write folder/table.json, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / FILE, encoded(tables))
    return folder / FILE


def load(folder: Path) -> Tables | None:
    """The tables of a folder of the results; None if it has no table.json.

    Raises:
        TableError: if the file is damaged or of another form.
    """
    path = folder / FILE
    found = read_json(path, Tables, TableError)
    if found is not None:
        try:
            contents.check(path, path.read_bytes())
        except DamagedFile as e:
            raise TableError(str(e)) from None
    return found


def required(folder: Path) -> Tables:
    """The tables of a folder of the results that must have some.

    Raises:
        TableError: if there is no table.json, or as of `load`.
    """
    found = load(folder)
    if found is None:
        raise TableError(f"{folder / FILE}: is not there")
    return found
