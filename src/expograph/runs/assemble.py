"""From a run of a config to what trains it."""

from collections.abc import Iterator
from typing import NamedTuple

from expograph import engines, problems
from expograph.cluster.job import Job
from expograph.config import Run
from expograph.engines import Engine
from expograph.graphs.topology import build
from expograph.problems import Problem
from expograph.runs.train import Record, train


class Assembly(NamedTuple):
    """The parts of a run, built for the ranks of this process."""

    run: Run
    problem: Problem
    engine: Engine

    def records(self) -> Iterator[Record]:
        """Train, and yield what `train` yields."""
        return train(self.run, self.problem, self.engine)


def assemble(run: Run, group: Job | None = None) -> Assembly:
    """Build what a run names; every engine but embedded needs the group of ranks."""
    engine = engines.build(
        run.engine, build(run.topology, run.nodes, run.seed, run.local_size), group
    )
    return Assembly(run, problems.build(run, engine.ranks), engine)
