"""What lies under results/, read for the report: absent is None, damaged is one line.

Every file is optional. A file that is there but cut short or of another form raises `ReportError`,
so that a report never shows half of a table as if it were the whole.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from expograph.analysis.table_result import FILE, TableError, Tables, load
from expograph.analysis.transients import MEASURED, frame
from expograph.config import METRICS, Experiment
from expograph.config.experiments import experiments
from expograph.engines import ENGINES
from expograph.files import DamagedFile
from expograph.runs import contents
from expograph.runs.destination import is_same

DATASETS = {"imagenet": "ImageNet", "voc": "PASCAL VOC", "coco": "COCO", "cifar10": "CIFAR-10"}
NUMBERS = {"step", "nodes", "seed", *METRICS}  # columns of any file


class ReportError(ValueError):
    """What keeps a report from being made, in one line with the name of the file or folder."""


class Scale(NamedTuple):
    """One size at which an experiment is or could be done, with what is there of it.

    Attributes:
        label: "laptop", "laptop, bluefog", "paper", ...
        name: its folder under results/.
        experiment: its config.
        command: what makes it.
        needs: what the machine must have beside this repository; "" if nothing.
        tables: its `table.json`, None if it has not been run.
        runs: `runs.csv`, a row a run.
        curves: `curves.csv`, means over seeds.
        seeds: `seeds.csv`, key, step and metrics of single runs; None where there are too many.
        transients: measured transient iterations; None where the experiment has none.
        provenance: `provenance.json`.
    """

    label: str
    name: str
    experiment: Experiment
    command: str
    needs: str
    tables: Tables | None
    runs: pd.DataFrame | None
    curves: pd.DataFrame | None
    seeds: pd.DataFrame | None
    transients: pd.DataFrame | None
    provenance: dict[str, Any]


class Group(NamedTuple):
    """An experiment at all its scales."""

    id: str
    title: str
    scales: list[Scale]

    @property
    def label(self) -> str:
        """Its name in words: "Table 2 dirichlet"."""
        return re.sub(r"table(\d)", r"Table \1", self.id).replace("_", " ")


def csv(path: Path, columns: tuple[str, ...] = (), **options: Any) -> pd.DataFrame | None:
    """A CSV file with at least these columns; None if there is none.

    Raises:
        ReportError: if it is empty, cut within a line, no table, or lacks a column.
    """
    content = text(path)
    if content is None or content == "\n":  # what is written of no runs
        return None
    if not content.endswith("\n"):
        raise ReportError(f"{path}: is empty or ends in the middle of a line: make it anew")
    try:
        frame = pd.read_csv(path, **options)
    except ValueError as e:
        raise ReportError(f"{path}: not a table: {str(e).strip().splitlines()[0]}") from None
    if missing := [c for c in columns if c not in frame]:
        raise ReportError(f"{path}: has no column {missing[0]!r}")
    for column in (c for c in frame if c in NUMBERS and not options):
        if not pd.api.types.is_numeric_dtype(frame[column]):
            raise ReportError(f"{path}: column {column!r} holds what is no number")
    return frame


def text(path: Path) -> str | None:
    """A text file, or None if there is none.

    Raises:
        ReportError: if it is no text, or not as it was written.
    """
    try:
        content = path.read_bytes()
        contents.check(path, content)
        return content.decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DamagedFile as e:
        raise ReportError(str(e)) from None
    except (OSError, UnicodeDecodeError) as e:
        raise ReportError(f"{path}: {getattr(e, 'strerror', None) or 'not a text file'}") from None


def record(path: Path) -> dict[str, Any]:
    """A JSON object; empty if there is no such file."""
    content = text(path)
    try:
        found = json.loads(content) if content is not None else {}
    except ValueError as e:
        raise ReportError(f"{path}: not valid JSON: {e}") from None
    if not isinstance(found, dict):
        raise ReportError(f"{path}: not a JSON object")
    return found


def tables(folder: Path) -> Tables | None:
    """The tables of a folder of the results; None if it has no table.json.

    Raises:
        ReportError: if the file is damaged.
    """
    try:
        return load(folder)
    except TableError as e:
        raise ReportError(str(e)) from None


def check_owner(path: Path, found: Tables, experiment: Experiment) -> None:
    """That the tables of a file were made from this experiment's config, where they say it.

    Of a folder that was copied or moved with its configs the paths are others; the runs are not.

    Raises:
        ReportError: in one line naming the file.
    """
    config = found.made.get("config")
    if config is None or is_same(Path(str(config)), experiment.path):
        return
    rows = (row for table in found.tables for row in table.rows)
    shown = {key for row in rows for cell in row.cells for key in cell.runs}
    if not shown or not shown <= {run.key for run in experiment.runs}:
        raise ReportError(f"{path}: is of {config}, not of {experiment.path}: make it anew")


def groups(root: Path, configs: Path) -> list[Group]:
    """Every experiment of `configs`, tables first, with what results/ has of it at each scale.

    Raises:
        ReportError, ConfigError: one line naming a file of the results or a config.
    """
    found: dict[str, list[Scale]] = {}
    titles: dict[str, str] = {}
    for experiment in experiments(configs):
        id = experiment.scale_of or experiment.name
        scales = found.setdefault(id, [])
        scales.append(_scale(root, experiment, experiment.scale, experiment.command))
        for engine in ENGINES:
            if (root / f"{experiment.name}_{engine}").is_dir():
                label = f"{experiment.scale}, {engine}"
                table = id.removeprefix("table")
                command = f"make reproduce-table TABLE={table} ENGINE={engine} TABLES={root.name}"
                scales.append(_scale(root, experiment, label, command, f"_{engine}"))
        if experiment.scale_of is None or id not in titles:
            titles[id] = experiment.title
    order = sorted(found, key=lambda id: (not id.startswith("table"), id))
    return [
        Group(id, titles[id], sorted(found[id], key=lambda s: s.experiment.scale == "paper"))
        for id in order
    ]


def _scale(root: Path, experiment: Experiment, label: str, command: str, suffix: str = "") -> Scale:
    name = experiment.name + suffix
    folder = root / name
    made = record(folder / "provenance.json")
    runs = csv(folder / "runs.csv", ("key", "status", "seed", "topology", "algorithm", "nodes"))
    if runs is not None and len(runs) != made.get("runs", len(runs)):
        raise ReportError(f"{folder / 'runs.csv'}: has {len(runs)} of {made['runs']} runs")
    found = tables(folder)
    if found:
        check_owner(folder / FILE, found, experiment)
    datasets = {getattr(run.problem, "dataset", "") for run in experiment.runs}
    datasets = {DATASETS.get(name, name) for name in datasets}
    gpus = any(run.device == "cuda" for run in experiment.runs)
    return Scale(
        label=label,
        name=name,
        experiment=experiment,
        command=command,
        needs=f"{', '.join(sorted(datasets))} and GPUs" if gpus else "",
        tables=found,
        runs=runs,
        curves=csv(folder / "curves.csv", ("step", "topology", "algorithm", "nodes")),
        seeds=csv(folder / "seeds.csv", ("key", "step")),
        transients=frame(found[MEASURED]) if found and MEASURED in found else None,
        provenance=made,
    )
