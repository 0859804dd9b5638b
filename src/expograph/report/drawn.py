"""Which figures lie there as they would be drawn now: nothing heavy is imported to know it.

results/figures/.drawn.json notes of each figure a digest of what it was drawn from (its data, all
code of this package, the versions of the libraries) and one of its files. Git ignores it.
"""

import importlib.metadata
import json
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path

from expograph.files import replace_text

FILE = ".drawn.json"
FORMATS = ("pdf", "png", "svg")
LIBRARIES = ("matplotlib", "numpy", "pandas", "scipy", "torch")
PACKAGE = Path(__file__).parents[1]


def is_current(folder: Path, name: str, inputs: Iterable[Path]) -> bool:
    """Whether drawing the figure again from the inputs would give the files that are there."""
    return _notes(folder).get(name) == _state(folder, name, inputs)


def note(folder: Path, name: str, inputs: Iterable[Path]) -> None:
    """Note that the figure has just been drawn from the inputs."""
    notes = _notes(folder) | {name: _state(folder, name, inputs)}
    replace_text(folder / FILE, json.dumps(notes, indent=1) + "\n")


def _notes(folder: Path) -> dict[str, list[str]]:
    try:
        return dict(json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _state(folder: Path, name: str, inputs: Iterable[Path]) -> list[str]:
    outputs = (folder / f"{name}.{kind}" for kind in FORMATS)
    return [_digest([*_code(), *inputs]) + _versions(), _digest(outputs)]


@cache
def _code() -> tuple[Path, ...]:
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def _versions() -> str:
    return "".join(f" {name} {importlib.metadata.version(name)}" for name in LIBRARIES)


def _digest(paths: Iterable[Path]) -> str:
    """Of the files' contents; what is not there counts as empty."""
    found = sha256()
    for path in paths:
        found.update(sha256(path.read_bytes() if path.is_file() else b"").digest())
    return found.hexdigest()[:16]
