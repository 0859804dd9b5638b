"""When messages travel: while nothing else happens, or while a gradient is computed.

blocking   adapt then combine: x <- W (what the optimizer made of x)
forward    adapt with combine: x <- W x + (what the optimizer added to x); the message of x leaves
           as soon as x is known
backward   adapt then combine, bucket by bucket: the last layers' gradients are there first; their
           part of x is stepped and sent while the others are computed
"""

import types
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from expograph.averager.row import Row, in_buckets
from expograph.averager.sender import Flats, Sender


class Blocking:
    """Averages when it is asked to; between steps nothing is on its way.

    Attributes:
        paused: whether gradients are only accumulated, where they would be sent.
    """

    paused = False

    def __init__(self, sender: Sender, rows: Sequence[Row]) -> None:
        """Take all that is averaged, in rows that travel one after the other."""
        self.sender, self.rows = sender, rows

    def step(self, k: int) -> None:
        """The rows become W(k) times what they are."""
        timeline = self.sender.timeline
        waits = []
        for row in self.rows:
            with timeline.span("packing"):
                flats = row.pack()
            waits.append(self.sender.start(k, flats, row.wires))
        for row, wait in zip(self.rows, waits, strict=True):
            mixed = wait()
            with timeline.span("packing"):
                row.unpack(mixed)

    def begin(self, k: int, equal: bool) -> None:
        """The rows are new; step k is the next. `equal`: those of all ranks are the same."""

    def drain(self) -> None:
        """Let what is on its way come, and forget it."""


_on_the_way: list["Forward"] = []


def drain_all() -> None:
    """Let all messages come that averagers which nobody holds any more have started.

    Their buffers must not be freed before, and a later message must not be taken for them.
    """
    for one in list(_on_the_way):
        one.drain()


class Forward(Blocking):
    """Sends the row at the end of a step, takes the average at the end of the next."""

    def __init__(self, sender: Sender, rows: Sequence[Row]) -> None:
        super().__init__(sender, rows)
        self._sent: list[
            tuple[Flats, Callable[[], Flats]]
        ] = []  # of each row what it was; the wait

    def step(self, k: int) -> None:
        sent = self._taken()
        for i, row in enumerate(self.rows):
            if sent:  # else all rows were equal: W x is x
                old, wait = sent[i]
                moved = wait()
                with self.sender.timeline.span("packing"):
                    torch._foreach_sub_(moved, old)
                    row.add(moved)
            self._send(row, k + 1)
        _on_the_way.append(self)

    def begin(self, k: int, equal: bool) -> None:
        if not equal:
            for row in self.rows:
                self._send(row, k)
            _on_the_way.append(self)

    def drain(self) -> None:
        for _, wait in self._taken():
            wait()

    def _taken(self) -> list[tuple[Flats, Callable[[], Flats]]]:
        """What is on its way: of each row, or nothing."""
        sent, self._sent = self._sent, []
        if sent:
            _on_the_way.remove(self)
        return sent

    def _send(self, row: Row, k: int) -> None:
        with self.sender.timeline.span("packing"):
            old = row.pack()
            sent = [flat.clone() for flat in old]  # the average may come in their place
        self._sent.append((old, self.sender.start(k, sent, row.wires)))


