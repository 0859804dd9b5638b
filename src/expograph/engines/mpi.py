"""The mpi engine: plain neighbour messages and all-reduces by mpi4py, on any MPI.

A request does not keep its buffer alive: whoever waits for it must, here the inner functions.
"""

import torch
from mpi4py.MPI import IN_PLACE
from torch import Tensor

from expograph.cluster.mpi_group import MpiGroup
from expograph.engines.ranked import Part, Ranked, Wait
from expograph.graphs.topology import Topology


class Messages(Ranked):
    """A step is one Isend to each destination and one Irecv from each source, or an Iallreduce.

    Messages start at once; MPI moves large ones only while a rank waits, so that they do not
    overlap with the gradient as BlueFog's do.
    """

    def __init__(self, schedule: Topology, group: MpiGroup) -> None:
        super().__init__(schedule, group)
        self._inbox: dict[tuple, Tensor] = {}

    def _average(self, part: Part, wire: Tensor, what: str) -> Wait:
        comm = self.group.comm
        if part.exact and self.n > 2:  # two ranks exchange their rows and are done
            request = comm.Iallreduce(IN_PLACE, wire.numpy())

            def reduced() -> Tensor:
                self.group.wait(request.Test, what)
                return wire.div_(self.n)

            return reduced

        inbox = self._received(len(part.sources), wire)
        requests = [
            comm.Irecv(row.numpy(), source) for row, source in zip(inbox, part.sources, strict=True)
        ]
        requests += [comm.Isend(wire.numpy(), rank) for rank in part.destinations]

        def combined() -> Tensor:
            for request in requests:
                self.group.wait(request.Test, what)
            mixed = wire * part.self_weight
            for row, weight in zip(inbox, part.sources.values(), strict=True):
                mixed.add_(row, alpha=weight)
            return mixed

        return combined

    def _received(self, count: int, like: Tensor) -> Tensor:
        """A (count, d) buffer for what is received, used again from step to step."""
        key = (count, len(like), like.dtype)
        if key not in self._inbox:
            self._inbox[key] = torch.empty((count, len(like)), dtype=like.dtype)
        return self._inbox[key]
