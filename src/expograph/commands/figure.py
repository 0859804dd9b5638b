"""Draw figures from the committed results and the topologies alone; trains nothing.

examples:
  expograph figure                        all of them, into results/figures/
  expograph figure transients             one
  expograph figure --config transients    only print the config whose runs it shows
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from expograph.analysis import table_result as tables
from expograph.analysis import transients
from expograph.config import ConfigError, load
from expograph.files import DamagedFile
from expograph.names import known
from expograph.report import figures, reading
from expograph.report.headline import headline
from expograph.report.reading import ReportError
from expograph.runs import results

CONSENSUS = (
    "ring",
    "grid",
    "torus",
    "half_random",
    "random_match",
    "static_exponential",
    "one_peer_exponential",
    "one_peer_exponential(order=uniform)",
)
ACCURACY = "test accuracy of the averaged model (%)"


class Source(NamedTuple):
    """A figure of results.

    Attributes:
        experiment: whose runs it shows.
        files: what it reads, under the results.
        make: what makes the files.
        draw: the folder of the results -> the figure.
    """

    experiment: str
    files: list[str]
    make: str
    draw: Callable[[Path], Figure]


def factor(experiment: str) -> float:
    """How near parallel SGD is near, in the definition of transient iterations."""
    return load(f"configs/{experiment}.toml").table.factor


def curves(root: Path, experiment: str) -> pd.DataFrame:
    """The curves of an experiment, means over seeds."""
    return reading.csv(root / experiment / "curves.csv", ("step", "topology", "nodes"))


def _headline(root: Path) -> Figure:
    accuracy = tables.load(root / "iid")["accuracy_averaged"]
    times = tables.load(root / TESTBED)
    return headline(accuracy, reading.csv(root / "iid/runs.csv"), times["times"], times["links"])


def _transients(root: Path) -> Figure:
    measured = transients.frame(tables.load(root / "transients")[transients.MEASURED])
    return figures.transient_growth(measured, factor("transients"))


TESTBED = "bench_comm/testbed_1gbit"
ALONE: dict[str, Callable[[], Figure]] = {
    "spectral_gap": figures.gap_against_nodes,
    "consensus_error": lambda: figures.consensus_error(CONSENSUS),
}
EXPERIMENTS = {
    "headline": Source(
        "iid",
        ["iid/table.json", "iid/runs.csv", f"{TESTBED}/table.json"],
        "make reproduce-figure FIGURE=headline` and `make testbed",
        _headline,
    ),
    "table1_curves": Source(
        "table1",
        ["table1/curves.csv"],
        "make reproduce-figure FIGURE=table1_curves",
        lambda root: figures.relative_errors(
            curves(root, "table1"), "error_workers", factor("table1")
        ),
    ),
    "table2_curves": Source(
        "table2",
        ["table2/curves.csv"],
        "make reproduce-figure FIGURE=table2_curves",
        lambda root: figures.training_curves(curves(root, "table2"), "accuracy_averaged", ACCURACY),
    ),
    "iid_curves": Source(
        "iid",
        ["iid/curves.csv"],
        "make reproduce-figure FIGURE=iid_curves",
        lambda root: figures.training_curves(curves(root, "iid"), "train_loss", "training loss"),
    ),
    "transients": Source(
        "transients",
        ["transients/table.json"],
        "make reproduce-figure FIGURE=transients",
        _transients,
    ),
}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    names = [*ALONE, *EXPERIMENTS]
    parser.add_argument("figure", nargs="*", help=f"of {', '.join(names)}")
    parser.add_argument("--config", action="store_true", help="print the config it shows, if any")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")


def run(arguments: argparse.Namespace) -> int:
    """Draw what can be drawn; 1 if a figure asked for by its name has nothing to show."""
    try:
        for name in arguments.figure:
            known("figure", name, (*ALONE, *EXPERIMENTS))
    except ValueError as e:
        raise ConfigError(str(e)) from None
    wanted = arguments.figure or [*ALONE, *EXPERIMENTS]
    if arguments.config:
        print(*(f"configs/{EXPERIMENTS[n].experiment}.toml" for n in wanted if n in EXPERIMENTS))
        return 0
    folder, drawn = arguments.results / "figures", []
    for name in wanted:
        if name in ALONE:
            figure = ALONE[name]()
        else:
            source = EXPERIMENTS[name]
            paths = [arguments.results / file for file in source.files]
            if missing := [path for path in paths if not path.exists()]:
                print(f"{missing[0]} is not there: `{source.make}` makes it", file=sys.stderr)
                continue
            try:
                figure = source.draw(arguments.results)
            except (ReportError, DamagedFile):
                raise  # they name the file
            except (AttributeError, KeyError, TypeError, ValueError) as e:
                where = ", ".join(map(str, paths))
                raise ConfigError(f"{where}: not what {name} shows: {e}") from None
        figures.save(figure, folder / name)
        drawn.append(name)
    print(f"{len(drawn)} figures in {folder}/ (PNG, SVG and PDF): {', '.join(drawn)}")
    return int(len(drawn) < (len(arguments.figure) or 1))
