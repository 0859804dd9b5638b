"""Runs on disk: one folder a run, written at once or not at all, found again by its key.

    results/runs/<key>/run.json      resolved config, status, final metrics, provenance
    results/runs/<key>/metrics.csv   one row a record, one column a metric

`status` is "done", or "diverged" when a loss stopped being finite: that is a result too. The
environment variable EXPOGRAPH_RUNS names another folder than results/runs/, which may lie outside
the work tree and outlive it.
"""

import hashlib
import io
import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, StrictFloat, StrictInt, ValidationError

from expograph.config import Run
from expograph.files import remove_leftovers, temporary
from expograph.looks import remember
from expograph.runs.thinning import recorded_steps
from expograph.validation import first_mistake

if TYPE_CHECKING:
    from expograph.runs.train import Record

ROOT = Path("results")
RUNS = "EXPOGRAPH_RUNS"  # environment: the folder of the runs
BYTES_A_RECORD = 200  # of metrics.csv and more; so much is reserved before the training,
ON_DISK = "%.8g"  # how metrics.csv and summaries write a number
MOST_RESERVED = 16 * 2**20  # or so many bytes if that is less

log = logging.getLogger(__name__)


class ResultsError(RuntimeError):
    """Results that cannot be written or read; the message is one line for the user."""


class Metrics(BaseModel):
    """What a run's metrics.csv must be: its rows, its last step, the SHA-256 of its bytes."""

    rows: int
    last_step: int
    sha256: str


class Finished(BaseModel):
    """A finished run as its run.json has it; what else is there is kept.

    Attributes:
        key: of the run.
        status, note: how it ended.
        run: its resolved config.
        final: metrics of its last record, and its step.
        problem: facts about the problem, such as zeta2.
        seconds: that it took.
        threads: of each process that did it.
        seconds_by_rank: of a job, each rank's seconds of compute, packing, waiting and wire.
        provenance: code, versions and machine.
        looks: address -> how a part of the user's own looks.
        metrics: what its metrics.csv must be; None in records of older versions.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    key: str
    status: Literal["done", "diverged"]
    note: str | None = None
    run: dict[str, Any]
    final: dict[str, StrictInt | StrictFloat]
    problem: dict[str, Any] = {}
    seconds: float = 0.0
    threads: int = 1
    seconds_by_rank: list[dict[str, float]] | None = None
    provenance: dict[str, Any]
    looks: dict[str, dict[str, str]] = {}
    metrics: Metrics | None = None


def runs_folder(root: Path = ROOT) -> Path:
    """The folder of the runs that belong to these results: theirs, or $EXPOGRAPH_RUNS."""
    return Path(os.environ.get(RUNS) or root / "runs")


def folder(run: Run, root: Path = ROOT) -> Path:
    """Where the run's two files are, or will be."""
    return runs_folder(root) / run.key


