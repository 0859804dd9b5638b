"""The experiments of a folder of configs, their scale and the command that makes each."""

import re
from pathlib import Path

from expograph.config import Experiment, load

_COMMAND = re.compile(r"^#(?: Run:)?\s+(make \S.*?)\s*$", re.M)  # in a config's heading


def experiments(folder: Path) -> list[Experiment]:
    """Every experiment of the folder, by file name.

    Raises:
        ConfigError: one line naming a config.
    """
    found = []
    for path in sorted(folder.glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"^\[run\]", text, re.M):
            continue  # published numbers, claims, the cost model's networks
        experiment = load(path)
        command = _COMMAND.search(text)
        paper = any(run.device == "cuda" for run in experiment.runs)
        of = experiment.name.removesuffix("_paper")
        about = {
            "scale": "paper" if paper else "laptop",
            "scale_of": of if of != experiment.name else None,
            "command": command[1] if command else f"make reproduce-table TABLE={of}",
        }
        found.append(experiment.model_copy(update=about))
    return found
