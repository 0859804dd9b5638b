"""From a run of a config to what `train` takes."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from expograph import algorithms, engines, problems
from expograph.algorithms import Algorithm
from expograph.cluster.group import Group
from expograph.config import Run
from expograph.engines import Engine
from expograph.graphs import topology
from expograph.graphs.topology import Topology
from expograph.problems import Problem
from expograph.runs.train import AfterStep, Position, Record, train
from expograph.step_size import StepSize


class Assembly(NamedTuple):
    """The parts of a run, built for the ranks of this process; `arguments` are `train`'s others."""

    problem: Problem
    algorithm: Algorithm
    schedule: Topology
    engine: Engine
    arguments: dict[str, Any]

    def records(
        self, start: Position | None = None, after_step: AfterStep | None = None
    ) -> Iterator[Record]:
        """Train, and yield what `train` yields."""
        parts = self.problem, self.algorithm, self.schedule, self.engine
        return train(*parts, start=start, after_step=after_step, **self.arguments)


def assemble(run: Run, group: Group | None = None) -> Assembly:
    """Build what a run names; every engine but embedded needs the group of ranks.

    Raises:
        JobError: if the engine's library cannot be loaded, or the group has not n ranks.
        ScheduleError: if the ranks do not agree on who sends to whom.
        DataUnavailable, ValueError: if the data set cannot be had or divided over the workers.
    """
    schedule = topology.build(run.topology, run.nodes, run.seed, run.local_size)
    engine = engines.build(run.engine, schedule, group)
    return Assembly(
        problem=problem_of(run, engine.ranks),
        algorithm=algorithms.build(run.algorithm, run.seed),
        schedule=schedule,
        engine=engine,
        arguments={
            "steps": run.steps,
            "step_size": step_size_of(run),
            "beta": run.beta,
            "record_every": run.record_every,
            "evaluate_every": run.evaluate_every,
        },
    )


def records_of(run: Run, group: Group | None = None) -> Iterator[Record]:
    """Do a run: its records, as `train` yields them."""
    return assemble(run, group).records()


def problem_of(run: Run, ranks: Sequence[int]) -> Problem:
    """A run's problem, built for some of its ranks."""
    return problems.build(run.problem, run.ranks, ranks, run.seed, run.device)


def step_size_of(run: Run) -> StepSize:
    """A run's step sizes: `lr_scale` multiplies lr by n, sqrt(n) or the number of ranks."""
    factors = {
        "none": 1,
        "nodes": run.nodes,
        "ranks": run.ranks,
        "sqrt_nodes": math.sqrt(run.nodes),
    }
    return StepSize(
        lr=run.lr * factors[run.lr_scale],
        steps=run.steps,
        warmup_steps=run.warmup_steps,
        decay=run.decay,
        decay_steps=tuple(run.decay_steps),
        decay_factor=run.decay_factor,
    )
