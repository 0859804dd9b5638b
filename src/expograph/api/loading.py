"""Configs and results, read: a TOML file's runs, a folder's tables as data frames."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from expograph import config
from expograph.config import Experiment

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Experiment", "Results", "load"]


@dataclass(frozen=True)
class Results(Mapping[str, "pd.DataFrame"]):
    """The tables of a folder of the results: a mapping from a table's id to a data frame.

    Each frame has a row a cell, in order: the keys of the table's rows ("topology"), `column` (the
    value that the column stands for), and of the cell `mean`, `half_width` (of the 95 % interval),
    `count` (of seeds), `runs` (their keys) and what else it has.

    Attributes:
        title: of the whole.
        notes: lines below the tables.
        runs: a row a run: key, status, config and final metrics.
    """

    title: str
    notes: tuple[str, ...]
    runs: "pd.DataFrame"
    _tables: dict[str, "pd.DataFrame"]

    def __getitem__(self, id: str) -> "pd.DataFrame":
        return self._tables[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def load(path: Path | str, overrides: Sequence[str] = ()) -> Experiment | Results:
    """A config file's experiment, or what a folder of the results holds.

    Args:
        path: a TOML file: `Experiment`, its runs resolved and checked. Else a folder that
            `expograph sweep` has written, as "results/table2": `Results`.
        overrides: of a config: `key=value` words, as on the command line.
    Raises:
        ConfigError: in one line, for a config that is wrong or where there is neither.
        TableError: in one line, for a damaged table.

    >>> experiment = load("configs/table2.toml", ["nodes=4", "seed=0"])  # doctest: +SKIP
    >>> load("results/table2")["accuracy_averaged"]                       # doctest: +SKIP
    """
    path = Path(path)
    if path.suffix == ".toml":
        return config.load(path, overrides)
    if overrides:
        raise config.ConfigError(f"{path}: overrides go with a config, a file named *.toml")
    import pandas as pd

    from expograph.analysis import table_result

    tables = table_result.load(path)
    if tables is None:
        raise config.ConfigError(f"{path}: neither a config (*.toml) nor a folder with table.json")
    return Results(
        title=tables.title,
        notes=tables.notes,
        runs=_runs(path / "runs.csv"),
        _tables={table.id: pd.DataFrame(list(table.records())) for table in tables.tables},
    )


def _runs(path: Path) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_csv(path) if path.is_file() else pd.DataFrame()
