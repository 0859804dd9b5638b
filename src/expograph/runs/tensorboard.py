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
from expograph.runs import results

FOLDER = "tensorboard"  # under the results


def folder(run: Run, root: Path) -> Path:
    """The folder of a run's event files."""
    problem = getattr(run.problem, "model", run.problem.kind)
    words = (run.algorithm, run.topology, f"{run.nodes}_nodes", problem, f"seed_{run.seed}")
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


def replay(run: Run, root: Path) -> None:
    """Write the event files of a finished run, unless they are there."""
    target = folder(run, root)
    if target.exists():
        return
    temporary = target.with_name(f".{target.name}.tmp")
    with Events(run, temporary) as events:
        for row in results.curve(run, root).to_dict("records"):
            events(int(row.pop("step")), row)
    temporary.rename(target)  # whole or not at all
