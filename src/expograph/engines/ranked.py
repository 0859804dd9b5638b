"""What the engines with one worker a rank share: schedule, packing, servers, metrics.

A subclass gives `_average`, which starts one averaging of a flat buffer, and `_exchange`, which
starts sending one to the out-neighbors and receiving the in-neighbors'.
"""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from expograph.algorithms.base import Decode, Mix, Mixed
from expograph.cluster.group import Group
from expograph.cluster.launch import JobError
from expograph.graphs.checks import CHECKED_STEPS, ScheduleError
from expograph.graphs.mixing import Mixing, bytes_sent
from expograph.graphs.topology import Topology, exact_average

Wait = Callable[[], Tensor]


class Part(NamedTuple):
    """A rank's part in one step: x <- self_weight x + sum over sources of weight x_source.

    Where servers have several ranks, x is the server's mean and the leaders' parts are W between
    the servers; the other ranks have none (self_weight 1, no neighbors) and get the leader's x.

    Attributes:
        exact: the step is W = J, one all-reduce of all ranks.
        self_weight: W[rank, rank].
        sources: in-neighbors with their weights.
        destinations: out-neighbors, in order.
        messages: how many messages of the whole buffer this rank sends to other servers,
            fractions allowed.
    """

    exact: bool
    self_weight: float
    sources: dict[int, float]
    destinations: list[int]
    messages: float


class Ranked:
    """The one worker of this rank. See `engines.Engine` for the interface.

    A server is `topology.local_size` ranks in a row, whatever hosts they are on: a job whose
    hosts have another number of ranks gives the same numbers, some of the traffic inside servers
    then goes over the network.
    """

    agree_every = 20
    reads_gpu = False  # whether `_average` takes tensors that live on a GPU

    def __init__(self, schedule: Topology, group: Group) -> None:
        """Check the whole schedule with the other ranks before anything is trained.

        Raises:
            JobError: if the job has not as many ranks as the topology.
            ScheduleError: naming step and ranks.
        """
        n, rank = schedule.n, group.rank
        if n != group.size:
            raise JobError(f"{n} workers need {n} ranks, the job has {group.size}")
        self.topology, self.group = schedule, group
        self.leads = rank % schedule.local_size == 0
        self.n, self.ranks, self.root = n, range(rank, rank + 1), rank == 0
        self._sent = 0
        self.part = lru_cache(maxsize=schedule.period or 4)(self._part)
        self._mix = lru_cache(maxsize=schedule.period or 4)(self._make_mix)
        check_messages(self)

    def mixer(self, k: int) -> Mix:
        self.group.doing("step", k)
        mix = self._mix(k % self.topology.period if self.topology.period else k)
        return mix.numbered(k)

    def _make_mix(self, k: int) -> Mix:
        part = self.part(k)
        return Mix(
            lambda *arrays: self._start(part, arrays),
            lambda *arrays: self._start(self._exact_part, arrays),
            lambda wire, decode: self._start_coded(part, wire, decode),
        )

    def _start(self, part: Part, arrays: tuple[Tensor, ...]) -> Callable[[], Mixed]:
        wait = self.start(part, _pack(arrays))
        return lambda: _unpack(wait(), arrays)

    def _start_coded(self, part: Part, wire: Tensor, decode: Decode) -> Wait:
        self._sent += int(bytes_sent(len(part.destinations), wire.nbytes))
        own = part.self_weight * decode(wire)
        if self.n == 1:
            return lambda: own
        row = wire[0] if self.reads_gpu else wire[0].cpu()
        wait = self._exchange(part, row, "the exchange of coded messages")

        def decoded() -> Tensor:
            received = decode(wait().to(wire.device))
            return own + received.new_tensor([*part.sources.values()]) @ received

        return decoded

    def start(self, part: Part, wire: Tensor) -> Wait:
        """Start averaging the flat `wire`, which is given up: the result may be in its memory."""
        self._sent += int(bytes_sent(part.messages, self._bytes(part, wire)))
        if self.n == 1:
            return lambda: wire
        flat = part.exact or self.topology.local_size == 1
        average = self._average if flat else self._average_servers
        if wire.is_cuda and not self.reads_gpu:
            wait = average(part, wire.cpu(), "the averaging")
            return lambda: wait().to(wire.device)
        return average(part, wire, "the averaging")

    def _bytes(self, part: Part, wire: Tensor) -> int:
        """Bytes of one message."""
        return wire.nbytes

    @property
    def sent(self) -> Tensor:
        return torch.tensor([self._sent])

    @property
    def transport(self) -> str:
        return "GPU memory" if self.reads_gpu else "host memory"

    def mean(self, x: Tensor) -> Tensor:
        return self.group.mean(x[0], "a metric")

    def gather(self, x: Tensor) -> Tensor:
        return self.group.gather(x, "a metric")

    def least(self, number: int) -> int:
        return int(self.gather(torch.tensor([number])).min())

    def broadcast(self, x: Tensor) -> Tensor:
        return self.group.broadcast(x, "the initial model")

    def _average(self, part: Part, wire: Tensor, what: str) -> Wait:
        """Start averaging the flat `wire`; the result may be in its memory."""
        raise NotImplementedError

    def _exchange(self, part: Part, wire: Tensor, what: str) -> Wait:
        """Start sending the flat `wire` to the destinations; its wait gives the sources' rows."""
        raise NotImplementedError

    def _average_servers(self, part: Part, wire: Tensor, what: str) -> Wait:
        """Start averaging inside the server; who waits goes on between the leaders and back."""
        inside = self._server_mean(wire, what)

        def averaged() -> Tensor:
            mean = inside()
            if self.leads:
                mean = self._average(part, mean, what)()
            return self._from_leader(mean, what)()

        return averaged

    def _server_mean(self, wire: Tensor, what: str) -> Wait:
        """The mean of the flat `wire` over the ranks of this server."""
        server = self.group.subgroup(self.topology.local_size)
        return lambda: server.mean(wire, what)

    def _from_leader(self, wire: Tensor, what: str) -> Wait:
        """The leader's `wire` on every rank of its server."""
        server = self.group.subgroup(self.topology.local_size)
        return lambda: server.broadcast(wire, what)

    def _part(self, k: int) -> Part:
        return self._part_of(self.topology.at(k))

    @cached_property
    def _exact_part(self) -> Part:
        return self._part_of(exact_average(self.n, self.topology.local_size))

    def _part_of(self, step: Mixing) -> Part:
        rank = self.group.rank
        # an exact average is one all-reduce of all ranks, with no stages
        W, size = (step, 1) if step.is_exact_average else (step.between, step.local_size)
        server, local_rank = divmod(rank, size)
        if local_rank:
            return Part(False, 1.0, {}, [], 0.0)
        return Part(
            exact=step.is_exact_average,
            self_weight=W.self_weight(server),
            sources={size * s: w for s, w in W.sources(server).items()},
            destinations=[size * s for s in W.destinations(server)],
            messages=float(step.messages[rank]),
        )


