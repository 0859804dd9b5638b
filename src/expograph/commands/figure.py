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

from expograph.config import ConfigError, load
from expograph.names import known
from expograph.report import figures
from expograph.runs import results

CONSENSUS = (
    "ring",
    "grid",
    "torus",
    "half_random",
    "random_match",
    "static_exponential",
    "one_peer_exponential",
    "one_peer_exponential_uniform",
)
ACCURACY = "test accuracy of the averaged model (%)"


class Source(NamedTuple):
    """A figure of an experiment: the files under the results, and what draws them."""

    experiment: str
    files: list[str]
    draw: Callable[..., Figure]


def factor(experiment: str) -> float:
    """How near parallel SGD is near, in the definition of transient iterations."""
    return load(f"configs/{experiment}.toml").table.factor


ALONE: dict[str, Callable[[], Figure]] = {
    "spectral_gap": figures.gap_against_nodes,
    "consensus_error": lambda: figures.consensus_error(CONSENSUS),
}
EXPERIMENTS = {
    "headline": Source(
        "iid", ["iid/runs.csv", "bench_comm/testbed_1gbit/table.csv"], figures.headline
    ),
    "table1_curves": Source(
        "table1",
        ["table1/curves.csv"],
        lambda curves: figures.relative_errors(curves, "error_workers", factor("table1")),
    ),
    "table2_curves": Source(
        "table2",
        ["table2/curves.csv"],
        lambda curves: figures.training_curves(curves, "accuracy_averaged", ACCURACY),
    ),
    "iid_curves": Source(
        "iid",
        ["iid/curves.csv"],
        lambda curves: figures.training_curves(curves, "train_loss", "training loss"),
    ),
    "transients": Source(
        "transients",
        ["transients/transients.csv"],
        lambda measured: figures.transient_growth(measured, factor("transients")),
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
                testbed = missing[0].parent.name == "testbed_1gbit"
                make = "make testbed" if testbed else f"make reproduce-figure FIGURE={name}"
                print(f"{missing[0]} is not there: `{make}` makes it", file=sys.stderr)
                continue
            try:
                figure = source.draw(*map(pd.read_csv, paths))
            except (ValueError, KeyError) as e:  # pandas, of a file cut short or without a column
                raise ConfigError(
                    f"{', '.join(map(str, paths))}: not what {name} shows: {e}"
                ) from None
        figures.save(figure, folder / name)
        drawn.append(name)
    print(f"{len(drawn)} figures in {folder}/ (PNG, SVG and PDF): {', '.join(drawn)}")
    return int(len(drawn) < (len(arguments.figure) or 1))
