"""Every laptop run of every config, cut to a few steps: does all still run?"""

from pathlib import Path

from expograph.config import Run, load

STEPS = 3
OTHERS = ("claims", "cost_model", "published")  # configs that are no experiments


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
    for path in sorted(p for p in configs.glob("*.toml") if p.stem not in OTHERS):
        for run in load(path).runs:
            if run.seed == 0 and run.engine == "embedded":
                short = shortened(run)
                runs[short.key] = short
    return list(runs.values())
