"""One run by its key, wherever it has left a trace: the runs folder, committed records, runs.csv.

What is said of it comes from the first of these that has it. In a fresh clone the records that are
committed beside the tables have every run, with its curve thinned.
"""

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import ValidationError

from expograph.config import ConfigError, Experiment, Run
from expograph.config.facts import FINAL, OVER_PSGD
from expograph.files import DamagedFile
from expograph.runs import contents, records, store
from expograph.runs.results import flatten

KEY = re.compile(r"[0-9a-f]{1,16}")
SUMMARY = "runs.csv"  # in a folder of the results, a row a run
UNREAD = {"runs", "running", "tensorboard", "report", "figures"}  # folders without summaries
NO_METRICS = {"key", "status", "commit", "code", "zeta2", "sigma2"}  # columns of a summary


class Trace(NamedTuple):
    """What is known of a run.

    Attributes:
        key: its key, whole.
        source: the file that says the rest.
        run: its config; None if it is none of this version.
        config: the same as flat text or numbers: what differs from the defaults, or, of a summary,
            all of it.
        status, note: how it ended.
        final: metrics of its last record.
        curve: step, and a column a metric, as far as they are kept; None if they are not.
        seconds, threads: of its training; None if that is not known.
        ranks: the seconds of each rank of a job by kind; None if that is not known.
        provenance: code, versions and machine; may be empty.
        folders: of the results, those whose tables rest on it.
    """

    key: str
    source: Path
    run: Run | None
    config: dict[str, Any]
    status: str
    note: str | None
    final: dict[str, Any]
    curve: pd.DataFrame | None
    seconds: float | None
    threads: int | None
    ranks: list[dict[str, float]] | None
    provenance: dict[str, Any]
    folders: list[str]


def find(prefix: str, root: Path, experiments: Iterable[Experiment] = ()) -> Trace:
    """The run whose key begins so.

    Args:
        prefix: of the key, or all of it.
        root: the results.
        experiments: whose runs are known, done or not.
    Raises:
        ConfigError: in one line, if no run or several have such a key, or it has not been done.
        DamagedFile: a file that should tell of it is damaged.
    """
    if not KEY.fullmatch(prefix):
        raise ConfigError(f"run {prefix}: not a key: up to 16 of the digits 0-9 and a-f")
    rows: dict[str, dict[str, tuple[Path, dict[str, str]]]] = {}  # key -> folder -> its row
    for path in summaries(root):
        name = path.parent.relative_to(root).as_posix()
        for row in _rows(path):
            if row["key"].startswith(prefix):
                rows.setdefault(row["key"], {})[name] = path, row
    known = {run.key: run for e in experiments for run in e.runs if run.key.startswith(prefix)}
    own = (path.name for path in store.runs_folder(root).glob(f"{prefix}*") if path.is_dir())
    keys = sorted({*rows, *known, *filter(KEY.fullmatch, own)})
    if not keys:
        raise ConfigError(f"run {prefix}: no run has such a key; {root}/*/{SUMMARY} list them")
    if len(keys) > 1:
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        raise ConfigError(f"run {prefix}: ambiguous: {', '.join(keys[:3])}{more}")
    (key,) = keys
    listed = rows.get(key, {})
    trace = _of_runs_folder(key, root) or _of_records(key, root, listed)
    trace = trace or _of_summaries(key, listed, known.get(key))
    if trace is None:
        homes = [str(e.path) for e in experiments if any(run.key == key for run in e.runs)]
        remedy = f"; `expograph sweep {homes[0]}` does it" if homes else ""
        raise ConfigError(f"run {key}: is not done, or what is left of it is damaged{remedy}")
    return trace._replace(folders=list(listed))


def summaries(root: Path) -> Iterator[Path]:
    """The summaries under the results."""
    for place, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in UNREAD)
        if SUMMARY in files:
            yield Path(place) / SUMMARY


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        content = path.read_bytes()
        contents.check(path, content)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise DamagedFile(f"{path}: {getattr(e, 'strerror', None) or 'not a text file'}") from None
    return [row for row in csv.DictReader(io.StringIO(text)) if row.get("key")]


def _of_runs_folder(key: str, root: Path) -> Trace | None:
    path = store.runs_folder(root) / key / "run.json"
    try:
        run = Run.model_validate(store.Finished.model_validate_json(path.read_bytes()).run)
    except (OSError, ValidationError):
        return None
    found = store.load(run, root)
    return _trace(path, run, found, store.curve(run, root)) if found and run.key == key else None


def _of_records(key: str, root: Path, folders: Iterable[str]) -> Trace | None:
    for name in folders:
        path = root / name / records.FILE
        if found := records.read(path).get(key):
            return _trace(path, Run.model_validate(found.run), found, found.frame())
    return None


def _trace(
    source: Path, run: Run, found: store.Finished | records.RunRecord, curve: pd.DataFrame
) -> Trace:
    return Trace(
        key=run.key,
        source=source,
        run=run,
        config=flatten(run.model_dump(exclude_defaults=True)),
        status=found.status,
        note=found.note,
        final=found.final,
        curve=curve,
        seconds=found.seconds,
        threads=found.threads,
        ranks=found.seconds_by_rank if isinstance(found, store.Finished) else None,
        provenance=dict(found.provenance),
        folders=[],
    )


def _of_summaries(
    key: str, listed: dict[str, tuple[Path, dict[str, str]]], run: Run | None
) -> Trace | None:
    """What a row of a summary has: no curve, and the config as text."""
    for path, row in listed.values():
        if row.get("status") not in ("done", "diverged"):
            continue
        told = {column: text for column, text in row.items() if column and text}
        config = {k: v for k, v in told.items() if k.split(".")[0] in Run.model_fields}
        others = {k: v for k, v in told.items() if k not in {*config, *NO_METRICS}}
        metrics = {
            k.removeprefix(FINAL): _number(v)
            for k, v in others.items()
            if not k.endswith(OVER_PSGD)
        }
        return Trace(
            key=key,
            source=path,
            run=run,
            config=config,
            status=row["status"],
            note=None,
            final={name: value for name, value in metrics.items() if value is not None},
            curve=None,
            seconds=None,
            threads=None,
            ranks=None,
            provenance={k: told[k] for k in ("commit", "code") if k in told},
            folders=[],
        )
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
