"""What claims rest on, read from the results: runs of an experiment, and tables."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from expograph.analysis.table_result import FILE, TableResult, load
from expograph.analysis.transients import Errors, frame, measure
from expograph.claims.outcome import NotMeasured
from expograph.config import Experiment
from expograph.config import load as load_config
from expograph.runs import results

experiment_of = cache(load_config)  # several claims rest on one experiment


def finished(
    root: Path, config: str, where: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Experiment, pd.DataFrame]:
    """An experiment all of whose runs are there, or committed, and their `results.summary`.

    Args:
        where: config key -> value: only these runs are wanted.
    Raises:
        NotMeasured: naming the command that makes the others.
    """
    experiment = experiment_of(config)
    runs = [run for run in experiment.runs if all(run.value(k) == v for k, v in where.items())]
    if not runs:
        raise NotMeasured(f"{config} has no runs with {dict(where)}")
    summary = results.summary(runs, root, experiment.name)
    missing = int((summary["status"] == "missing").sum())
    if missing:
        raise NotMeasured(
            f"{missing} of {len(summary)} runs of {config} are missing: `make claims`"
        )
    return experiment, summary


class Convergence(NamedTuple):
    """The runs of an experiment with a table of transients, and what was measured of them.

    Attributes:
        experiment: the config.
        summary: `results.summary` of its runs.
        errors: their curves, by key of the run.
        measured: transient iterations, `analysis.transients.frame`.
    """

    experiment: Experiment
    summary: pd.DataFrame
    errors: Errors
    measured: pd.DataFrame

    @property
    def keys(self) -> tuple[str, ...]:
        """Of all the runs."""
        return tuple(self.summary["key"])


def convergence(root: Path, config: str) -> Convergence:
    """What was measured of an experiment with a table of transients.

    Raises:
        NotMeasured: if runs are missing.
    """
    experiment, summary = finished(root, config)
    errors = results.errors_of(results.find(experiment.runs, root, experiment.name))
    measured = frame(measure(summary, errors, experiment.required_table))
    return Convergence(experiment, summary, errors, measured)


def table(folder: Path, id: str, make: str) -> TableResult:
    """A table of a folder of the results.

    Raises:
        NotMeasured: if it is not there; `make` is the target that makes it.
        TableError: if it is damaged.
    """
    tables = load(folder)
    if tables is None or id not in [t.id for t in tables.tables]:
        raise NotMeasured(f"{folder / FILE} has no table {id!r}: `make {make}` makes it")
    return tables[id]
