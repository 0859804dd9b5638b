"""Predict transient iterations from configs alone, and set them beside what was measured.

examples:
  expograph predict                             every experiment with transients
  expograph predict configs/transients.toml     only these

Writes results/predictions/: S/n and H/n of the topologies, the predictions of each config (its
table's kind is "transients"), and how near they come to results/<name>/, as far as that is there.
Trains nothing. table.json says by which commit each prediction was first made.
"""

import argparse
from pathlib import Path

from rich.console import Console

from expograph.analysis import predictions
from expograph.analysis.disagreement_table import disagreement_tables
from expograph.analysis.table_result import Tables, load
from expograph.config import ConfigError, Experiment, experiments
from expograph.config import load as load_config
from expograph.report import rendering
from expograph.report.screen import Screen, show
from expograph.runs import results
from expograph.runs.provenance import provenance

FOLDER = "predictions"  # under the results
NOTES = (
    "Predicted: by the exact expected error of decentralized SGD on quadratics with Hessian I, "
    "from the config alone (docs/theory.md); nothing is fitted, nothing measured enters.",
    "Blocks apart: predicted minus measured, in the blocks of steps (24 a decade) that transients "
    "are measured in. In the measured interval: of 95 %, by bootstrap over seeds.",
    "The first table counts settings whose measured transient is a number above 0.",
    "Messages: of the busiest rank.",
)


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("configs", nargs="*", metavar="CONFIG", help="default: all with transients")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")


def run(arguments: argparse.Namespace) -> int:
    """Predict, write the tables and print them."""
    folder = arguments.results / FOLDER
    found = [_table(experiment, arguments.results) for experiment in _chosen(arguments.configs)]
    made = provenance()
    maker = {key: made[key] for key in ("commit", "uncommitted_changes")}
    first = predictions.first_made(found, load(folder), maker)
    tables = Tables(
        title="Predictions of the theory",
        tables=(predictions.agreement(found), *found, *disagreement_tables()),
        notes=NOTES,
        made=made | {"predicted": first},
    )
    rendering.write(tables, folder)
    show(Console(), [Screen(table) for table in tables.tables])
    print(f"written to {folder}/")
    return 0


def _chosen(configs: list[str]) -> list[Experiment]:
    """The experiments named, or all of the repository.

    Raises:
        ConfigError: for one whose table shows no transients.
    """
    if not configs:
        return [e for e in experiments(Path("configs")) if _has_transients(e)]
    chosen = [load_config(path) for path in configs]
    for experiment in chosen:
        if not _has_transients(experiment):
            raise ConfigError(f"{experiment.path}: table.kind: only transients are predicted")
    return chosen


def _has_transients(experiment: Experiment) -> bool:
    return experiment.table is not None and experiment.table.kind == "transients"


def _table(experiment: Experiment, root: Path) -> predictions.TableResult:
    measured = predictions.measured_of(load(root / experiment.name))
    return predictions.table_of(experiment, measured)
