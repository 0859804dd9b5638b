"""The bluefog engine: a step is one neighbor_allreduce of BlueFog, or one of its all-reduces.

BlueFog's blocking calls hold the interpreter while they wait, and its background thread needs it
to finish: they hang within a few calls. So every call here is non-blocking, polled and then
synchronised, which returns at once.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from expograph.cluster.launch import JobError
from expograph.cluster.mpi_group import MpiGroup
from expograph.engines.ranked import Part, Ranked, Wait
from expograph.graphs.topology import Topology

IN_FLIGHT = 1024  # calls at most, and names that BlueFog gets to know


class BlueFog(Ranked):
    """Each rank hands BlueFog its part of the schedule: self_weight, src_weights, dst_weights.

    BlueFog's own check of the schedule at every call stays off: `check_schedule` has made it.

    Servers of several ranks: BlueFog 0.3.0's hierarchical_neighbor_allreduce cannot be called (its
    Python side still passes the arguments of an older C++ side: TypeError), so its stages are done
    one by one: all-reduce inside the server, neighbor_allreduce between the leaders, result back.
    Inside a server BlueFog's machine-local all-reduce serves where every host is one server, and
    MPI where it is not, through the host's memory.
    """

    def __init__(self, schedule: Topology, group: MpiGroup) -> None:
        self.bf = _bluefog(group)
        place = [self.bf.local_size(), self.bf.local_rank()]
        size, places = schedule.local_size, group.exchange(place, "BlueFog's machines")
        machines = places == [[size, rank % size] for rank in range(group.size)]
        self._on_hosts = size == 1 or machines  # every server is a host
        # NCCL refuses two ranks on one GPU
        fits = self._on_hosts and group.local_size <= torch.cuda.device_count()
        self.reads_gpu = self.bf.nccl_built() and fits
        super().__init__(schedule, group)

    def _average(self, part: Part, wire: Tensor, what: str) -> Wait:
        if part.exact and self.n > 2:  # two ranks exchange their rows and are done
            handle = self.bf.allreduce_nonblocking(wire, average=True, name=self._name("mean"))
        else:
            handle = self.bf.neighbor_allreduce_nonblocking(
                wire,
                self_weight=part.self_weight,
                src_weights=part.sources,
                dst_weights=part.destinations,
                enable_topo_check=False,
                name=self._name("mix"),
            )
        return self._awaited(handle, what)

    def _exchange(self, part: Part, wire: Tensor, what: str) -> Wait:
        handle = self.bf.neighbor_allgather_nonblocking(
            wire.cpu(),
            src_ranks=list(part.sources),
            dst_ranks=part.destinations,
            enable_topo_check=False,
            name="exchange",
        )
        gathered = self._awaited(handle, what)
        return lambda: gathered().view(len(part.sources), len(wire))

    def _server_mean(self, wire: Tensor, what: str) -> Wait:
        if not self._on_hosts:
            return super()._server_mean(wire, what)
        handle = self.bf.allreduce_nonblocking(
            wire, average=True, is_hierarchical_local=True, name=self._name("server")
        )
        return self._awaited(handle, what)

    def _from_leader(self, wire: Tensor, what: str) -> Wait:
        if not self._on_hosts:
            return super()._from_leader(wire, what)
        # BlueFog's broadcast is over all ranks: a machine's is a sum with zeros
        handle = self.bf.allreduce_nonblocking(
            wire if self.leads else wire.zero_(),
            average=False,
            is_hierarchical_local=True,
            name=self._name("leader"),
        )
        return self._awaited(handle, what)

    def _name(self, kind: str) -> str:
        """A name that no other call on its way has, the same on all ranks that make it."""
        _calls[kind] = (_calls[kind] + 1) % IN_FLIGHT
        return f"{kind}.{_calls[kind]}"

    def _awaited(self, handle: int, what: str) -> Wait:
        def finished() -> Tensor:
            self.group.wait(lambda: self.bf.poll(handle), what)
            averaged: Tensor = self.bf.synchronize(handle)
            return averaged

        return finished


def _bluefog(group: MpiGroup) -> Any:
    """BlueFog's torch module, initialised once a process."""
    try:
        import bluefog.torch as bf
    except (ImportError, OSError) as e:
        cause = str(e).splitlines()[-1]
        raise JobError(f"BlueFog does not load ({cause}): `make cluster-env`") from None
    if not _started:
        with group.waiting("BlueFog's start-up"):
            bf.init()
        # the ranks call in the same order, so that BlueFog's rank 0 need not ask before each call
        group.exchange(None, "BlueFog's start-up")
        bf.set_skip_negotiate_stage(True)
        group.exchange(None, "BlueFog's start-up")
        _started.append(True)
    return bf


_started: list[bool] = []
_calls: Counter[str] = Counter()  # of all engines of this process
