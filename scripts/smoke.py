"""Every laptop run of every config for 3 steps, in a temporary folder: does all still run?"""

import sys
import tempfile
from pathlib import Path

from expograph.config import Run, experiments
from expograph.runs.sweep import sweep


def shortened(run: Run) -> Run:
    """The run with 3 steps; what counts steps is cut to fit."""
    changes = {"steps": 3, "warmup_steps": min(run.warmup_steps, 2), "evaluate_every": None}
    if hasattr(run.problem, "dataset"):  # 8 of 32 nodes use the same code, and less time
        changes["nodes"] = min(run.nodes, 8)
    return Run.model_validate({**run.model_dump(), **changes})


def main() -> int:
    runs: dict[str, Run] = {}
    for experiment in experiments("configs"):
        for run in experiment.runs:
            if run.seed == 0 and run.engine == "embedded":  # the others: `make dry-run`
                short = shortened(run)
                runs[short.key] = short
    with tempfile.TemporaryDirectory() as folder:
        outcome = sweep(list(runs.values()), Path(folder))
    print(f"smoke: {outcome.describe()}")
    for run, cause in outcome.failed:
        print(f"failed: {run.label}: {cause}", file=sys.stderr)
    return 1 if outcome.failed or outcome.diverged else 0


if __name__ == "__main__":
    sys.exit(main())
