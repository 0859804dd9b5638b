"""A run's metrics as TensorBoard event files: written while it trains, or from its finished record.

One folder a run, named so that TensorBoard's filter finds it: algorithm, topology, nodes, problem,
seed, key. Only the engine's root writes.
"""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path

from expograph.config import Run
from expograph.files import replace_text, temporary
from expograph.runs import store

FOLDER = "tensorboard"  # under the results
WHOLE = "whole"  # in a run's folder: the checksum of the finished record that its events are of


def folder(run: Run, root: Path) -> Path:
    """The folder of a run's event files."""
    words = (run.algorithm, run.topology, f"{run.nodes}_nodes", run.trained, f"seed_{run.seed}")
    return root / FOLDER / "-".join([*words, run.key[:8]])


class Events:
    """Context manager; call it with a step and its metrics. An earlier try's files are replaced."""

    def __init__(self, run: Run, path: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter  # a second to import

        shutil.rmtree(path, ignore_errors=True)
        self.writer = SummaryWriter(path)
        self.writer.add_text("config", f"```json\n{json.dumps(run.model_dump(), indent=1)}\n```")

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if not math.isnan(value):
                self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *raised: object) -> None:
        self.writer.close()


def seal(run: Run, root: Path) -> None:
    """Note that a run's event files are those of its finished record, whole."""
    replace_text(folder(run, root) / WHOLE, _checksum(run, root))


def replay(run: Run, root: Path) -> None:
    """Write the event files of a finished run, unless they are there, whole and of this record."""
    target = folder(run, root)
    try:
        if (target / WHOLE).read_text() == _checksum(run, root):
            return
    except OSError:
        pass
    place = temporary(target)
    with Events(run, place) as events:
        for row in store.curve(run, root).to_dict("records"):
            events(int(row.pop("step")), row)
    shutil.rmtree(target, ignore_errors=True)
    place.rename(target)  # whole or not at all
    seal(run, root)


def _checksum(run: Run, root: Path) -> str:
    return store.sha256((store.folder(run, root) / "metrics.csv").read_bytes())
