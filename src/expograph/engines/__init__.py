"""Engines: where the workers live and how their rows are averaged. One file an engine.

embedded   all n workers in this process, vectorised; the default
bluefog    one worker an MPI rank, BlueFog's neighbor_allreduce
mpi        one worker an MPI rank, plain messages by mpi4py, where BlueFog can't be built
horovod    one worker an MPI rank, Horovod's allreduce; parallel SGD only
"""

from typing import Protocol

from torch import Tensor

from expograph.algorithms import Mix
from expograph.cluster.job import Job
from expograph.graphs.topology import Topology

ENGINES = ("embedded", "bluefog", "mpi", "horovod")


class Engine(Protocol):
    """What `train` asks of an engine; R is the number of ranks whose rows this process holds.

    Attributes:
        topology: the schedule that it averages by.
        n: number of workers.
        ranks: the workers whose rows this process holds.
        root: whether this process measures, prints and writes.
        sent: (R,) int64, bytes each of these ranks has sent so far, averaging only.
        agree_every: after how many steps the ranks at the latest tell each other of a failure.
        transport: how rows travel, in words, for the run's record.
    """

    topology: Topology
    n: int
    ranks: range
    root: bool
    sent: Tensor
    agree_every: int
    transport: str

    def mixer(self, k: int) -> Mix:
        """The `mix` of step k: arrays of shape (R, ...) -> their rows of W(k) x, in new memory."""

    def mean(self, x: Tensor) -> Tensor:
        """(R, d) -> (d,), the average over all n workers. For metrics, never counted as sent."""

    def gather(self, x: Tensor) -> Tensor:
        """(R, ...) -> (n, ...), every worker's row. For metrics, never counted as sent."""

    def broadcast(self, x: Tensor) -> Tensor:
        """Rank 0's x, on every rank."""


def build(name: str, topology: Topology, job: Job | None = None) -> Engine:
    """The engine called `name` for a topology; every engine but embedded needs the job.

    Raises:
        JobError: if the engine's library cannot be loaded, or the job has not n ranks.
        ScheduleError: if the ranks do not agree on who sends to whom.
    """
    if name == "embedded":
        from expograph.engines.embedded import Embedded

        return Embedded(topology)
    # imported when asked for: each needs libraries that only the cluster environment has
    if name == "bluefog":
        from expograph.engines.bluefog import BlueFog as chosen
    elif name == "horovod":
        from expograph.engines.horovod import Horovod as chosen
    else:
        from expograph.engines.mpi import Messages as chosen
    return chosen(topology, job)
