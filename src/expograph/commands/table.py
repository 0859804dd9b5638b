"""Show the tables of an experiment, also while its runs are being done.

examples:
  expograph table table2                      from the runs that are there, else as committed
  expograph table table2 --engine bluefog     of the same config on another engine
  expograph table custom/table2/lr=0.1        of a variation, a folder of the results
  expograph table table2 --format latex > table2.tex
  expograph table --watch                     every sweep running here, redrawn as it goes (Ctrl-C)

A cell whose seeds are not all there shows the mean so far: 80.69 (2 of 3). The other formats are of
the table.json that `train` and `sweep` write at their end.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from expograph.analysis.experiment import tables_of
from expograph.analysis.table_result import FILE, Tables
from expograph.analysis.table_result import load as load_tables
from expograph.config import ConfigError, Experiment, load
from expograph.engines import ENGINES
from expograph.report import reading, rendering
from expograph.report.layout import visible
from expograph.report.reading import check_owner
from expograph.report.screen import Screen, show
from expograph.runs import results
from expograph.runs.destination import name_of_results
from expograph.runs.progress import boards

REDRAW = 2.0  # seconds, or as long as it takes to make the table


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="table2, configs/table2.toml, or a folder: custom/table2/lr=0.1",
    )
    parser.add_argument("--engine", choices=list(ENGINES), default="embedded")
    parser.add_argument("--format", choices=["screen", *rendering.FORMATS], default="screen")
    parser.add_argument("--watch", action="store_true", help="redraw until the sweeps have ended")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")


def run(arguments: argparse.Namespace) -> int:
    """Print the tables; 1 if an experiment has none."""
    if arguments.watch:
        return watch(arguments)
    if not arguments.names:
        raise ConfigError("table: which? as in `expograph table table2`, or --watch")
    console, status = Console(), 0
    for name in arguments.names:
        source = source_of(name, arguments)
        if arguments.format != "screen":
            tables = tables_in(source)
            if tables is None:
                raise ConfigError(f"{source.folder / FILE} is not there: {source.remedy}")
            print(rendering.FORMATS[arguments.format][1](tables), end="")
            continue
        shown = screens_of(source, arguments.results)
        show(console, shown)
        if not shown:
            status = 1
            print(f"{name}: no runs yet: {source.remedy}", file=sys.stderr)
    return status


class Source(NamedTuple):
    """Where tables come from.

    Attributes:
        name: of the folder under the results.
        folder: with the table.json.
        experiment: whose runs may say more than table.json does; None if it is not known.
    """

    name: str
    folder: Path
    experiment: Experiment | None

    @property
    def remedy(self) -> str:
        """What makes the tables."""
        if self.experiment is None:
            return "which config it is of is not known"
        return f"`expograph sweep {self.experiment.path}`"


def source_of(name: str, arguments: argparse.Namespace) -> Source:
    """A config by its path or name, or a folder of the results: custom/table2/lr=0.1.

    Raises:
        ConfigError: there is neither.
    """
    root, engine = arguments.results, arguments.engine
    path = Path(name if name.endswith(".toml") else f"configs/{name}.toml")
    folders = [folder for folder in (root / name, Path(name)) if folder.is_dir()]
    if folders and not path.is_file():
        found = Source(folders[0].name, folders[0], experiment_in(folders[0]))
        within = folders[0].is_relative_to(root)
        return found._replace(name=str(folders[0].relative_to(root))) if within else found
    experiment = load(path, [] if engine == "embedded" else [f"engine={engine}"])
    folder = name_of_results(experiment, [])
    return Source(folder, root / folder, experiment)


def experiment_in(folder: Path) -> Experiment | None:
    """The experiment, with its overrides, that wrote a folder of the results, if it says so."""
    made = reading.record(folder / "provenance.json")
    config, overrides = made.get("config"), made.get("overrides")
    if config is None or overrides is None or not Path(str(config)).is_file():
        return None
    return load(config, overrides)


def screens_of(source: Source, root: Path) -> list[Screen]:
    """The tables as far as there are runs under `root`, else those of the folder."""
    experiment, tables = source.experiment, None
    if experiment and experiment.table:
        summary = results.summary(experiment.runs, root)
        if (summary["status"] != "missing").any():
            pivots = experiment.table.kind == "pivot"  # they are made of the summary alone
            errors = {} if pivots else results.errors_of(results.find(experiment.runs, root))
            tables = tables_of(experiment, summary, errors, live=True)
    tables = tables or tables_in(source)
    return [Screen(table, source.name) for table in (visible(tables) if tables else [])]


def tables_in(source: Source) -> Tables | None:
    """The tables of a source's folder; None if there are none.

    Raises:
        TableError: in one line, if they are damaged or another config's.
    """
    tables = load_tables(source.folder)
    if tables and source.experiment:
        check_owner(source.folder / FILE, tables, source.experiment)
    return tables


def watch(arguments: argparse.Namespace) -> int:
    """Redraw the running sweeps, or the experiments named, until no sweep is running."""
    console = Console()
    if not boards(arguments.results) and not arguments.names:
        print(f"no sweep is running under {arguments.results}/", file=sys.stderr)
        return 1
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        while True:
            clock = time.monotonic()
            running = boards(arguments.results)
            live.update(Group(*screens(arguments, running)), refresh=True)
            if not running:
                return 0
            time.sleep(max(REDRAW, time.monotonic() - clock))


def screens(arguments: argparse.Namespace, running: list[dict]) -> list[RenderableType]:
    """What `watch` shows: each sweep's progress, then the first table of each experiment."""
    shown: list[RenderableType] = []
    for board in running:
        shown.append(Text(f"{board['share']:4.0%}  {board['count']}  {board['left']}", "bold"))
        for one in board["running"]:
            bar = ProgressBar(total=one["steps"], completed=one["step"], width=24)
            line = Table.grid(padding=(0, 1))
            line.add_row(bar, f"{one['step']}/{one['steps']}", Text(one["run"]))
            shown.append(line)
    if arguments.names:
        sources = [source_of(name, arguments) for name in arguments.names]
    else:
        sources = [source for board in running for source in sources_on(board, arguments.results)]
    for source in {source.name: source for source in sources}.values():
        shown += screens_of(source, arguments.results)[:1]
    return shown


def sources_on(board: dict, root: Path) -> list[Source]:
    """The experiments of a running sweep, with its overrides."""
    overrides = board.get("overrides", [])
    experiments = [load(path, overrides) for path in board["configs"]]
    names = [name_of_results(experiment, overrides) for experiment in experiments]
    return [Source(name, root / name, e) for name, e in zip(names, experiments, strict=True)]
