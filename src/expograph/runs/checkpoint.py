"""Checkpoints of runs in the middle: which there are, and what a run may go on from.

    results/runs/<key>.checkpoint/<step>.json               the manifest, written last
    results/runs/<key>.checkpoint/<step>.<first rank>.pt    the state of the ranks of one process

A checkpoint without a manifest is none. The manifest has the checksums of its files, and its own:
what is cut short, changed or another run's is not used, and the checkpoint before it is. The state
itself is `saved_state`'s: here nothing imports torch, which takes seconds.
"""

import json
import logging
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from expograph.config import Run
from expograph.files import remove_leftovers, replace_text
from expograph.runs import store
from expograph.runs.provenance import PACKAGES, provenance
from expograph.runs.selection import Plan, Policy

FORMAT = 1  # raised when older files can no longer be read
KEPT = 2  # checkpoints of a run
SUFFIX = ".checkpoint"  # of the folder
STATE = re.compile(r"(?P<step>\d{1,10})\.(?P<first>\d{1,7})\.pt")

log = logging.getLogger(__name__)


class File(BaseModel):
    """One file of a checkpoint: the ranks first .. stop - 1, and the SHA-256 of its bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: int
    stop: int
    sha256: str


class Manifest(BaseModel):
    """What a checkpoint is of.

    Attributes:
        format: of the files.
        run: its config.
        step: steps done.
        code: fingerprint of the code that makes the run's numbers.
        versions: of the libraries that make them.
        threads: of each process.
        block: bytes that the embedded engine mixes at once; part of the code, here for readers.
        seconds: that the run took so far, all its parts together.
        resumed: the steps at which it was taken up again so far.
        files: of the ranks, in order.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    run: dict[str, Any]
    step: int
    code: str
    versions: dict[str, Any]
    threads: int
    block: int
    seconds: float
    resumed: tuple[int, ...]
    files: tuple[File, ...]

    @property
    def of(self) -> Run:
        """The run."""
        return Run.model_validate(self.run)


def folder(run: Run, root: Path) -> Path:
    """Where a run's checkpoints lie."""
    return store.runs_folder(root) / f"{run.key}{SUFFIX}"


def here(run: Run) -> dict[str, Any]:
    """Code and versions on which the last bits of a run depend."""
    known = provenance(run)
    versions = {name: known[name] for name in ("python", *PACKAGES)}
    return {"code": known["code"], "versions": versions}


# ---- writing ----


def write_manifest(place: Path, manifest: Manifest) -> None:
    """Make a checkpoint of files that are written."""
    content = manifest.model_dump(mode="json")
    text = json.dumps({"checksum": _checksum(content), "checkpoint": content}, indent=1)
    replace_text(place / f"{manifest.step}.json", text + "\n")


def prune(place: Path, kept: Iterable[int], ranks: range) -> None:
    """Remove what these ranks have left of checkpoints at other steps; the first also manifests."""
    kept = set(kept)
    for path in place.glob("*.pt"):
        found = STATE.fullmatch(path.name)
        if found and int(found["first"]) == ranks.start and int(found["step"]) not in kept:
            path.unlink(missing_ok=True)
    for path in place.glob("*.json") if ranks.start == 0 else ():
        if path.stem not in map(str, kept):
            path.unlink(missing_ok=True)


def discard(run: Run, root: Path) -> None:
    """Remove all checkpoints of a run."""
    shutil.rmtree(folder(run, root), ignore_errors=True)


def discard_unneeded(found: Plan, root: Path, policy: Policy) -> None:
    """Remove checkpoints of finished runs, and of those that are to be done from their start."""
    for run in (*found.reused, *(found.todo if policy.force else ())):
        discard(run, root)


def discard_leftovers(root: Path) -> None:
    """Remove what processes that were killed while writing have left, runs or checkpoints."""
    store.discard_leftovers(root)
    for place in store.runs_folder(root).glob(f"*{SUFFIX}"):
        remove_leftovers(place)


# ---- reading ----


def manifests(place: Path) -> list[Manifest]:
    """The checkpoints of a folder, the newest first; what is damaged is named in the log."""
    found = []
    for path in place.glob("*.json"):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            manifest = Manifest.model_validate(content["checkpoint"])
            run = manifest.of
        except (OSError, ValueError, KeyError, TypeError):
            say_damaged(path)
            continue
        fits = content.get("checksum") == _checksum(content["checkpoint"])
        if fits and path.stem == str(manifest.step) and place.name == f"{run.key}{SUFFIX}":
            found.append(manifest)
        else:
            say_damaged(path)
    return sorted(found, key=lambda manifest: -manifest.step)


def misfit(manifest: Manifest, run: Run) -> str | None:
    """Why a run cannot go on from a checkpoint, in words; None if it can."""
    of = manifest.of
    for name in Run.model_fields:
        if name != "engine" and (a := getattr(of, name)) != (b := getattr(run, name)):
            return f"is of another config: its {name} is {_short(a)}, not {_short(b)}"
    now = here(of)
    if manifest.format != FORMAT or manifest.code != now["code"]:
        return "was made by other code"
    for name, version in now["versions"].items():
        if manifest.versions.get(name) != version:
            return f"was made with {name} {manifest.versions.get(name)}, here is {version}"
    return None


def _checksum(content: dict[str, Any]) -> str:
    return store.sha256(json.dumps(content, sort_keys=True).encode())


def say_damaged(path: Path) -> None:
    """One line in the log."""
    log.warning("%s is damaged: this checkpoint is not used", path)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
