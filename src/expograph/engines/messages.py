"""The engines mpi and torch: plain neighbour messages and all-reduces of the group of ranks.

One rule for both: `cluster.mpi_group` and `cluster.torch_group` say how a message travels.
"""

import torch
from torch import Tensor

from expograph.cluster.group import Group
from expograph.engines.ranked import Part, Ranked, Wait
from expograph.graphs.topology import Topology

Kind = tuple[tuple[int, ...], torch.dtype, torch.device]  # of a buffer: shape, type, where it lies


class Messages(Ranked):
    """A step is one message to each destination and one from each source, or an all-reduce.

    Messages start at once. MPI moves large ones only while a rank waits, so that they do not
    overlap with the gradient as gloo's, NCCL's and BlueFog's do.

    Attributes:
        on_wire: the type in which messages travel; None for the models' own. What a rank keeps of
            its own row, and exact averages, are never rounded.
    """

    on_wire: torch.dtype | None = None

    def __init__(self, schedule: Topology, group: Group) -> None:
        self.reads_gpu = group.reads_gpu
        super().__init__(schedule, group)
        self._inbox: dict[Kind, list[Tensor]] = {}

    def _bytes(self, part: Part, wire: Tensor) -> int:
        if self.on_wire is None or part.exact:
            return wire.nbytes
        return len(wire) * self.on_wire.itemsize

    def _average(self, part: Part, wire: Tensor, what: str) -> Wait:
        if part.exact and self.n > 2:  # two ranks exchange their rows and are done
            requests = self.group.start_sum(wire)

            def reduced() -> Tensor:
                self.group.finish(requests, what)
                return wire.div_(self.n)

            return reduced

        wait = self._exchange(part, wire.to(self.on_wire) if self.on_wire else wire, what)

        def combined() -> Tensor:
            inbox = wait()
            mixed = wire * part.self_weight
            for row, weight in zip(inbox, part.sources.values(), strict=True):
                mixed.add_(row, alpha=weight)
            self._inbox[_kind(inbox)].append(inbox)
            return mixed

        return combined

    def _exchange(self, part: Part, wire: Tensor, what: str) -> Wait:
        inbox = self._taken(len(part.sources), wire)
        requests = self.group.start_messages(wire, part.destinations, inbox, list(part.sources))

        def received() -> Tensor:
            self.group.finish(requests, what)
            return inbox

        return received

    def _taken(self, count: int, like: Tensor) -> Tensor:
        """A (count, d) buffer for what is received, one that is free or a new one."""
        wanted = (count, len(like)), like.dtype, like.device
        free = self._inbox.setdefault(wanted, [])
        return free.pop() if free else torch.empty(wanted[0], dtype=like.dtype, device=like.device)


def _kind(inbox: Tensor) -> Kind:
    return tuple(inbox.shape), inbox.dtype, inbox.device
