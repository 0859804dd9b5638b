"""Run the experiments of configs in this process, or as a rank of an MPI job; write their tables.

examples:
  expograph train configs/table2.toml
  expograph train configs/table2.toml topology=ring nodes=[8,16] seed=0 problem.model=mlp
  expograph train configs/table2.toml nodes=8 --tensorboard
  bfrun -np 8 expograph train configs/table2.toml engine=bluefog

Finished runs are used again, unless other code made them (--keep-stale). `key=value` words override
the config's [run]; what they make goes to results/custom/<name>/<override>/ and leaves
results/<name>/ alone. `engine=` alone is no variation: its results go to results/<name>_<engine>/.
Under an MPI launcher the runs that have its number of ranks, nodes x local_size, are done. Runs lie
in the folder $EXPOGRAPH_RUNS, by default runs/ in the results.

exit status: 0 all runs finished (a diverged run is a result), 1 some failed, 2 the config is wrong,
130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from expograph.cluster.launch import launched, launched_rank
from expograph.commands.mendable import MENDABLE
from expograph.config import ConfigError, Experiment, load
from expograph.report.experiment import write_report
from expograph.report.screen import show
from expograph.runs import results, store
from expograph.runs.destination import check_names, name_of_results
from expograph.runs.interrupt import interruptible
from expograph.runs.job import Order, for_this_job, run_here, run_in_job
from expograph.runs.selection import Policy, plan


def paths_of(arguments: argparse.Namespace) -> list[str]:
    """The configs among the words of a command line; the others are overrides.

    A word with "=" is one only if there is such a file: `key=value.toml` is an override.
    """
    words = [w for w in arguments.words if w.endswith(".toml")]
    return [w for w in words if "=" not in w or Path(w).is_file()]


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("words", nargs="+", metavar="CONFIG.toml | key=value")
    parser.add_argument("--jobs", type=int, help="processes (default: one a core)")
    parser.add_argument("--force", action="store_true", help="do finished runs again")
    parser.add_argument(
        "--keep-stale", action="store_true", help="use finished runs that other code made"
    )
    parser.add_argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="count the records committed beside a table as finished runs",
    )
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="write every run's curves for `tensorboard --logdir results/tensorboard`",
    )


def experiments_of(arguments: argparse.Namespace, overrides: list[str]) -> list[Experiment]:
    """The experiments of a command line.

    Raises:
        ConfigError: if a word or a config is wrong.
    """
    if arguments.jobs is not None and arguments.jobs < 1:
        raise ConfigError(f"--jobs {arguments.jobs}: needs at least 1")
    if not paths_of(arguments):
        raise ConfigError(f"{arguments.words[0]}: expected a config file, as configs/table2.toml")
    return [load(path, overrides) for path in paths_of(arguments)]


def run(arguments: argparse.Namespace) -> int:
    """Do the runs, write results/<name>/ and print the tables."""
    speaks = launched_rank() == 0
    # an MPI launcher's terminal is a pipe to here, whatever it looks like
    console = _Console(quiet=not speaks, force_terminal=False if launched() else None)
    try:
        with interruptible():
            return _run(arguments, console, speaks)
    except MENDABLE:
        if speaks:
            raise  # the command line says it
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on with the runs that are left", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace, console: Console, speaks: bool) -> int:
    overrides = [w for w in arguments.words if w not in paths_of(arguments)]
    experiments = experiments_of(arguments, overrides)
    names = [name_of_results(experiment, overrides) for experiment in experiments]
    runs = list({run.key: run for e in experiments for run in e.runs}.values())
    runs = for_this_job(runs, console)
    if speaks:
        store.check_writable(arguments.results, [arguments.results / name for name in names])
    console.print(f"{len(runs)} runs of {', '.join(paths_of(arguments))}")
    order = Order(
        arguments.results,
        paths_of(arguments),
        arguments.jobs,
        Policy(arguments.force, arguments.keep_stale, tuple(names) if arguments.go_on else ()),
        arguments.tensorboard,
    )
    ranked = runs[0].engine != "embedded"
    outcome = (run_in_job if ranked else run_here)(runs, order, console)
    if not speaks:
        return 0
    console.print(outcome.describe())
    for failed, cause in outcome.failed:
        print(f"failed: {failed.label}: {cause}", file=sys.stderr)
    written = [
        _write(*one, order, overrides, console) for one in zip(experiments, names, strict=True)
    ]
    undone = len(runs) - outcome.count
    if undone:  # whatever the cause: 0 is for all done
        print(f"{undone} runs were not done; the same command goes on with them", file=sys.stderr)
    return int(bool(outcome.failed or undone) or not all(written))


def experiments_of(arguments: argparse.Namespace, overrides: Sequence[str]) -> list[Experiment]:
    """The experiments of a command line.

    Raises:
        ConfigError: if a config is wrong, or the results of one are another's.
    """
    paths = paths_of(arguments)
    if arguments.jobs is not None and arguments.jobs < 1:
        raise ConfigError(f"--jobs {arguments.jobs}: needs at least 1")
    if not paths:
        raise ConfigError(f"{arguments.words[0]}: expected a config file, as configs/table2.toml")
    experiments = [load(path, overrides) for path in paths]
    check_names(experiments, overrides, arguments.results)
    return experiments


def _write(
    experiment: Experiment, name: str, order: Order, overrides: Sequence[str], console: Console
) -> bool:
    """Write an experiment's folder and print its tables; whether that could be done."""
    try:
        policy = order.policy._replace(force=False)  # what was forced is done
        accepted = plan(experiment.runs, order.root, policy).recorded
        found = results.for_table(experiment.runs, order.root, name, accepted)
        show(console, write_report(experiment, order.root, name, found, overrides))
    except OSError as e:
        print(f"{order.root / name}: not written: {e.strerror or e}", file=sys.stderr)
        return False
    return True


class _Console(Console):
    """Goes on in silence when its output is closed: the runs are worth more than the words."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