class Backward(Blocking):
    """Steps the optimizer and averages, bucket by bucket, as the gradients come.

    Buckets leave in one order on all ranks, whatever the order in which gradients come.
    """

    def __init__(
        self,
        sender: Sender,
        rows: Sequence[Row],
        optimizer: torch.optim.Optimizer,
        others: Sequence[Tensor],
        bucket_bytes: float,
        wire: torch.dtype | None,
    ) -> None:
        """Take the optimizer over: its own `step` raises from now on.

        Args:
            sender: the messages.
            rows: all that is averaged.
            optimizer: steps every parameter by itself, as SGD and Adam do.
            others: averaged tensors that it does not step, as buffers: the last bucket.
            bucket_bytes: at most so much in a bucket, or one parameter.
            wire: as in `Row`.
        """
        super().__init__(sender, rows)
        _take_over(optimizer)
        self.buckets = [Bucket(found, optimizer, wire) for found in divide(optimizer, bucket_bytes)]
        self.others = Row(others, wire)
        self.k = 0
        self._left = 0  # buckets that have left
        self._arriving: list[tuple[Row, Callable[[], Flats]]] = []
        for bucket in self.buckets:
            for parameter in bucket.parameters:
                hook = self._ready(bucket)
                parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]

    def _ready(self, bucket: "Bucket") -> Callable[[Tensor], None]:
        def ready(parameter: Tensor) -> None:
            if not self.paused:
                bucket.missing.discard(id(parameter))
                while self._left < len(self.buckets) and not self.buckets[self._left].missing:
                    self._leave()

        return ready

    def _leave(self) -> None:
        """Step and send the next bucket."""
        bucket = self.buckets[self._left]
        self._left += 1
        bucket.step()
        bucket.missing = {id(p) for p in bucket.parameters}
        self._send(bucket.row)

    def _send(self, row: Row) -> None:
        with self.sender.timeline.span("packing"):
            flats = row.pack()
        self._arriving.append((row, self.sender.start(self.k, flats, row.wires)))

    def step(self, k: int) -> None:
        while self._left < len(self.buckets):  # without a gradient, as the optimizer would
            self._leave()
        if self.others.pieces:
            self._send(self.others)
        for row, arrived in self._arriving:
            mixed = arrived()
            with self.sender.timeline.span("packing"):
                row.unpack(mixed)
        self._arriving, self._left, self.k = [], 0, k + 1

    def begin(self, k: int, equal: bool) -> None:
        self.k = k


class Bucket:
    """Some parameters and the part of the optimizer that steps them.

    Attributes:
        missing: ids of the parameters whose gradients have not come.
    """

    def __init__(
        self, groups: list[list[Tensor]], optimizer: torch.optim.Optimizer, wire: torch.dtype | None
    ) -> None:
        """Take a list of parameters of each of the optimizer's groups."""
        self.parameters = [p for group in groups for p in group]
        self.missing = {id(p) for p in self.parameters}
        self.row = Row(self.parameters, wire)
        self._optimizer, self._part = optimizer, copy(optimizer)
        self._part.param_groups = [{"params": group} for group in groups]

    def step(self) -> None:
        """Step these parameters as the optimizer would, with its present settings and state."""
        self._part.state = self._optimizer.state
        for own, group in zip(self._part.param_groups, self._optimizer.param_groups, strict=True):
            own.update({key: value for key, value in group.items() if key != "params"})
        type(self._optimizer).step(self._part)


def divide(optimizer: torch.optim.Optimizer, most: float) -> list[list[list[Tensor]]]:
    """Buckets of at most `most` bytes, the optimizer's last parameters first.

    Returns:
        of each bucket, of each of the optimizer's groups, the parameters.
    """
    groups = optimizer.param_groups
    placed = [(i, p) for i, group in enumerate(groups) for p in group["params"] if p.requires_grad]
    return [
        [[p for i, p in bucket if i == group] for group in range(len(groups))]
        for bucket in in_buckets(reversed(placed), lambda found: found[1].nbytes, most)
    ]


def _take_over(optimizer: torch.optim.Optimizer) -> None:
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "optimizer: LBFGS steps all parameters together; overlap='backward' cannot"
        )

    def step(self: Any, *_: Any, **__: Any) -> None:
        raise RuntimeError("overlap='backward': the averager steps the optimizer; call avg.step()")

    optimizer.step = types.MethodType(step, optimizer)  # type: ignore[method-assign]  # on purpose
    # schedulers of the learning rate ask whether it has stepped; torch does not declare it
    optimizer._opt_called = True  # type: ignore[attr-defined]
