"""Stale runs, made by other code than what is here, and the code that was shown to be equivalent.

    results/equivalent.json

has one entry a check of `expograph equivalent check`: the fingerprints it found to give equal
numbers, and the check's output. Equivalence is transitive: what equals an equal counts.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from expograph.config import Run
from expograph.files import DamagedFile, replace_text
from expograph.runs.fingerprint import fingerprint
from expograph.runs.records import RunRecord
from expograph.runs.store import ROOT, Finished
from expograph.validation import read_json

FILE = "equivalent.json"


class Check(BaseModel):
    """One check that passed.

    Attributes:
        pairs: [older fingerprint, newer fingerprint], one a kind of run.
        made: when, and by what versions on what machine.
        output: what the check printed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pairs: list[tuple[str, str]]
    made: dict[str, Any]
    output: list[str]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    checks: list[Check] = []


def read(root: Path = ROOT) -> list[Check]:
    """The checks that passed, as committed.

    Raises:
        DamagedFile: one line naming the file, if it is damaged.
    """
    found = read_json(root / FILE, _File, DamagedFile)
    return found.checks if found else []


def enter(check: Check, root: Path = ROOT) -> None:
    """Add a check that passed to the list."""
    content = _File(checks=[*read(root), check]).model_dump(mode="json")
    root.mkdir(parents=True, exist_ok=True)
    replace_text(root / FILE, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def classes(checks: Iterable[Check]) -> dict[str, str]:
    """Fingerprint -> one that stands for all that are equivalent to it."""
    standing: dict[str, str] = {}
    for a, b in (pair for check in checks for pair in check.pairs):
        old, new = standing.setdefault(a, a), standing.setdefault(b, b)
        standing = {code: new if of == old else of for code, of in standing.items()}
    return standing


class Codes:
    """What is stale, by the list of equivalent code under `root` as it is now."""

    def __init__(self, root: Path = ROOT) -> None:
        self.standing = classes(read(root))

    def is_stale(self, run: Run, provenance: Mapping[str, Any]) -> bool:
        """Whether the code that made the run is neither the present one nor equivalent to it."""
        code, now = str(provenance.get("code")), fingerprint(run)
        return self.standing.get(code, code) != self.standing.get(now, now)


def stale(
    runs: Iterable[Run], found: Mapping[str, RunRecord | Finished], root: Path = ROOT
) -> list[Run]:
    """Those of the runs whose records were made by other code.

    Args:
        runs: all of them.
        found: the records by key, of `results.find` or `store.load`.
        root: the results, whose list of equivalent code counts.
    """
    codes = Codes(root)
    return [r for r in runs if r.key in found and codes.is_stale(r, found[r.key].provenance)]
