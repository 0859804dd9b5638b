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
from expograph.report.stage_figure import transient_stage

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
    return load(f"configs/{experiment}.toml").required_table.factor


def curves(root: Path, experiment: str) -> pd.DataFrame:
    """The curves of an experiment, means over seeds."""
    return reading.csv(root / experiment / "curves.csv", ("step", "topology", "nodes"))


def _headline(root: Path) -> Figure:
    accuracy = tables.required(root / "table2")["accuracy_averaged"]
    times = tables.required(root / TESTBED)
    return headline(accuracy, reading.csv(root / "table2/runs.csv"), times["times"], times["links"])


def _transients(root: Path) -> Figure:
    found = tables.required(root / "transients")
    measured = transients.frame(found[transients.MEASURED])
    rows = found["exponents"].means()
    exponents = {r["topology"]: r["measured"] for r in rows if r["measured"] is not None}
    return figures.transient_growth(measured, exponents, factor("transients"))


def _stage(root: Path, experiment: str) -> Figure:
    table = load(f"configs/{experiment}.toml").required_table
    assert table.within is not None, f"{experiment}: a table of a stage has `within`"
    found = tables.required(root / experiment)
    return transient_stage(found[f"{table.metrics[0]}_difference"], table.within)


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
    "table2_dirichlet_curves": lambda root: figures.training_curves(
        curves(root, "table2_dirichlet"), "accuracy_averaged", ACCURACY
    ),
    "transients": _transients,
    "transient_stage": lambda root: _stage(root, "transient_stage"),
    "transient_stage_cnn": lambda root: _stage(root, "transient_stage_cnn"),
}
