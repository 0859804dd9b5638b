"""Show the tables of an experiment, also while its runs are being done.

examples:
  expograph table table2                      from the runs that are there, else as committed
  expograph table table2 --engine bluefog     of the same config on another engine
  expograph table table2 --format latex > table2.tex
  expograph table --watch                     every sweep running here, redrawn as it goes (Ctrl-C)

A cell whose seeds are not all there shows the mean so far: 80.69 (2 of 3). The other formats are
the files that `train` and `sweep` write at their end.
"""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from expograph.config import ConfigError, Experiment, load
from expograph.engines import ENGINES
from expograph.report import tables
from expograph.report.experiment import errors_of, frames_of, screen
from expograph.runs import results
from expograph.runs.destination import name_of_results
from expograph.runs.progress import boards

FORMATS = {"markdown": "md", "latex": "tex", "csv": "csv"}
REDRAW = 2.0  # seconds, or as long as it takes to make the table


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="table2, or configs/table2.toml")
    parser.add_argument("--engine", choices=list(ENGINES), default="embedded")
    parser.add_argument("--format", choices=["screen", *FORMATS], default="screen")
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
        experiment = experiment_of(name, arguments.engine)
        folder = arguments.results / name_of_results(experiment, [])
        if arguments.format != "screen":
            path = folder / f"table.{FORMATS[arguments.format]}"
            if not path.exists():
                raise ConfigError(f"{path} is not there: `expograph sweep {experiment.path}`")
            print(path.read_text(), end="")
            continue
        shown = tables_of(experiment, arguments.results, folder)
        console.print(Group(*shown))
        if not shown:
            status = 1
            print(f"{name}: no runs yet: `expograph sweep {experiment.path}`", file=sys.stderr)
    return status


def experiment_of(name: str, engine: str = "embedded") -> Experiment:
    """The experiment of a config, given by its path or by its name alone."""
    path = name if name.endswith(".toml") else f"configs/{name}.toml"
    return load(path, [] if engine == "embedded" else [f"engine={engine}"])


def tables_of(experiment: Experiment, root: Path, folder: Path | None = None) -> list[Table]:
    """The tables as far as there are runs under `root`, else those in `folder`."""
    if experiment.table is None:
        return []
    summary = results.summary(experiment.runs, root)
    if (summary["status"] != "missing").any():
        pivots = experiment.table.kind == "pivot"  # they are made of the summary alone
        errors = {} if pivots else errors_of(experiment, results.find(experiment.runs, root))
        frames, _ = frames_of(experiment, summary, errors, tables.live_cell)
    elif folder and (folder / "table.csv").exists():
        frames = tables.read(folder / "table.csv")
    else:
        frames = {}
    return [screen(f"{experiment.name}: {heading}", frame) for heading, frame in frames.items()]


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
    names = arguments.names or list(dict.fromkeys(c for b in running for c in b["configs"]))
    for name in names:
        shown += tables_of(experiment_of(name, arguments.engine), arguments.results)[:1]
    return shown
