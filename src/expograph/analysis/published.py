"""Numbers published elsewhere, to stand beside ours; never invented where there are none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.analysis.written import UNAVAILABLE, column_name
from expograph.config import ConfigError, Experiment, published_numbers, read_toml


class Published:
    """One table of configs/published.toml.

    Attributes:
        caption: what the numbers are.
        source: where they were read.
        cells: row -> column -> number, both as in a config's values; a row of several keys is named
            by their values, "dmsgd, ring". Places that are empty in the file are left out.
    """

    def __init__(self, name: str | None, path: Path) -> None:
        """Read the table called `name`; None is a table without numbers.

        Raises:
            ConfigError: naming file and cell, if what stands there is no number.
        """
        table = read_toml(path, kind="published")[name] if name else {}
        self.caption: str = table.get("caption", "")
        self.source: str = table.get("source", "")
        self.cells: dict[str, dict[str, float]] = {}
        for row, cells in table.get("cells", {}).items():
            where = f"{path}: {name}.cells.{row}"
            numbers = {k: _number(f"{where}.{k}", v) for k, v in cells.items() if v != ""}
            if numbers:
                self.cells[row] = numbers

    def number(self, labels: Sequence[Any], column: Any) -> float | None:
        """The number published for a row's values, or its first value, and the column's."""
        row = self.cells.get(", ".join(map(str, labels)), self.cells.get(str(labels[0]), {}))
        return row.get(str(column))


def _number(where: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{where}: expected a number, got {value!r}") from None


def published_of(experiment: Experiment) -> Published:
    """The published numbers that an experiment's table names."""
    name = experiment.table.published if experiment.table else None
    return Published(name, published_numbers(experiment.path))


def published_table(experiment: Experiment) -> TableResult | None:
    """The published numbers beside which an experiment will stand, as a table of their own."""
    numbers = published_of(experiment)
    if not numbers.cells:
        return None
    table = experiment.required_table
    labels = tuple(table.rows[: next(iter(numbers.cells)).count(", ") + 1])
    values = list(dict.fromkeys(column for row in numbers.cells.values() for column in row))
    return TableResult(
        id="published",
        heading=numbers.caption,
        labels=labels,
        columns=tuple(
            Column(
                name=f"{column_name(table.column, value)}, published",
                key=table.column,
                value=value,
                published="itself",
            )
            for value in values
        ),
        rows=tuple(
            Row(
                labels=tuple(row.split(", ")),
                cells=tuple(_quoted(cells.get(v), numbers) for v in values),
            )
            for row, cells in numbers.cells.items()
        ),
    )


def _quoted(number: float | None, numbers: Published) -> Cell:
    if number is None:
        return Cell(text=UNAVAILABLE)
    return Cell(mean=number, published=number, source=numbers.source)
