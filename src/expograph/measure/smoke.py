"""Every laptop run of every config, cut to a few steps: does all still run?"""

from pathlib import Path

from expograph.config import Run, experiments

STEPS = 3


def shortened(run: Run) -> Run:
    """The run with 3 steps; what counts steps is cut to fit."""
    changes = {
        "steps": STEPS,
        "warmup_steps": min(run.warmup_steps, STEPS - 1),
        "evaluate_every": None,
    }
    if hasattr(run.problem, "dataset"):  # 8 of 32 nodes use the same code, and less time
        changes["nodes"] = min(run.nodes, 8)
    return Run.model_validate({**run.model_dump(), **changes})


def runs_of(configs: Path) -> list[Run]:
    """Of each embedded run of every config in a folder a short one; the others: `make dry-run`."""
    runs: dict[str, Run] = {}
    for experiment in experiments(configs):
        for run in experiment.runs:
            if run.seed == 0 and run.engine == "embedded":
                short = shortened(run)
                runs[short.key] = short
    return list(runs.values())
