"""The embedded engine: n workers in one process, all rows of an (n, d) buffer averaged at once."""

import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from expograph.algorithms import Mix, Mixed
from expograph.graphs.mixing import Mixing, bytes_sent
from expograph.graphs.topology import Topology
from expograph.memory import empty_like

Apply = Callable[[Tensor], Tensor]  # x -> W x, in memory of its own; x is kept

FEW_RUNS = 4  # runs of rows that are mixed by a call each; the cyclic shifts have two
GRAIN = 32_768  # elements from which torch shares a call between threads
BLOCK = 4 * 2**20  # bytes of the columns of x that are mixed at once, to stay in the cache
LEAST_COLUMNS = 4096  # of a block: below it a call costs more than it saves
DENSE_FROM = 1 / 4  # share of weights that are not zero


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
        self._prepared: dict[tuple, Apply] = {}
        self._calls: Counter[tuple[int, int]] = Counter()  # (step in the period, bytes of a row)
        self._sent_when_drawn = torch.zeros(self.n, dtype=torch.int64)

    @property
    def sent(self) -> Tensor:
        """Bytes that each rank has sent so far, (n,) int64; steps of a period are only counted."""
        total = self._sent_when_drawn.clone()
        for (place, message), calls in self._calls.items():
            total += calls * _sent_by(self.topology.at(place), message)
        return total

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
            self._sent_when_drawn += _sent_by(W, message)
        else:
            self._calls[place, message] += 1

    def _apply(self, W: Mixing, place: int | None, x: Tensor) -> Apply:
        if place is None:
            return prepare(W, x)
        key = (place, x.shape, x.dtype, x.device)
        if key not in self._prepared:
            self._prepared[key] = prepare(W, x)
        return self._prepared[key]


def _sent_by(W: Mixing, message: int) -> Tensor:
    return torch.from_numpy(bytes_sent(W.messages, message))


def prepare(W: Mixing, like: Tensor) -> Apply:
    """The fastest way to apply W to arrays shaped, typed and placed as `like`, (n, d).

    It follows from W, the shape and the device alone, so that a run gives the same bits each time.
    """
    if W.n == 1:
        return lambda x: x
    if W.is_exact_average:
        return lambda x: empty_like(x).copy_(x.mean(dim=0, keepdim=True).expand_as(x))
    if W.local_size > 1:
        return _by_servers(W, like)
    if W.permutation:
        peer, weight = W.permutation
        if like.numel() >= GRAIN and (runs := _runs(peer)):
            return _by_runs(runs, weight)
        if like.shape[1] < GRAIN or like.device.type != "cpu":
            return _by_gathering(torch.from_numpy(peer).to(like.device), weight)
    return _by_products(W, like)


def _by_servers(W: Mixing, like: Tensor) -> Apply:
    """W = between (x) J: the mean of each server, mixed on (servers, d), back to each rank."""
    n = W.between.n
    apply = prepare(W.between, like[:n])

    def by_servers(x: Tensor) -> Tensor:
        means = x.unflatten(0, (n, W.local_size)).mean(dim=1)
        return apply(means).repeat_interleave(W.local_size, dim=0)

    return by_servers


def _runs(peer: np.ndarray) -> list[tuple[slice, slice]]:
    """Rows in a row whose peers are rows in a row, as (rows, peers); none if they are not few."""
    starts = np.flatnonzero(np.diff(peer, prepend=-2) != 1)
    if len(starts) > FEW_RUNS:
        return []
    lengths = np.diff(starts, append=len(peer))
    return [
        (slice(i, i + length), slice(j, j + length))
        for i, j, length in zip(
            starts.tolist(), peer[starts].tolist(), lengths.tolist(), strict=True
        )
    ]


def _by_runs(runs: list[tuple[slice, slice]], weight: float) -> Apply:
    """W = (1 - weight) I + weight P in one pass over the memory, without a copy of the peers.

    A quarter of the time of gathering where n = 16, d = 50,890.
    """

    def apply(x: Tensor) -> Tensor:
        mixed = empty_like(x)
        for rows, peers in runs:
            torch.lerp(x[rows], x[peers], weight, out=mixed[rows])
        return mixed

    return apply


def _by_gathering(peer: Tensor, weight: float) -> Apply:
    """W = (1 - weight) I + weight P, all rows at once.

    Half the calls of the runs, which is what small arrays cost; twice the time of the sparse
    product at 64 rows of 1,000 columns, four times as slow as it at 50,890.
    """

    def apply(x: Tensor) -> Tensor:
        heard = torch.index_select(x, 0, peer, out=empty_like(x))
        return torch.lerp(x, heard, weight, out=heard)

    return apply


def _by_products(W: Mixing, like: Tensor) -> Apply:
    """W x, sparse or dense, a block of columns after the other.

    A row of the block is read once for each rank that hears it, all but once from the cache:
    0.6 of the time of the whole static exponential product at n = 64, d = 1,000,000.
    """
    factor = _dense(W, like) if W.entries >= DENSE_FROM * W.n**2 else _sparse(W, like)
    columns = max(LEAST_COLUMNS, BLOCK // (W.n * like.element_size()))
    if like.device.type != "cpu":
        columns = max(1, like.shape[1])

    def apply(x: Tensor) -> Tensor:
        mixed = empty_like(x)
        for block, result in zip(x.split(columns, 1), mixed.split(columns, 1), strict=True):
            torch.addmm(result, factor, block, beta=0, out=result)
        return mixed

    return apply


def _dense(W: Mixing, like: Tensor) -> Tensor:
    return torch.from_numpy(W.dense()).to(like)


def _sparse(W: Mixing, like: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(W.csr.indptr.astype(np.int64)),
            torch.from_numpy(W.csr.indices.astype(np.int64)),
            torch.from_numpy(W.csr.data).to(like.dtype),
            size=(W.n, W.n),
            device=like.device,
            check_invariants=False,  # scipy has checked them
        )
