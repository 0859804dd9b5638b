"""A run's record: all that tables, curves, claims and figures take from it, small enough to commit.

    results/<name>/records.jsonl.gz      a line of JSON a run, committed beside the tables

Curves are thinned once, when the record is made, and everything is made of records: those of the
runs folder, or, where a run is not there, the committed ones. So a table made on another machine
from committed records is the same to the last digit.
"""

import gzip
import io
import logging
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from expograph.config import Run
from expograph.files import DamagedFile, replace_bytes
from expograph.looks import remember
from expograph.runs import store
from expograph.runs.store import Finished
from expograph.runs.thinning import BlockMeans, recorded_steps, thinned
from expograph.validation import first_mistake

FILE = "records.jsonl.gz"
CURVES = ("accuracy_averaged", "map_50", "consensus_distance", "train_loss", "error_workers")
POINTS, POINTS_A_METRIC = 60, 20  # records kept of a curve: for means over seeds, for one run's
ERRORS = ("error_workers", "error_averaged", "suboptimality")  # what transients may be of

log = logging.getLogger(__name__)


class Blocks(BaseModel):
    """`BlockMeans` as it is written."""

    model_config = ConfigDict(frozen=True)

    last: int
    steps: list[int]
    means: list[float]
    partial: dict[int, float] = {}

    @classmethod
    def of(cls, steps: np.ndarray, values: np.ndarray, ends: Iterable[int]) -> "Blocks":
        means = BlockMeans.of(steps, values, ends)
        return cls(
            last=means.last,
            steps=means.steps.tolist(),
            means=means.means.tolist(),
            partial=means.partial,
        )

    def means_of(self) -> BlockMeans:
        return BlockMeans(self.last, np.array(self.steps), np.array(self.means), self.partial)


class RunRecord(BaseModel):
    """A finished run.

    Attributes:
        key, status, note, final, problem, seconds, threads, provenance, looks: as in `Finished`,
            of the problem's facts the numbers only.
        run: its config, as far as it differs from the defaults.
        curve: column -> values, "step" among them; thinned, None where a metric was not measured.
        blocks: error -> its means over blocks of steps, for experiments that show transients.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    status: str
    note: str | None = None
    run: dict[str, Any]
    final: dict[str, int | float | None]
    problem: dict[str, int | float] = {}
    seconds: float = 0.0
    threads: int = 1
    provenance: dict[str, Any]
    curve: dict[str, list[int | float | None]] = Field(min_length=1)
    blocks: dict[str, Blocks] = {}
    looks: dict[str, dict[str, str]] = {}

    @property
    def code(self) -> str | None:
        """The fingerprint of the code that made the run."""
        return self.provenance.get("code")

    def frame(self) -> pd.DataFrame:
        """The curve: step, and a column a metric."""
        kinds = {"step": None}  # as it is; a None among the others is NaN
        columns = {k: np.array(v, dtype=kinds.get(k, float)) for k, v in self.curve.items()}
        return pd.DataFrame(columns)


class Transients(NamedTuple):
    """What a record must keep for transient iterations.

    Attributes:
        errors: of these metrics.
        ends: nodes -> steps at which runs with so many nodes end.
    """

    errors: tuple[str, ...]
    ends: Mapping[int, set[int]]

    @classmethod
    def of(cls, runs: Iterable[Run], errors: Sequence[str] = ERRORS) -> "Transients":
        """For comparing these runs with each other."""
        ends: dict[int, set[int]] = {}
        for run in runs:
            ends.setdefault(run.nodes, set()).add(run.steps)
        return cls(tuple(errors), ends)


def make(run: Run, found: Finished, curve: pd.DataFrame, transients: Transients) -> RunRecord:
    """The record of a run.

    Args:
        run: the run.
        found: what `store.load` gave.
        curve: its recorded metrics, whole.
        transients: which blocks to keep.
    """
    columns = {name: curve[name].to_numpy() for name in curve}
    steps = columns["step"]
    there = {name: ~np.isnan(values) for name, values in columns.items()}
    shown = [name for name in CURVES if name in columns]
    kept = [thinned(recorded_steps(run.steps, run.record_every), POINTS)]
    kept += [thinned(steps[there[name]], POINTS_A_METRIC) for name in shown]
    rows = np.isin(steps, np.concatenate(kept))
    ends = sorted(end for end in transients.ends.get(run.nodes, ()) if end < run.steps)
    errors = transients.errors if found.status == "done" else ()
    blocks = {
        name: Blocks.of(steps[there[name]], columns[name][there[name]], ends)
        for name in errors
        if name in columns
    }
    return RunRecord(
        key=run.key,
        status=found.status,
        note=found.note,
        run=run.model_dump(exclude_defaults=True),
        final={name: _finite(value) for name, value in found.final.items()},
        problem={k: v for k, v in found.problem.items() if type(v) in (int, float)},
        seconds=found.seconds,
        threads=found.threads,
        provenance=found.provenance,
        curve={
            name: [_finite(v) for v in columns[name][rows].tolist()] for name in ["step", *shown]
        },
        blocks=blocks,
        looks=found.looks,
    )


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


def of_runs(runs: Iterable[Run], root: Path, transients: Transients) -> dict[str, RunRecord]:
    """The records of the runs that are finished in the runs folder, by key."""
    found = {}
    for run in runs:
        if content := store.load(run, root):
            found[run.key] = make(run, content, store.curve(run, root), transients)
    return found


def encoded(found: Iterable[RunRecord], errors: Sequence[str] = ()) -> bytes:
    """A file of records; equal records give equal bytes.

    Args:
        found: the records.
        errors: of which the block means are kept: those whose transients the experiment shows.
    """
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        for record in found:
            kept = {name: record.blocks[name] for name in errors if name in record.blocks}
            record = record.model_copy(update={"blocks": kept})
            file.write(record.model_dump_json(exclude_defaults=True).encode() + b"\n")
    return buffer.getvalue()


def write(path: Path, found: Iterable[RunRecord], errors: Sequence[str] = ()) -> None:
    """Write a file of records: see `encoded`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_bytes(path, encoded(found, errors))


def read(path: Path) -> dict[str, RunRecord]:
    """The records of a file by key; none if there is no such file.

    Lines that are damaged, or are not the record of the run whose config they have, are left out;
    the log names the first.

    Raises:
        DamagedFile: one line naming the file, if it cannot be read to its end.
    """
    try:
        lines = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as e:
        cause = getattr(e, "strerror", None) or "cut short or no gzip file"
        raise DamagedFile(f"{path}: damaged: {cause}; make it anew, or take git's") from None
    found, wrong = {}, []
    for number, line in enumerate(lines, start=1):
        try:
            record = RunRecord.model_validate_json(line)
            key = Run.model_validate(record.run).key
        except ValidationError as e:
            wrong.append(f"line {number} is damaged and not used: {first_mistake(e)}")
            continue
        if record.key == key:
            found[key] = record
            remember(record.looks)
        else:
            wrong.append(f"line {number} is not of the run it names; not used")
    if wrong:
        others = f" (and {len(wrong) - 1} lines more)" if len(wrong) > 1 else ""
        log.warning("%s: %s%s", path, wrong[0], others)
    return found
