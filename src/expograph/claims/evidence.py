"""What claims rest on, read from the results: runs of an experiment, and tables."""

from functools import cache
from pathlib import Path

import pandas as pd

from expograph.analysis.table_result import FILE, TableResult, load
from expograph.analysis.transients import frame, measure
from expograph.claims.outcome import NotMeasured
from expograph.config import Experiment
from expograph.config import load as load_config
from expograph.runs import results

experiment_of = cache(load_config)  # several claims rest on one experiment


def finished(root: Path, config: str) -> tuple[Experiment, pd.DataFrame]:
    """An experiment all of whose runs are there, or committed, and their `results.summary`.

    Raises:
        NotMeasured: naming the command that makes the others.
    """
    experiment = experiment_of(config)
    summary = results.summary(experiment.runs, root, experiment.name)
    missing = int((summary["status"] == "missing").sum())
    if missing:
        raise NotMeasured(
            f"{missing} of {len(summary)} runs of {config} are missing: `make claims`"
        )
    return experiment, summary


def transients(root: Path, config: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The measured transient iterations of an experiment, and the keys of its runs.

    Raises:
        NotMeasured: if runs are missing.
    """
    experiment, summary = finished(root, config)
    found = results.find(experiment.runs, root, experiment.name)
    measured = frame(measure(summary, results.errors_of(found), experiment.table))
    return measured, tuple(summary["key"])


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