def check_messages(engine: Ranked) -> None:
    """Walk the schedule's period, or the first steps of a random one, all ranks together.

    A rank that waits for one that does not send to it would hang. (`graphs.checks` checks the
    weights.)

    Raises:
        ScheduleError: on every rank, for the first step where it finds something.
    """
    steps = range(engine.topology.period or CHECKED_STEPS)
    own = [(p.exact, list(p.sources), p.destinations) for p in map(engine.part, steps)]
    every = engine.group.exchange(own, "the check of the schedule")
    name = engine.topology.name
    for k in steps:
        for rank, parts in enumerate(every):
            exact, sources, destinations = parts[k]
            if exact != every[0][k][0]:
                raise ScheduleError(
                    f"{name}, step {k}: an all-reduce for one of ranks 0 and {rank}, not the other"
                )
            for source in sources:
                _, _, sent = every[source][k]
                if rank not in sent:
                    raise ScheduleError(
                        f"{name}, step {k}: rank {rank} waits for rank {source}, which sends to "
                        f"{sent or 'nobody'}"
                    )
            for destination in destinations:
                _, awaited, _ = every[destination][k]
                if rank not in awaited:
                    raise ScheduleError(
                        f"{name}, step {k}: rank {rank} sends to rank {destination}, which waits "
                        f"for {awaited or 'nobody'}"
                    )


def _pack(arrays: tuple[Tensor, ...]) -> Tensor:
    """(1, d) arrays as one contiguous vector of our own: what the caller holds stays as it is."""
    if len(arrays) == 1:
        return arrays[0][0].clone()
    return torch.cat([x[0] for x in arrays])


def _unpack(wire: Tensor, arrays: tuple[Tensor, ...]) -> Mixed:
    if len(arrays) == 1:
        return wire.unsqueeze(0)
    pieces = torch.split(wire, [x.shape[1] for x in arrays])
    return tuple(piece.unsqueeze(0) for piece in pieces)