@contextmanager
def reserved(run: Run, root: Path = ROOT) -> Iterator[Path]:
    """A temporary folder for a run that is about to be done, with the room that it will take.

    A full disk is noticed here and not after the training. What was not handed to `save` is
    removed at the end.

    Raises:
        OSError: if there is no room, or the results cannot be written.
    """
    place = temporary(folder(run, root))
    shutil.rmtree(place, ignore_errors=True)
    try:
        place.mkdir(parents=True)
        size = 4096 + BYTES_A_RECORD * (run.steps // run.record_every + 2)
        (place / "metrics.csv").write_bytes(bytes(min(size, MOST_RESERVED)))
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def save(
    run: Run,
    records: Sequence["Record"],
    facts: dict[str, Any],
    root: Path = ROOT,
    place: Path | None = None,
) -> Path:
    """Write a finished run: both files into a temporary folder, which is then renamed.

    Args:
        run: the run.
        records: what `train` yielded.
        facts: everything else for run.json: status, problem facts, seconds, provenance.
        place: the folder of `reserved`, if the caller has one.
    Returns:
        The run's folder; an older result in its place is replaced.
    """
    if place is None:
        with reserved(run, root) as place:
            return save(run, records, facts, root, place)
    target = folder(run, root)
    rows = [{"step": record.step, **record.values} for record in records]
    text = pd.DataFrame(rows).to_csv(index=False, float_format=ON_DISK).encode()
    (place / "metrics.csv").write_bytes(text)
    fit = {"rows": len(rows), "last_step": rows[-1]["step"], "sha256": sha256(text)}
    content = {"key": run.key, **facts, "run": run.model_dump(), "final": rows[-1], "metrics": fit}
    (place / "run.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    replaced = temporary(target, "old")
    if target.exists():
        target.rename(replaced)
    try:
        place.rename(target)
    except OSError:
        if not load(run, root):  # else another sweep has just finished the same run
            raise
    shutil.rmtree(replaced, ignore_errors=True)
    return target


def load(run: Run, root: Path = ROOT) -> Finished | None:
    """The run's record, or None if it is not finished or its files do not fit each other.

    What is damaged is named once in the log.
    """
    place = folder(run, root)
    try:
        stamps = tuple((place / name).stat().st_mtime_ns for name in ("run.json", "metrics.csv"))
    except FileNotFoundError:
        stamps = ()
    except OSError:
        return None
    return _load(run.key, place, stamps) if stamps or place.is_dir() else None


def curve(run: Run, root: Path = ROOT) -> pd.DataFrame:
    """The recorded metrics of a finished run: step, and a column a metric."""
    return pd.read_csv(folder(run, root) / "metrics.csv")


@lru_cache(maxsize=8192)
def _load(key: str, place: Path, stamps: tuple[int, ...]) -> Finished | None:
    try:
        found = Finished.model_validate_json((place / "run.json").read_bytes())
        text = (place / "metrics.csv").read_bytes()
        wrong = _misfit(found, key, text)
    except ValidationError as e:
        wrong = f"run.json: {first_mistake(e)}"
    except OSError as e:
        wrong = f"{Path(e.filename or place).name}: {e.strerror}"
    if wrong:
        log.warning("%s is damaged and not used: %s", place, wrong)
        return None
    remember(found.looks)
    return found


def _misfit(found: Finished, key: str, text: bytes) -> str | None:
    """What in a run's files does not fit the rest, in words."""
    try:
        run = Run.model_validate(found.run)
    except ValidationError:
        return "run.json: its config is none of this version"
    if not found.key == run.key == key:
        return "run.json: its config is another run's"
    last = found.final.get("step")
    if last is None or (found.status == "done" and last != run.steps) or len(found.final) < 2:
        return "run.json: its final metrics are not those of the last step"
    if found.metrics is None:  # an older version's
        expected = recorded_steps(run.steps, run.record_every)
        try:
            steps = pd.read_csv(io.BytesIO(text))["step"].tolist()
        except (ValueError, KeyError):
            return "metrics.csv: not a table"
        whole = steps == expected[: len(steps)].tolist() and steps[-1:] == [last]
        return None if whole else "metrics.csv: not the rows of the run"
    if found.metrics.last_step != last or found.metrics.sha256 != sha256(text):
        return "metrics.csv: not as it was written (its checksum differs)"
    return None


def sha256(content: bytes) -> str:
    """64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def discard_leftovers(root: Path = ROOT) -> None:
    """Remove what processes that were killed while writing have left among the runs."""
    remove_leftovers(runs_folder(root))


def check_writable(root: Path, folders: Iterable[Path] = ()) -> None:
    """Try whether runs can be written under `root`, and files into other folders: leaves nothing.

    A folder that is not there yet is tried in the nearest one above it that is.

    Raises:
        ResultsError: in one line, before anything is trained for nothing.
    """
    if str(root).strip() in ("", "."):
        raise ResultsError("--results: need the name of a folder")
    for place in (root, runs_folder(root), *folders):
        try:
            there = next(p for p in (place, *place.parents) if os.path.lexists(p))
            probe = temporary(there / "writable")
            try:
                probe.write_bytes(bytes(4096))
            finally:
                probe.unlink(missing_ok=True)
        except (OSError, RuntimeError) as e:  # RuntimeError: a loop of links
            cause = getattr(e, "strerror", None) or e
            raise ResultsError(f"{place}: results cannot be written: {cause}") from None
