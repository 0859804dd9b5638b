"""Which TOML files of a folder are experiments, and in what order they are shown: decided here."""

from pathlib import Path

from expograph.config.errors import ConfigError
from expograph.config.expand import load
from expograph.config.schema import Experiment
from expograph.config.toml import read_toml

KINDS = ("experiment", "claims", "cost_model", "published")  # what a TOML file's `kind` may say


def experiments(folder: Path | str) -> list[Experiment]:
    """Every experiment of a folder of configs: tables first, laptop before paper scale.

    A file is an experiment unless its key `kind` says otherwise.

    Raises:
        ConfigError: if there is no such folder, or one line naming the file that is wrong.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of configs; run this in the repository")
    found = [load(path) for path in paths(folder)]
    return sorted(found, key=lambda e: (not e.group.startswith("table"), e.group, e.scale))


def paths(folder: Path) -> list[Path]:
    """The files of a folder that are experiments, sorted by name.

    Raises:
        ConfigError: if a file cannot be read, or its `kind` is none of `KINDS`.
    """
    found = []
    for path in sorted(folder.glob("*.toml")):
        kind = read_toml(path).get("kind", "experiment")
        if kind not in KINDS:
            raise ConfigError(f"{path}: kind: expected one of {', '.join(KINDS)}, got {kind!r}")
        if kind == "experiment":
            found.append(path)
    return found
