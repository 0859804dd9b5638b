"""What a command line asks for beside its runs, and the runs done on this machine."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from expograph.cluster.launch import launched
from expograph.config import ConfigError, Run
from expograph.config.facts import ENGINES
from expograph.runs.estimate import cost, is_known
from expograph.runs.outcome import Outcome
from expograph.runs.pool import sweep
from expograph.runs.progress import SweepProgress
from expograph.runs.resuming import USUALLY, Saving, describe
from expograph.runs.selection import USUAL, Policy, check_machine, plan
from expograph.runs.threads import processes


@dataclass(frozen=True)
class Order:
    """What a command line asks for beside the runs.

    Attributes:
        root: the results.
        configs: paths of the configs, for the board.
        jobs: processes; None for one a core.
        policy: what counts as finished.
        tensorboard: whether to write event files.
        saving: how often runs are saved in the middle, and from where they may go on.
    """

    root: Path
    configs: Sequence[str] = ()
    jobs: int | None = None
    policy: Policy = USUAL
    tensorboard: bool = False
    saving: Saving = USUALLY


def for_this_job(runs: list[Run], console: Console) -> list[Run]:
    """The runs that this process, or the job it is a rank of, can do.

    Raises:
        ConfigError: if there are none, with the command that would do them.
    """
    ranks = launched()
    kinds = {ENGINES[run.engine].ranks for run in runs}
    if len(kinds) > 1:
        names = ", ".join(sorted({run.engine for run in runs}))
        raise ConfigError(f"engine: {names} cannot share one command")
    if kinds == {"one"}:
        if ranks and ranks > 1:
            raise ConfigError(
                f"engine: {ranks} ranks were launched for the embedded engine, which is one "
                "process; add engine=bluefog (or mpi, torch, horovod), or launch it alone"
            )
        return runs
    fitting = [run for run in runs if run.ranks == (ranks or 1)]
    others = Counter(run.ranks for run in runs if run.ranks != (ranks or 1))
    if not fitting:
        n, engine = min(others), runs[0].engine
        mpi = ENGINES[engine].ranks == "mpi"
        by = f"bfrun -np {n} python" if mpi else f"torchrun --nproc-per-node {n}"
        here = f"this job has {ranks}" if ranks else "this process was launched alone"
        raise ConfigError(
            f"nodes: engine {engine} needs nodes x local_size ranks, {here}: "
            f"{by} scripts/train.py ... engine={engine}"
        )
    if others:
        counts = ", ".join(f"{count} of {n}" for n, count in sorted(others.items()))
        console.print(f"left to jobs with another number of ranks: {counts}")
    return fitting


def run_here(runs: list[Run], order: Order, console: Console) -> Outcome:
    """The embedded engine: a pool of processes on this machine."""
    found = plan(runs, order.root, order.policy)
    check_machine(found.todo)
    for line in (*found.describe(), *describe(found.todo, order.root, order.policy)):
        console.print(line)
    if found.todo:
        number = min(processes(len(runs), order.jobs)[0], len(found.todo))
        minutes = sum(map(cost, found.todo)) / number / 60
        about = f"{minutes:.0f} minutes" if minutes > 1.5 else f"{max(1, 60 * minutes):.0f} seconds"
        estimate = f", about {about} on {number} cores of a usual machine"
        known = all(map(is_known, found.todo))
        console.print(f"{len(found.todo)} of {len(runs)} runs to do{estimate if known else ''}")
    with SweepProgress(runs, console, order.root, order.configs) as progress:
        for run in (*found.reused, *found.recorded):
            progress.reuse(run)
        how = order.jobs, order.policy, progress, order.tensorboard, found, order.saving
        return sweep(runs, order.root, *how)
