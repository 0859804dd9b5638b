"""Numbers published elsewhere, to stand beside ours; never invented where there are none."""

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
        cells: row -> column -> number, both as in a config's values.
    """

    def __init__(self, name: str | None, path: Path) -> None:
        """Read the table called `name`; None is a table without numbers.

        Raises:
            ConfigError: naming file and cell, if what stands there is no number.
        """
        table = read_toml(path, kind="published")[name] if name else {}
        self.caption: str = table.get("caption", "")
        self.source: str = table.get("source", "")
        self.cells: dict[str, dict[str, float]] = {
            row: {column: _number(f"{path}: {name}.cells.{row}.{column}", value)
                  for column, value in cells.items()}
            for row, cells in table.get("cells", {}).items()
        }  # fmt: skip

    def number(self, row: Any, column: Any) -> float | None:
        """The number published for these values of a row's first key and of the column's."""
        return self.cells.get(str(row), {}).get(str(column))


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
    numbers, table = published_of(experiment), experiment.table
    if not numbers.cells:
        return None
    values = list(dict.fromkeys(column for row in numbers.cells.values() for column in row))
    return TableResult(
        id="published",
        heading=numbers.caption,
        labels=(table.rows[0],),
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
            Row(labels=(row,), cells=tuple(_quoted(cells.get(v), numbers) for v in values))
            for row, cells in numbers.cells.items()
        ),
    )


def _quoted(number: float | None, numbers: Published) -> Cell:
    if number is None:
        return Cell(text=UNAVAILABLE)
    return Cell(mean=number, published=number, source=numbers.source)
