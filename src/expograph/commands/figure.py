"""Draw figures from the committed results and the topologies alone; trains nothing.

examples:
  expograph figure                        all that have changed, into results/figures/
  expograph figure --results results/mine     of tables of your own, into results/mine/figures/
  expograph figure transients             one
  expograph figure --config transients    only print the config whose runs it shows
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from expograph.config import ConfigError
from expograph.names import known
from expograph.report import drawn


class Source(NamedTuple):
    """A figure of results.

    Attributes:
        experiment: whose runs it shows.
        files: what it reads, under the results.
        make: what makes the files.
    """

    experiment: str
    files: list[str]
    make: str

    @property
    def config(self) -> str:
        """The path of the experiment's config."""
        return f"configs/{self.experiment}.toml"


TESTBED = "bench_comm/testbed_1gbit/table.json"
ALONE = ("spectral_gap", "consensus_error")
EXPERIMENTS = {
    "headline": Source(
        "table2",
        ["table2/table.json", "table2/runs.csv", TESTBED],
        "make reproduce-figure FIGURE=headline` and `make testbed",
    ),
    "table1_curves": Source(
        "table1", ["table1/curves.csv"], "make reproduce-figure FIGURE=table1_curves"
    ),
    "table2_curves": Source(
        "table2", ["table2/curves.csv"], "make reproduce-figure FIGURE=table2_curves"
    ),
    "table2_dirichlet_curves": Source(
        "table2_dirichlet",
        ["table2_dirichlet/curves.csv"],
        "make reproduce-figure FIGURE=table2_dirichlet_curves",
    ),
    "transients": Source(
        "transients", ["transients/table.json"], "make reproduce-figure FIGURE=transients"
    ),
    "transient_stage": Source(
        "transient_stage",
        ["transient_stage/table.json"],
        "make reproduce-figure FIGURE=transient_stage",
    ),
    "transient_stage_cnn": Source(
        "transient_stage_cnn",
        ["transient_stage_cnn/table.json"],
        "make reproduce-figure FIGURE=transient_stage_cnn",
    ),
}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    names = [*ALONE, *EXPERIMENTS]
    parser.add_argument("figure", nargs="*", help=f"of {', '.join(names)}; drawn in any case")
    parser.add_argument("--config", action="store_true", help="print the config it shows, if any")
    parser.add_argument("--results", type=Path, default=Path("results"), help="default: results/")


def run(arguments: argparse.Namespace) -> int:
    """Draw what can be drawn and has changed; 1 if one asked for by name has nothing to show."""
    try:
        for name in arguments.figure:
            known("figure", name, (*ALONE, *EXPERIMENTS))
    except ValueError as e:
        raise ConfigError(str(e)) from None
    wanted = arguments.figure or [*ALONE, *EXPERIMENTS]
    if arguments.config:
        print(*(EXPERIMENTS[name].config for name in wanted if name in EXPERIMENTS))
        return 0
    folder, there, new, lacking = arguments.results / "figures", [], [], []
    for name in wanted:
        source = EXPERIMENTS.get(name)
        paths = [arguments.results / file for file in source.files] if source else []
        if missing := [path for path in paths if not path.exists()]:
            lacking.append(name)
            if source and arguments.figure:
                print(f"{missing[0]} is not there: `{source.make}` makes it", file=sys.stderr)
            continue
        inputs = [*paths, Path(source.config)] if source else []
        there.append(name)
        if arguments.figure or not drawn.is_current(folder, name, inputs):
            _draw(name, arguments.results, paths)
            drawn.note(folder, name, inputs)
            new.append(name)
    if new:
        print(f"{len(new)} figures in {folder}/ (PNG, SVG and PDF): {', '.join(new)}")
    if unchanged := [name for name in there if name not in new]:
        print(f"{len(unchanged)} figures in {folder}/ are drawn already: {', '.join(unchanged)}")
    if lacking and not arguments.figure:
        where = f"{arguments.results}/ has not"
        print(f"{len(lacking)} figures show what {where}: {', '.join(lacking)}", file=sys.stderr)
    return int(len(there) < (len(arguments.figure) or 1))


def _draw(name: str, root: Path, paths: list[Path]) -> None:
    """Draw a figure and write its files."""
    from expograph.files import DamagedFile
    from expograph.report import figures, gallery  # with torch and matplotlib: seconds
    from expograph.report.reading import ReportError

    try:
        figure = gallery.DRAW[name](root)
    except (ReportError, DamagedFile):
        raise  # they name the file
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        where = ", ".join(map(str, paths))
        raise ConfigError(f"{where}: not what {name} shows: {e}") from None
    figures.save(figure, root / "figures" / name)
