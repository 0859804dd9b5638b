"""Engines: where the workers live and how their rows are averaged. One file an engine.

embedded   all n workers in this process, vectorised; the default
bluefog    one worker a rank, BlueFog's neighbor_allreduce
mpi        one worker a rank, plain messages by mpi4py, where BlueFog can't be built
torch      one worker a rank, plain messages by torch.distributed: gloo or NCCL, no MPI at all
horovod    one worker a rank, Horovod's allreduce; parallel SGD only
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from expograph.names import known, resolve

if TYPE_CHECKING:
    from torch import Tensor

    from expograph.algorithms import Mix
    from expograph.cluster.group import Group
    from expograph.graphs.topology import Topology

ENGINES = {  # name -> "module:class", imported when it is asked for: each has libraries of its own
    "embedded": "expograph.engines.embedded:Embedded",
    "bluefog": "expograph.engines.bluefog:BlueFog",
    "mpi": "expograph.engines.messages:Messages",
    "torch": "expograph.engines.messages:Messages",
    "horovod": "expograph.engines.horovod:Horovod",
}


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

    @property
    def topology(self) -> "Topology": ...
    @property
    def n(self) -> int: ...
    @property
    def ranks(self) -> range: ...
    @property
    def root(self) -> bool: ...
    @property
    def sent(self) -> "Tensor": ...
    @property
    def agree_every(self) -> int: ...
    @property
    def transport(self) -> str: ...

    def mixer(self, k: int) -> "Mix":
        """The `mix` of message k: its rows of W(k) x, of J x, or of W(k) of decoded bytes."""

    def mean(self, x: "Tensor") -> "Tensor":
        """(R, d) -> (d,), the average over all n workers. For metrics, never counted as sent."""

    def gather(self, x: "Tensor") -> "Tensor":
        """(R, ...) -> (n, ...), every worker's row. For metrics, never counted as sent."""

    def least(self, number: int) -> int:
        """The least of the numbers that the processes have."""

    def broadcast(self, x: "Tensor") -> "Tensor":
        """Rank 0's x, on every rank."""


def build(name: str, schedule: "Topology", group: "Group | None" = None) -> Engine:
    """The engine called `name` for a schedule; every engine but embedded needs the group of ranks.

    Raises:
        ValueError: if there is no such engine.
        JobError: if the engine's library cannot be loaded, or the group has not n ranks.
        ScheduleError: if the ranks do not agree on who sends to whom.
    """
    engine: Callable[..., Engine] = resolve(ENGINES[known("engine", name, ENGINES)])
    return engine(schedule, group)
