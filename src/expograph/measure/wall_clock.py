"""Trainings on the virtual cluster, by the second: what the ranks of one job do, and its launch.

A job is a piece of the measurement (`analysis.wall_clock.Measured`): steps of several contenders in
interleaved blocks, or one whole training. Ranks compute for a stated time (`Paced`).
"""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from expograph.analysis.wall_clock import METRIC, Measured, RealRun, StepTimes
from expograph.cluster.group import Group
from expograph.cluster.mpi_group import MpiGroup
from expograph.cluster.testbed import Testbed
from expograph.config import Run
from expograph.memory import keep_freed_memory
from expograph.problems import Problem
from expograph.runs.assemble import Assembly, assemble, problem_of
from expograph.runs.train import Record

BLOCK = 8  # steps of a contender in a row
WARM_UP = 1  # blocks of each contender that are not counted
LIMIT = 120  # seconds a rank waits for the others


class Job(BaseModel):
    """What the ranks of one job are to do.

    Attributes:
        runs: label -> run on its engine. All are timed in turns; a single one is trained whole
            where `blocks` is 0.
        compute: seconds that a gradient takes.
        blocks: counted blocks of steps of each run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: dict[str, Run]
    compute: float
    blocks: int = 0


class Paced:
    """A problem whose gradient takes a stated time: it is computed, and what is left is waited.

    Everything but `gradient` is the problem's own.

    Attributes:
        gradients: how many were computed.
        late: how many of them took longer than the stated time.
    """

    def __init__(self, problem: Problem, seconds: float) -> None:
        self._problem, self._seconds = problem, seconds
        self.gradients = self.late = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def gradient(self, x: Tensor, buffers: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The problem's own, no sooner than the stated time after the call."""
        end = time.perf_counter() + self._seconds
        found = self._problem.gradient(x, buffers, k)
        left = end - time.perf_counter()
        self.gradients += 1
        self.late += left < 0
        time.sleep(max(0.0, left))
        return found


def paced(run: Run, group: Group, seconds: float) -> tuple[Assembly, Paced]:
    """A run's parts for this rank, and the problem that keeps the time."""
    assembly = assemble(run, group)
    problem = Paced(assembly.problem, seconds)
    return assembly._replace(problem=problem), problem


def worker(job: Job, out: Path) -> None:
    """One rank of a job; rank 0 writes what was measured as JSON: a list of pieces."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does
    with MpiGroup() as group:
        if job.blocks:
            found: Sequence[BaseModel] = time_steps(group, job)
        else:
            ((label, run),) = job.runs.items()
            found = [train_whole(group, label, run, job.compute)]
        if group.rank == 0:
            out.write_text(json.dumps([one.model_dump() for one in found]), encoding="utf-8")


def time_steps(group: Group, job: Job) -> list[StepTimes]:
    """Training steps of all runs in turns of BLOCK, in random order.

    A block's steps follow each other as in training; before it the ranks meet.
    """
    parts = {
        label: paced(endless(run, job.blocks), group, job.compute)
        for label, run in job.runs.items()
    }
    trainings = {label: _blocks(assembly.records()) for label, (assembly, _) in parts.items()}
    seconds: dict[str, list[float]] = {label: [] for label in trainings}
    shuffled = np.random.default_rng(0)  # the same order on every rank
    for turn in range(WARM_UP + job.blocks):
        for label in shuffled.permutation(list(trainings)).tolist():
            own = next(trainings[label]) / BLOCK
            slowest = float(_gathered(group, own).max())
            if turn >= WARM_UP:
                seconds[label].append(slowest)
    return [
        StepTimes(label=label, seconds=seconds[label], late=_late(group, problem))
        for label, (_, problem) in parts.items()
    ]


def endless(run: Run, blocks: int) -> Run:
    """The run with a record after each block, no evaluation, and more steps than are timed."""
    constant = {"decay": "constant", "decay_steps": [], "decay_factor": 0.1, "warmup_steps": 0}
    steps = BLOCK * (WARM_UP + blocks) + 1
    changes = {**constant, "steps": steps, "record_every": BLOCK, "evaluate_every": None}
    return Run.model_validate({**run.model_dump(), **changes})


def _blocks(records: Iterator[Record]) -> Iterator[float]:
    """Seconds of each block of steps on this rank."""
    before = next(records).values["train_seconds"]
    for record in records:
        now = record.values["train_seconds"]
        yield now - before
        before = now


def train_whole(group: Group, label: str, run: Run, compute: float) -> RealRun:
    """One training to its end, with its accuracy and seconds at every evaluation."""
    assembly, problem = paced(run, group, compute)
    steps, seconds, accuracy = [], [], []
    for record in assembly.records():
        group.doing("step", record.step)
        if not (record.step and _evaluated(run, record.step)):
            continue
        steps.append(record.step)
        seconds.append(float(_gathered(group, record.values["train_seconds"]).max()))
        accuracy.append(record.values.get(METRIC, 0.0))  # rank 0 has it, and writes
    return RealRun(
        label=label,
        seed=run.seed,
        steps=steps,
        seconds=seconds,
        accuracy=accuracy,
        late=_late(group, problem),
    )


def _evaluated(run: Run, step: int) -> bool:
    every = run.evaluate_every
    return step == run.steps or bool(every and step % every == 0)


def _gathered(group: Group, value: float) -> Tensor:
    return group.gather(torch.tensor([value], dtype=torch.float64), "the times of a block")


def _late(group: Group, problem: Paced) -> float:
    """Share of all ranks' gradients that took longer than stated."""
    return float(_gathered(group, problem.late / max(1, problem.gradients)).mean())


# ---- outside the job ----


def parameters_of(run: Run) -> int:
    """How many the run's network has."""
    return len(problem_of(run, [0]).initial()[0])


def launch(hosts: int, rate: str, job: Job, command: Sequence[str]) -> list[dict[str, Any]] | None:
    """Run a job on a virtual cluster; what it measured, None if it failed (and said why).

    Args:
        command: of a rank, which gets the file of the job and the file for `worker`.
    Raises:
        Unavailable: if this machine cannot carry a virtual cluster.
    """
    with Testbed(hosts, rate) as testbed:
        orders, out = testbed.folder / "job.json", testbed.folder / "measured.json"
        orders.write_text(job.model_dump_json(), encoding="utf-8")
        done: subprocess.CompletedProcess = testbed.run(
            [*command, str(orders), str(out)], environment={"EXPOGRAPH_TIMEOUT": str(LIMIT)}
        )
        if done.returncode:
            return None
        return json.loads(out.read_text(encoding="utf-8"))


def with_pieces(measured: Measured, pieces: Sequence[Mapping[str, Any]]) -> Measured:
    """What was measured and one more job's."""
    steps = [StepTimes.model_validate(p) for p in pieces if "steps" not in p]
    real = [RealRun.model_validate(p) for p in pieces if "steps" in p]
    return measured.model_copy(
        update={"steps": [*measured.steps, *steps], "real": [*measured.real, *real]}
    )
