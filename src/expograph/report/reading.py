"""What lies under results/, read for the report: absent is None, damaged is one line.

Every file is optional. A file that is there but cut short or of another form raises `ReportError`,
so that a report never shows half of a table as if it were the whole.
"""

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from expograph.config import METRICS, Experiment, experiments
from expograph.engines import ENGINES
from expograph.report import tables

DATASETS = {"imagenet": "ImageNet", "voc": "PASCAL VOC", "coco": "COCO", "cifar10": "CIFAR-10"}
NUMBERS = {"step", "nodes", "seed", "transient", "low", "high", *METRICS}  # columns of any file


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
        frames: heading -> table of text, None if it has not been run.
        notes: the lines below the table.
        runs: `runs.csv`, a row a run.
        curves: `curves.csv`, means over seeds.
        seeds: `seeds.csv`, key, step and metrics of single runs; None where there are too many.
        transients: `transients.csv`; None where the experiment has none.
        provenance: `provenance.json`.
    """

    label: str
    name: str
    experiment: Experiment
    command: str
    needs: str
    frames: dict[str, pd.DataFrame] | None
    notes: list[str]
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
    """A text file, or None if there is none."""
    try:
        return path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
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


def table(path: Path) -> dict[str, pd.DataFrame] | None:
    """The frames of a table.csv, heading -> table of text; a wide CSV is one frame without one."""
    wide = csv(path, dtype=str, keep_default_na=False)
    if wide is None or list(wide) != ["table", "row", "column", "value"]:
        return None if wide is None else {"": wide}
    try:
        frames = tables.read(path)
    except ValueError as e:
        raise ReportError(f"{path}: not a table: {e}") from None
    for heading, frame in frames.items():
        if frame.isna().any(axis=None):
            raise ReportError(f"{path}: cells of {heading!r} are missing")
    return frames


def statements(path: Path) -> dict[str, dict[str, Any]]:
    """The [[claim]]s of a file by id; empty if there is no such file."""
    content = text(path)
    try:
        claims = tomllib.loads(content or "").get("claim", [])
        return {claim["id"]: claim for claim in claims}
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as e:
        raise ReportError(f"{path}: not a file of claims: {e}") from None


def groups(root: Path, configs: Path) -> list[Group]:
    """Every experiment of `configs`, tables first, with what results/ has of it at each scale.

    Raises:
        ReportError, ConfigError: one line naming a file of the results or a config.
    """
    found: dict[str, Group] = {}
    for experiment in experiments(configs):
        id = experiment.group
        group = found.setdefault(id, Group(id, experiment.title, []))
        group.scales.append(_scale(root, experiment, experiment.scale, experiment.command))
        for engine in ENGINES:
            if (root / f"{experiment.name}_{engine}").is_dir():
                label = f"{experiment.scale}, {engine}"
                command = f"make reproduce-table TABLE={id.removeprefix('table')} ENGINE={engine}"
                group.scales.append(_scale(root, experiment, label, command, f"_{engine}"))
    return list(found.values())


def _scale(root: Path, experiment: Experiment, label: str, command: str, suffix: str = "") -> Scale:
    name = experiment.name + suffix
    folder = root / name
    made = record(folder / "provenance.json")
    runs = csv(folder / "runs.csv", ("key", "status", "seed", "topology", "algorithm", "nodes"))
    if runs is not None and len(runs) != made.get("runs", len(runs)):
        raise ReportError(f"{folder / 'runs.csv'}: has {len(runs)} of {made['runs']} runs")
    markdown = text(folder / "table.md") or ""
    frames = table(folder / "table.csv")
    if frames:  # in the order in which they were written: table.csv has them sorted
        frames = dict(sorted(frames.items(), key=lambda f: markdown.find(f"## {f[0]}\n")))
    datasets = {getattr(run.problem, "dataset", "") for run in experiment.runs}
    datasets = {DATASETS.get(name, name) for name in datasets}
    gpus = any(run.device == "cuda" for run in experiment.runs)
    return Scale(
        label=label,
        name=name,
        experiment=experiment,
        command=command,
        needs=f"{', '.join(sorted(datasets))} and GPUs" if gpus else "",
        frames=frames,
        notes=[line[2:] for line in markdown.splitlines() if line.startswith("- ")],
        runs=runs,
        curves=csv(folder / "curves.csv", ("step", "topology", "algorithm", "nodes")),
        seeds=csv(folder / "seeds.csv", ("key", "step")),
        transients=csv(
            folder / "transients.csv", ("topology", "nodes", "transient", "low", "high")
        ),
        provenance=made,
    )
