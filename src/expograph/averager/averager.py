"""Decentralized averaging in a training loop of the user's own."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn.parallel import DistributedDataParallel

from expograph.averager import ranks
from expograph.averager.outer import MakeOptimizer, Outer
from expograph.averager.overlap import Backward, Blocking, Forward, drain_all
from expograph.averager.row import Row, in_buckets
from expograph.averager.sender import Sender
from expograph.graphs.convert import topology as schedule_of

MB = 2**20


class Averager:
    """Averages a model with those of the neighbours after each of the optimizer's steps.

        avg = eg.Averager(model, topology="one_peer_exponential")
        for x, y in loader:
            loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            avg.step()

    Every rank makes one, with a model of the same shape, and calls the same methods in the same
    order. At the start all ranks get rank 0's model. Without `overlap`, after `avg.step()` the
    model is W(k) times what it was, x_i <- sum_j W_ij(k) x_j, and k has advanced (adapt then
    combine).

    Attributes:
        rank, size: this rank of how many.
        schedule: the mixing matrices, `eg.Topology`.
        position: how many averages there have been: the k of the next W(k).
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        topology: Any = "one_peer_exponential",
        backend: Literal["torch", "bluefog", "mpi"] = "torch",
        group: Any = None,
        overlap: Literal["forward", "backward"] | None = None,
        every: int = 1,
        outer: MakeOptimizer | None = None,
        buffers: Literal["mixed", "local"] = "mixed",
        parameters: Iterable[Tensor] | None = None,
        local_size: int = 1,
        wire: torch.dtype | None = None,
        broadcast: bool = True,
        bucket_mb: float = 4.0,
        seed: int = 0,
    ) -> None:
        """Meet the other ranks, compare the models, and take rank 0's.

        Args:
            model: any module. One in DistributedDataParallel over the same ranks keeps its
                gradients to itself from now on; over those of a node, it averages them there.
            optimizer: for overlap="backward", which steps it: do not call its `step`.
            topology: a name, or whatever else `eg.topology` takes, over size / local_size nodes.
            backend: what carries the messages: torch.distributed, BlueFog or MPI.
            group: a process group of torch.distributed; None for the default one.
            overlap: None: the model is averaged while nothing else happens (adapt then combine).
                "forward": the message of the model travels until the next `step`, the update of the
                optimizer is added to the average (adapt with combine). "backward": adapt then
                combine, each part of the model as soon as its gradients are there.
            every: average in every so manieth call of `step`: the steps between are local.
            outer: parameters -> optimizer, for an outer step after each average (`outer.Outer`), as
                lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True).
            buffers: floating-point buffers that are saved with the model, as batch norm's
                statistics, are averaged with it ("mixed") or stay ("local"); see `mean_model` for
                recalibration.
            parameters: those that are averaged; None for all that require a gradient now.
            local_size: ranks of a node, in a row: they average exactly among each other, and the
                nodes by the topology. See `local_group`.
            wire: torch.bfloat16 or torch.float16: messages of float32 tensors are rounded to it.
                What a rank adds of its own model is not, nor is an exact average.
            broadcast: whether all ranks start from rank 0's model; else each from its own.
            bucket_mb: parameters that are packed and travel together, in MiB.
            seed: of random topologies.
        Raises:
            ValueError, JobError, ScheduleError: in one line, where these do not fit together or
                ranks have different models.

        Ref: adapt then combine, Chen & Sayed 2012; adapt with combine, Lian et al. 2017.
        """
        _check(optimizer, backend, overlap, every, outer, buffers, wire, bucket_mb)
        drain_all()
        wrapped = model
        self._model = model = _unwrapped(model)
        self._parameters = _averaged(model, parameters)
        self._buffers = _mixed_buffers(model) if buffers == "mixed" else []
        self._all = Row([*self._parameters, *_mixed_buffers(model)])
        tensors = [*self._parameters, *self._buffers]
        rows = [Row(found, wire) for found in in_buckets(tensors, _bytes, bucket_mb * MB)]
        group = ranks.meet(backend, group)
        if group.size % local_size:
            raise ValueError(f"local_size {local_size} does not divide the {group.size} ranks")
        self.rank, self.size, self._group = group.rank, group.size, group
        _keep_gradients_local(wrapped, group.size)
        nodes = group.size // local_size
        self.schedule = schedule_of(topology, nodes, seed=seed, local_size=local_size)
        self._compare(tensors, (overlap, every, buffers, str(wire)))
        self._sender = Sender(
            backend, group, self.schedule, [wire for row in rows for wire in row.wires]
        )
        self._how: Blocking
        if optimizer is not None:  # overlap="backward", as `_check` has seen
            stepped = {id(p) for g in optimizer.param_groups for p in g["params"]}
            others = [t for t in (*self._parameters, *self._buffers) if id(t) not in stepped]
            self._how = Backward(self._sender, rows, optimizer, others, bucket_mb * MB, wire)
        else:
            self._how = (Forward if overlap else Blocking)(self._sender, rows)
        self._every, self._calls, self.position = every, 0, 0
        if broadcast:
            everything = Row(_mixed_buffers(model, saved=False) + list(model.parameters()))
            everything.unpack(self._sender.first(everything))
        self._outer = Outer(self._parameters, outer) if outer else None
        self._how.begin(0, equal=broadcast)
        self._sender.timeline.restart()

    def _compare(self, tensors: list[Tensor], settings: tuple[object, ...]) -> None:
        """That all ranks average the same kind of model in the same way."""
        shapes = [[str(t.dtype), list(t.shape)] for t in tensors]
        own = [repr(self.schedule.name), list(map(str, settings)), shapes]
        every = self._group.exchange(own, "the comparison of the models")
        for rank, theirs in enumerate(every):
            for what, a, b in zip(("topology", "settings", "model"), theirs, every[0], strict=True):
                if a != b:
                    detail = f"{a}, not {b}" if what != "model" else _difference(a, b)
                    raise ValueError(f"rank {rank} has another {what} than rank 0: {detail}")

    def step(self) -> None:
        """Average with the neighbours of this step; with `every`, in every so manieth call.

        Raises:
            JobError: if a message cannot come any more.
        """
        self._calls += 1
        if self._calls % self._every:
            return
        self._how.step(self.position)
        self.position += 1
        if self._outer:
            self._outer.step()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """With overlap="backward": gradients inside are only accumulated, nothing leaves."""
        before = self._how.paused
        self._how.paused = True
        try:
            yield
        finally:
            self._how.paused = before

    def synchronize(self) -> None:
        """Average exactly over all ranks, now: at the end, or every so many steps."""
        self._how.drain()
        for row in self._how.rows:
            row.unpack(self._sender.mean(row))
        if self._outer:
            self._outer.restart()
        self._how.begin(self.position, equal=True)

    def consensus_distance(self) -> float:
        """1/n sum_i |x_i - x_bar|^2 over the averaged parameters, the same on every rank."""
        row = Row(self._parameters)
        own = row.pack()
        mean = [self._group.mean(flat, "the mean of the models") for flat in own]
        apart = sum(float((a - b).double().square().sum()) for a, b in zip(own, mean, strict=True))
        distances = self._group.gather(torch.tensor([apart], dtype=torch.float64), "a metric")
        return float(distances.mean())

    @contextmanager
    def mean_model(self, recalibrate: Iterable[Any] | None = None) -> Iterator[nn.Module]:
        """Inside, the model is the exact average of all ranks' models; afterwards it is as before.

        Floating-point buffers are averaged, too.

        Args:
            recalibrate: batches from which batch norm's statistics are then made anew
                (`torch.optim.swa_utils.update_bn`).
        """
        every = Row([*self._parameters, *_mixed_buffers(self._model, saved=False)])
        kept = every.pack()
        counters = [b.clone() for b in self._model.buffers()]
        every.unpack(self._sender.mean(every))
        if recalibrate is not None:
            torch.optim.swa_utils.update_bn(recalibrate, self._model)
        try:
            yield self._model
        finally:
            every.unpack(kept)
            with torch.no_grad():
                for buffer, before in zip(self._model.buffers(), counters, strict=True):
                    buffer.copy_(before)

    @property
    def bytes_sent(self) -> int:
        """Bytes this rank has sent by averaging so far; an exact average as a ring all-reduce."""
        return self._sender.sent

    def seconds(self) -> dict[str, float]:
        """Where this rank's time went since the start: compute, packing, waiting; and the wire."""
        return self._sender.timeline.seconds()

    def trace(self, path: str | Path) -> None:
        """Write this rank's latest spans for a trace viewer; a file a rank."""
        self._sender.timeline.write(Path(path), self.rank)

    def state_dict(self) -> dict[str, Any]:
        """What a rank needs beside its model and optimizer to go on: save it on every rank."""
        state = {
            "topology": self.schedule.name,
            "size": self.size,
            "position": self.position,
            "calls": self._calls,
        }
        return state | ({"outer": self._outer.state_dict()} if self._outer else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, with the model that this rank has now.

        Raises:
            ValueError: if it is of another topology or number of ranks.
        """
        for what, own in (("topology", self.schedule.name), ("size", self.size)):
            if state[what] != own:
                raise ValueError(f"the state has {what} {state[what]}, this averager {own}")
        self._how.drain()
        self.position, self._calls = int(state["position"]), int(state["calls"])
        if self._outer:
            self._outer.load_state_dict(state["outer"])
        self._how.begin(self.position, equal=False)


def _averaged(model: nn.Module, parameters: Iterable[Tensor] | None) -> list[Tensor]:
    chosen = model.parameters() if parameters is None else parameters
    found = list({id(p): p for p in chosen}.values())
    if parameters is None:
        found = [p for p in found if p.requires_grad]
    if not found:
        raise ValueError("the model has no parameter to average")
    for p in found:
        if not p.is_floating_point() or p.is_meta or p.layout != torch.strided:
            raise ValueError(f"a parameter is {p.dtype} on {p.device}: need dense real numbers")
        if hasattr(p, "placements"):
            raise ValueError("a parameter is divided over ranks (DTensor): average whole models")
    return found


def _mixed_buffers(model: nn.Module, saved: bool = True) -> list[Tensor]:
    """Floating-point buffers, each once: those that are saved with the model, or all."""
    names = model.state_dict().keys() if saved else dict(model.named_buffers()).keys()
    return [b for name, b in model.named_buffers() if name in names and b.is_floating_point()]


def _unwrapped(model: nn.Module) -> nn.Module:
    return model.module if isinstance(model, DistributedDataParallel) else model


def _keep_gradients_local(model: nn.Module, size: int) -> None:
    """Turn off what DistributedDataParallel sends, where it is over all ranks."""
    if isinstance(model, DistributedDataParallel) and model.process_group.size() == size > 1:
        model.register_comm_hook(None, noop_hook)
        model.broadcast_buffers = False


def _bytes(tensor: Tensor) -> int:
    return tensor.nbytes


def _difference(a: list[Any], b: list[Any]) -> str:
    if len(a) != len(b):
        return f"{len(a)} tensors, not {len(b)}"
    first = next((x, y) for x, y in zip(a, b, strict=True) if x != y)
    return "a tensor of {} {}, not {} {}".format(*first[0], *first[1])


def _check(
    optimizer: torch.optim.Optimizer | None,
    backend: str,
    overlap: str | None,
    every: int,
    outer: MakeOptimizer | None,
    buffers: str,
    wire: torch.dtype | None,
    bucket_mb: float,
) -> None:
    """That the arguments are allowed, and together."""
    if overlap not in (None, "forward", "backward"):
        raise ValueError(f"overlap {overlap!r}: allowed are None, 'forward' and 'backward'")
    if (overlap == "backward") != (optimizer is not None):
        raise ValueError("optimizer: give it with overlap='backward', and only there")
    if every < 1:
        raise ValueError(f"every {every}: needs at least 1")
    if overlap == "backward" and every > 1:
        raise ValueError("every: overlap='backward' averages in every step; use None or 'forward'")
    if outer and overlap:
        raise ValueError("outer: needs overlap=None, the average of what it is to move")
    if buffers not in ("mixed", "local"):
        raise ValueError(f"buffers {buffers!r}: allowed are 'mixed' and 'local'")
    if wire not in (None, torch.float16, torch.bfloat16):
        raise ValueError(f"wire {wire}: allowed are None, torch.float16 and torch.bfloat16")
    if wire and backend == "bluefog":
        raise ValueError("wire: BlueFog carries single precision; use the backend torch or mpi")
    if not bucket_mb > 0:
        raise ValueError(f"bucket_mb {bucket_mb}: needs a number above 0")
