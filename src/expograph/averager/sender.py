"""Rows of a model on their way: to the neighbours of a step, or averaged exactly."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from expograph.averager import ranks
from expograph.averager.row import Row
from expograph.cluster.group import Group
from expograph.cluster.timeline import Timeline
from expograph.graphs.topology import Topology

Flats = list[Tensor]
CHUNK = 2**18  # numbers of one message: the weighted sum of one is made while the next travels


class Sender:
    """This rank's messages.

    Attributes:
        group: the ranks.
        schedule: the mixing matrices.
        timeline: where the time goes.
        sent: bytes this rank has sent so far, averaging only.
    """

    def __init__(
        self, backend: str, group: Group, schedule: Topology, wires: Sequence[torch.dtype]
    ) -> None:
        """Check the schedule with the other ranks.

        Raises:
            JobError, ScheduleError: if the job or the schedule cannot be had.
        """
        self.group, self.schedule, self.timeline = group, schedule, Timeline()
        types = dict.fromkeys([*wires, torch.float32])
        self._engines = {t: ranks.engine(backend, schedule, group, t) for t in types}

    @property
    def sent(self) -> int:
        return sum(int(engine.sent.sum()) for engine in self._engines.values())

    def start(self, k: int, flats: Sequence[Tensor], wires: Sequence[torch.dtype]) -> Any:
        """Start averaging by W(k); what it returns waits, once, for the averaged vectors.

        The given vectors are given up: the result may be in their memory.
        """
        self.group.doing("averaging", k)
        begun = time.perf_counter()
        waits = [
            [self._start(k, chunk, wire) for chunk in torch.split(flat, CHUNK)]
            for flat, wire in zip(flats, wires, strict=True)
        ]

        def averaged() -> Flats:
            with self.timeline.span("waiting"):
                for flat, of_flat in zip(flats, waits, strict=True):
                    for chunk, wait in zip(torch.split(flat, CHUNK), of_flat, strict=True):
                        chunk.copy_(wait())
            self.timeline.add("wire", begun)
            return list(flats)

        return averaged

    def _start(self, k: int, chunk: Tensor, wire: torch.dtype) -> Callable[[], Tensor]:
        engine = self._engines.get(wire) or self._engines[torch.float32]
        return engine.start(engine.part(self._place(k)), chunk)

    def _place(self, k: int) -> int:
        return k % self.schedule.period if self.schedule.period else k

    def mean(self, row: Row) -> Flats:
        """The exact average of the rows of all ranks; not counted as sent."""
        return [self.group.mean(flat, "the mean of the models") for flat in row.pack()]

    def first(self, row: Row) -> Flats:
        """Rank 0's row."""
        return [self.group.broadcast(flat, "the first rank's model") for flat in row.pack()]
