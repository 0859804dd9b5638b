"""The folder under the results that an experiment's tables go to, and whose it is.

results/<name>/                       the config as it is
results/<name>_<engine>/              on another engine
results/custom/<name>/<override>/     a variation, made by `key=value` words; git ignores these

`--tables` puts such folders into another one than the results: what `make reproduce-table` makes
goes to results/mine/, and the committed tables stay.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from expograph.config import ConfigError, Experiment

CUSTOM = "custom"
LONGEST = 80  # letters of a variation's folder


def name_of_results(experiment: Experiment, overrides: Sequence[str]) -> str:
    """The folder, relative to the results, of an experiment, its engine and its variation."""
    words = [word.removeprefix("run.") for word in overrides]
    if any(not word.startswith("engine=") for word in words):
        return f"{CUSTOM}/{experiment.name}/{variation(words)}"
    engines = {run.engine for run in experiment.runs} - {"embedded"}
    return "_".join([experiment.name, *sorted(engines)])


def variation(words: Sequence[str]) -> str:
    """A folder's name for `key=value` words: the words, in any order, as far as a name holds them.

    What a name cannot hold, or not at this length, is told apart by a hash.
    """
    by_key = {word.partition("=")[0].strip(): word.partition("=")[2].strip() for word in words}
    text = ",".join(f"{key}={value}" for key, value in sorted(by_key.items()))
    bare = re.sub(r"[\[\]\"' ]", "", text)
    plain = re.sub(r"[^\w.,=+()-]", "_", bare, flags=re.ASCII)
    if plain == bare and len(plain) <= LONGEST:
        return plain
    return f"{plain[:LONGEST]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def check_names(experiments: Sequence[Experiment], overrides: Sequence[str], root: Path) -> None:
    """That no experiment's tables would replace another's.

    Args:
        experiments, overrides: as of `name_of_results`.
        root: the folder that tables go to.
    Raises:
        ConfigError: in one line, if two have one name, or the folder is another config's.
    """
    counts = Counter(experiment.name for experiment in experiments)
    for experiment in experiments:
        if counts[experiment.name] > 1:
            paths = [str(e.path) for e in experiments if e.name == experiment.name]
            raise ConfigError(
                f"{paths[1]}: name: {experiment.name!r} is that of {paths[0]} too; give it another"
            )
        folder = root / name_of_results(experiment, overrides)
        owner = _config_of(folder)
        if owner is not None and not is_same(owner, experiment.path):
            raise ConfigError(
                f"{experiment.path}: name: {folder} belongs to {owner}; take another name"
            )


def _config_of(folder: Path) -> Path | None:
    """The config that a folder of the results was made from, if it is known."""
    try:
        content = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        return Path(content["config"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_same(recorded: Path, path: Path) -> bool:
    """Whether a config is the recorded one, which may have been named from another folder."""
    if recorded.resolve() == path.resolve():
        return True
    if recorded.is_absolute():  # where that has moved, the name is what is left
        return not recorded.exists() and recorded.name == path.name
    return path.resolve().parts[-len(recorded.parts) :] == recorded.parts
