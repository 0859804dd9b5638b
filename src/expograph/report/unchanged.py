"""Whether files that are about to be written say anything new: times and makers apart.

Repeating a command would otherwise rewrite every committed table for the sake of its seconds and
its commit. What decides are the numbers, and the code that made them.
"""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from expograph.config.facts import FINAL
from expograph.runs import contents

TIME = "train_seconds"  # the one metric that is another each time
SAME_RUNS = ("config", "overrides", "runs", "finished", "seeds")  # of a provenance.json


def write(folder: Path, files: Mapping[str, bytes], stale: str | None = None) -> None:
    """Write files into a folder, unless those that are there say the same.

    Args:
        stale: pattern of the names of older files that are removed if they are not among `files`.
    """
    older = {path.name for path in folder.glob(stale)} - {*files} if stale else set()
    if older or not same(folder, files):
        contents.write(folder, files)
        for name in older:
            (folder / name).unlink(missing_ok=True)


def same(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether the folder's files are whole and have the same numbers as these."""
    recorded = contents.recorded(folder)
    for name, new in files.items():
        try:
            old = (folder / name).read_bytes()
        except OSError:
            return False
        if name in recorded and sha256(old).hexdigest() != recorded[name]:
            return False
        if old != new and not _alike(name, old, new):
            return False
    return True


def _alike(name: str, old: bytes, new: bytes) -> bool:
    essence = ESSENCE.get(name)
    try:
        return essence is not None and essence(old) == essence(new)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
        return False  # the old one is damaged


def _of_records(content: bytes) -> list[Any]:
    """Of each run what was measured, and by which code."""
    records = [json.loads(line) for line in gzip.decompress(content).splitlines()]
    for record in records:
        record["provenance"] = record["provenance"].get("code")
        record["final"].pop(TIME, None)
        record.pop("seconds", None)
    return records


def _of_summary(content: bytes) -> str:
    frame = pd.read_csv(io.BytesIO(content), dtype=str)
    return frame.drop(columns=[TIME, FINAL + TIME, "commit"], errors="ignore").to_csv()


def _of_made(content: bytes) -> Any:
    """Tables, or a ledger: all but where they come from."""
    values = json.loads(content)
    values.pop("made", None)
    return values


def _of_provenance(content: bytes) -> list[Any]:
    values = json.loads(content)
    return [values[key] for key in SAME_RUNS]


ESSENCE: dict[str, Callable[[bytes], Any]] = {
    "records.jsonl.gz": _of_records,
    "runs.csv": _of_summary,
    "table.json": _of_made,
    "claims.json": _of_made,
    "provenance.json": _of_provenance,
}
