"""The figures of the command line by name: each from the folder of the results.

This imports all that drawing takes; `commands.figure` knows without it what there is to draw.
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from expograph.analysis import table_result as tables
from expograph.analysis import transients
from expograph.config import load
from expograph.report import figures, reading
from expograph.report.headline import headline

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
TESTBED = "bench_comm/testbed_1gbit"


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


DRAW: dict[str, Callable[[Path], Figure]] = {
    "spectral_gap": lambda root: figures.gap_against_nodes(),
    "consensus_error": lambda root: figures.consensus_error(CONSENSUS),
    "headline": _headline,
    "table1_curves": lambda root: figures.relative_errors(
        curves(root, "table1"), "error_workers", factor("table1")
    ),
    "table2_curves": lambda root: figures.training_curves(
        curves(root, "table2"), "accuracy_averaged", ACCURACY
    ),
    "iid_curves": lambda root: figures.training_curves(
        curves(root, "iid"), "train_loss", "training loss"
    ),
    "transients": _transients,
}
