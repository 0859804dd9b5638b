"""The embedded engine: n workers in one process, all rows of an (n, d) buffer averaged at once."""

import warnings
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from expograph.algorithms import Mix, Mixed
from expograph.graphs.mixing import Mixing, bytes_sent
from expograph.graphs.topology import Topology
from expograph.memory import empty_like

Apply = Callable[[Tensor], Tensor]  # x -> W x, in memory of its own; x is kept

ROWWISE_FROM = 65_536  # columns from which row by row beats gathering them, measured on CPU


class Embedded:
    """Mixes rows in memory and counts what a real rank would have sent. See `engines.Engine`."""

    root = True
    agree_every = 1
    transport = "one process"

    def __init__(self, schedule: Topology, group: None = None) -> None:
        """Take all workers of the schedule into this process; there is no group of ranks."""
        self.topology = schedule
        self.n = schedule.n
        self.ranks = range(schedule.n)
        self.sent = torch.zeros(self.n, dtype=torch.int64)
        self._prepared: dict[tuple, Apply] = {}
        self._bytes: dict[tuple[int, int], Tensor] = {}

    def mixer(self, k: int) -> Mix:
        """The `mix` of step k: (n, d) arrays -> W(k) times each."""
        W, period = self.topology.at(k), self.topology.period
        place = k % period if period else None

        def start(*arrays: Tensor) -> Callable[[], Mixed]:
            self._count(W, place, sum(x[0].nbytes for x in arrays))
            mixed = tuple(self._apply(W, place, x)(x) for x in arrays)
            return lambda: mixed if len(mixed) > 1 else mixed[0]

        return Mix(start)

    def mean(self, x: Tensor) -> Tensor:
        return x.mean(dim=0)

    def gather(self, x: Tensor) -> Tensor:
        return x

    def broadcast(self, x: Tensor) -> Tensor:
        return x

    def _count(self, W: Mixing, place: int | None, message: int) -> None:
        """Note what every rank sends in one call; `place` is the step in the period, if any."""
        if place is None:
            self.sent += torch.from_numpy(bytes_sent(W.messages, message))
            return
        if (place, message) not in self._bytes:
            self._bytes[place, message] = torch.from_numpy(bytes_sent(W.messages, message))
        self.sent += self._bytes[place, message]

    def _apply(self, W: Mixing, place: int | None, x: Tensor) -> Apply:
        if place is None:
            return prepare(W, x)
        key = (place, x.shape, x.dtype, x.device)
        if key not in self._prepared:
            self._prepared[key] = prepare(W, x)
        return self._prepared[key]


def prepare(W: Mixing, like: Tensor) -> Apply:
    """The fastest way to apply W to arrays shaped, typed and placed as `like`, (n, d)."""
    if W.n == 1:
        return lambda x: x
    if W.is_exact_average:
        return lambda x: empty_like(x).copy_(x.mean(dim=0, keepdim=True).expand_as(x))
    if W.local_size > 1:
        return _by_servers(W, like)
    if W.permutation:
        peer, weight = W.permutation
        if like.device.type == "cpu" and like.shape[1] >= ROWWISE_FROM:
            return _along_cycles(peer, weight)
        rows = torch.from_numpy(peer).to(like.device)
        return _by_gathering(rows, weight)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        csr = torch.sparse_csr_tensor(
            torch.from_numpy(W.csr.indptr.astype(np.int64)),
            torch.from_numpy(W.csr.indices.astype(np.int64)),
            torch.from_numpy(W.csr.data).to(like.dtype),
            size=(W.n, W.n),
            device=like.device,
            check_invariants=False,  # scipy has checked them
        )

    def product(x: Tensor) -> Tensor:
        mixed = empty_like(x)
        return torch.addmm(mixed, csr, x, beta=0, out=mixed)

    return product


def _by_servers(W: Mixing, like: Tensor) -> Apply:
    """W = between (x) J: the mean of each server, mixed on (servers, d), back to each rank."""
    n = W.between.n
    apply = prepare(W.between, like[:n])

    def by_servers(x: Tensor) -> Tensor:
        means = x.unflatten(0, (n, W.local_size)).mean(dim=1)
        return apply(means).repeat_interleave(W.local_size, dim=0)

    return by_servers


def _by_gathering(peer: Tensor, weight: float) -> Apply:
    """W = (1 - weight) I + weight P, all rows at once."""

    def apply(x: Tensor) -> Tensor:
        heard = torch.index_select(x, 0, peer, out=empty_like(x))
        return torch.lerp(x, heard, weight, out=heard)

    return apply


def _along_cycles(peer: np.ndarray, weight: float) -> Apply:
    """W = (1 - weight) I + weight P, row by row along the cycles of the permutation.

    Row i takes in row peer[i], which is the row that comes next: it is read from memory once and
    found in the cache the second time.
    """
    pairs, seen = [], np.zeros(len(peer), dtype=bool)
    for first in range(len(peer)):
        cycle, i = [], first
        while not seen[i]:
            seen[i] = True
            cycle.append(i)
            i = int(peer[i])
        if cycle:
            pairs += pairwise([*cycle, cycle[0]])

    def apply(x: Tensor) -> Tensor:
        mixed = empty_like(x)
        rows, results = x.unbind(0), mixed.unbind(0)
        for i, j in pairs:
            torch.lerp(rows[i], rows[j], weight, out=results[i])
        return mixed

    return apply
