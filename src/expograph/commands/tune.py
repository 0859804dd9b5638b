"""Choose step sizes on held-out training images, and write them to configs/step_sizes.toml.

examples:
  expograph tune configs/tuning_table2.toml

The runs of such a config are a grid of step sizes for each row of its table. Where the best of a
row lies on an edge, the grid grows there until it does not. results/<name>/ has every mean, the
choices and their curves; experiments with `step_sizes = ...` take their lr from the file written.
"""

import argparse
import sys

from expograph.commands import train
from expograph.config import ConfigError, Experiment
from expograph.config.step_sizes import FILE, write_rows
from expograph.runs.interrupt import interruptible

MOST_GROWTHS = 8  # of a row's grid


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    train.options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do the runs, grow the grids, write; 0 if every choice lies inside its grid."""
    if extra := [word for word in arguments.words if word not in train.paths_of(arguments)]:
        raise ConfigError(f"{extra[0]}: tune takes configs alone")
    experiments = [_checked(experiment) for experiment in train.experiments_of(arguments, [])]
    try:
        with interruptible():
            return _tune(experiments, arguments)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where this one was", file=sys.stderr)
        return 130


def _checked(experiment: Experiment) -> Experiment:
    table = experiment.table
    if not experiment.tunes or table is None or table.kind != "pivot" or table.column != "lr":
        raise ConfigError(
            f"{experiment.path}: is no grid of step sizes: it needs tunes = ... and a pivot "
            "[table] with column = 'lr'"
        )
    return experiment


def _tune(experiments: list[Experiment], arguments: argparse.Namespace) -> int:
    from expograph.analysis import tuning
    from expograph.analysis.table_result import required
    from expograph.commands.training import train as do
    from expograph.report import figures
    from expograph.report.tuning_figure import tuning_curves
    from expograph.runs import results

    for _ in range(MOST_GROWTHS):
        if status := do(experiments, [], arguments, speaks=True):
            return status
        arguments.force = False  # what was forced is done
        larger, grew = [], 0
        for one in experiments:
            summary = results.summary(one.runs, arguments.results, name=one.name)
            more = tuning.grown(one.runs, summary, one.required_table)
            larger.append(one.model_copy(update={"runs": [*one.runs, *more]}))
            grew += len(more)
        if not grew:
            break
        print(f"{grew} runs more: the best step size of a row lies on the edge of its grid")
        experiments = larger
    for one in experiments:
        tables = required(arguments.results / one.name)
        figures.save(
            tuning_curves(tables[one.required_table.metrics[0]]),
            arguments.results / one.name / "figure",
        )
        assert one.tunes is not None  # as `_checked` has seen
        write_rows(one.path.with_name(FILE), one.tunes, tables[tuning.ID].means())
        print(f"{one.path.with_name(FILE)}: {one.tunes}")
    if grew:
        print(f"tune: after {MOST_GROWTHS} growths a best still lies on an edge", file=sys.stderr)
    return int(grew > 0)
