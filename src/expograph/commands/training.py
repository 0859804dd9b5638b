"""The runs of experiments, done and written: what `train` does once its words are understood."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from expograph.analysis.remarks import remarks
from expograph.cluster.launch import launched
from expograph.cluster.timeline import summary
from expograph.commands.mendable import MENDABLE
from expograph.config import Experiment
from expograph.report.experiment import write_report
from expograph.report.screen import show
from expograph.runs import environment, results, store
from expograph.runs.destination import check_names, name_of_results
from expograph.runs.job import Order, for_this_job, run_here
from expograph.runs.resuming import Saving, check_source
from expograph.runs.selection import Policy, plan
from expograph.runs.spacing import asked


def train(
    experiments: Sequence[Experiment],
    overrides: Sequence[str],
    arguments: argparse.Namespace,
    speaks: bool,
) -> int:
    """Do the runs, write the folders of their tables and print these; the exit status.

    Args:
        overrides: the `key=value` words that made the experiments.
        arguments: of the command line.
        speaks: whether this process prints: rank 0 of a job.
    """
    # an MPI launcher's terminal is a pipe to here, whatever it looks like
    terminal = False if launched() else None
    console = _Console(quiet=not speaks, force_terminal=terminal, markup=False)
    try:
        return _train(experiments, overrides, arguments, speaks, console)
    except MENDABLE:
        if speaks:
            raise  # the command line says it
        return 2


def _train(
    experiments: Sequence[Experiment],
    overrides: Sequence[str],
    arguments: argparse.Namespace,
    speaks: bool,
    console: Console,
) -> int:
    paths = [str(experiment.path) for experiment in experiments]
    names = [name_of_results(experiment, overrides) for experiment in experiments]
    tables = arguments.tables or arguments.results
    runs = list({run.key: run for e in experiments for run in e.runs}.values())
    runs = for_this_job(runs, console)
    environment.check()
    if speaks:
        store.check_writable(arguments.results, [tables / name for name in names])
    console.print(f"{len(runs)} runs of {', '.join(paths)}")
    order = Order(
        arguments.results,
        paths,
        arguments.jobs,
        Policy(arguments.force, arguments.keep_stale, tuple(names) if arguments.go_on else ()),
        arguments.tensorboard,
        Saving(asked(arguments.checkpoint), arguments.resume_from),
    )
    if order.saving.source and speaks:
        check_source(order.saving.source, runs, order.root)
    if runs[0].engine == "embedded":
        outcome = run_here(runs, order, console)
    else:
        from expograph.runs.ranked import run_in_job  # with torch, which takes seconds

        outcome = run_in_job(runs, order, console)
    if not speaks:
        return 0
    console.print(outcome.describe())
    done = (store.load(run, order.root) for run in outcome.finished)
    if line := summary(one.seconds_by_rank for one in done if one and one.seconds_by_rank):
        console.print(line)
    for failed, cause in outcome.failed:
        print(f"failed: {failed.label}: {cause}", file=sys.stderr)
    pairs = zip(experiments, names, strict=True)
    written = [_write(*pair, order, tables, overrides, console) for pair in pairs]
    undone = len(runs) - outcome.count
    if undone:  # whatever the cause: 0 is for all done
        print(f"{undone} runs were not done; the same command goes on with them", file=sys.stderr)
    return int(bool(outcome.failed or undone) or not all(written))


def _write(
    experiment: Experiment,
    name: str,
    order: Order,
    tables: Path,
    overrides: Sequence[str],
    console: Console,
) -> bool:
    """Write an experiment's folder, tables/<name>/, and print its tables; whether that could be."""
    check_names([experiment], overrides, tables)  # another config's sweep may have been quicker
    try:
        policy = order.policy._replace(force=False)  # what was forced is done
        committed = policy.committed  # else nothing but the runs folder counts
        accepted = plan(experiment.runs, order.root, policy).recorded if committed else []
        found = results.for_table(experiment.runs, order.root, name, accepted)
        show(console, write_report(experiment, order.root, name, found, overrides, tables))
        for line in remarks(found.values()):
            print(f"{tables / name}: {line}", file=sys.stderr)
    except OSError as e:
        print(f"{tables / name}: not written: {e.strerror or e}", file=sys.stderr)
        return False
    return True


class _Console(Console):
    """Goes on in silence when its output is closed: the runs are worth more than the words."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
