"""The embedded engine: n workers in one process, all rows of an (n, d) buffer averaged at once."""

import warnings
from collections import Counter
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from expograph.algorithms.base import Decode, Mix, Wait
from expograph.graphs.mixing import Mixing, bytes_sent
from expograph.graphs.topology import Topology, exact_average
from expograph.memory import empty_like

Apply = Callable[[Tensor], Tensor]  # x -> W x, in memory of its own; x is kept
Fill = Callable[[Tensor, Tensor], object]  # (x, result): write W x to where the result is to be

FEW_RUNS = 4  # runs of rows that are mixed by a call each; a cyclic shift has two
GRAIN = 32_768  # elements from which torch shares a call between threads
BLOCK = 8 * 2**20  # bytes of the columns of x that are mixed at once, to stay in the cache
LEAST_COLUMNS = 4096  # of a block: below it a call costs more than it saves
DENSE_FROM = 1 / 4  # share of weights that are not zero
EXACT = -1  # the place, in the period, of the exact average that a rule may ask for beside it


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
        self._prepared: dict[tuple[object, ...], Apply] = {}
        # (step in the period, bytes of a row, whether coded) -> calls
        self._calls: Counter[tuple[int, int, bool]] = Counter()
        self._sent_when_drawn = torch.zeros(self.n, dtype=torch.int64)

    @property
    def sent(self) -> Tensor:
        """Bytes that each rank has sent so far, (n,) int64; steps of a period are only counted."""
        total = self._sent_when_drawn.clone()
        for (place, message, coded), calls in self._calls.items():
            W = self._exact if place == EXACT else self.topology.at(place)
            total += calls * _sent_by(W, message, coded)
        return total

    def mixer(self, k: int) -> Mix:
        """The `mix` of message k: (n, d) arrays -> W(k) or J times each."""
        W, period = self.topology.at(k), self.topology.period
        place = k % period if period else None

        def start_coded(wire: Tensor, decode: Decode) -> Callable[[], Tensor]:
            self._count(W, place, wire[0].nbytes, coded=True)
            x = decode(wire)
            mixed = self._apply(W, place, x)(x)
            return lambda: mixed

        return Mix(
            lambda *arrays: self._start(W, place, arrays),
            lambda *arrays: self._start(self._exact, EXACT, arrays),
            start_coded,
            k,
        )

    @cached_property
    def _exact(self) -> Mixing:
        return exact_average(self.n, self.topology.local_size)

    def _start(self, W: Mixing, place: int | None, arrays: tuple[Tensor, ...]) -> Wait:
        self._count(W, place, sum(x[0].nbytes for x in arrays))
        mixed = tuple(self._apply(W, place, x)(x) for x in arrays)
        return lambda: mixed if len(mixed) > 1 else mixed[0]

    def mean(self, x: Tensor) -> Tensor:
        return x.mean(dim=0)

    def gather(self, x: Tensor) -> Tensor:
        return x

    def least(self, number: int) -> int:
        return number

    def broadcast(self, x: Tensor) -> Tensor:
        return x

    def _count(self, W: Mixing, place: int | None, message: int, coded: bool = False) -> None:
        """Note what every rank sends in one call; `place` is the step in the period, if any."""
        if place is None:
            self._sent_when_drawn += _sent_by(W, message, coded)
        else:
            self._calls[place, message, coded] += 1

    def _apply(self, W: Mixing, place: int | None, x: Tensor) -> Apply:
        if place is None:
            return prepare(W, x)
        key = (place, x.shape, x.dtype, x.device)
        if key not in self._prepared:
            self._prepared[key] = prepare(W, x)
        return self._prepared[key]


def _sent_by(W: Mixing, message: int, coded: bool) -> Tensor:
    return torch.from_numpy(bytes_sent(W.out_degrees if coded else W.messages, message))


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
            return _in_blocks(_by_runs(runs, weight), like)
        if like.shape[1] < GRAIN or like.device.type != "cpu":
            return _by_gathering(torch.from_numpy(peer).to(like.device), weight)
    return _in_blocks(_by_product(W, like), like)


def _by_servers(W: Mixing, like: Tensor) -> Apply:
    """W = between (x) J: the mean of each server, mixed on (servers, d), back to each rank."""
    n = W.between.n
    apply = prepare(W.between, like[:n])

    def by_servers(x: Tensor) -> Tensor:
        means = torch.unflatten(x, 0, (n, W.local_size)).mean(dim=1)
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


def _in_blocks(fill: Fill, like: Tensor) -> Apply:
    """Mix a block of columns after the other, so that rows are read from memory only once.

    They are found in the cache by the other ranks that hear them: 0.6 to 0.7 of the time of the
    whole static exponential product where n = 64, d = 1,000,000.
    """
    columns = max(LEAST_COLUMNS, BLOCK // (len(like) * like.element_size()))
    if like.device.type != "cpu":
        columns = max(1, like.shape[1])

    def apply(x: Tensor) -> Tensor:
        mixed = empty_like(x)
        blocks = torch.split(x, columns, 1), torch.split(mixed, columns, 1)
        for block, result in zip(*blocks, strict=True):
            fill(block, result)
        return mixed

    return apply


def _by_runs(runs: list[tuple[slice, slice]], weight: float) -> Fill:
    """W = (1 - weight) I + weight P, a call a run.

    A quarter of the time of gathering the peers where n = 16, d = 50,890, two threads.
    """

    def fill(x: Tensor, result: Tensor) -> None:
        for rows, peers in runs:
            torch.lerp(x[rows], x[peers], weight, out=result[rows])

    return fill


def _by_gathering(peer: Tensor, weight: float) -> Apply:
    """W = (1 - weight) I + weight P, all rows at once.

    For short rows: n = 16, d = 1,000 takes a quarter to three quarters of the time of the sparse
    product, which in turn takes a quarter of it for d = 50,890 and two threads.
    """

    def apply(x: Tensor) -> Tensor:
        heard = torch.index_select(x, 0, peer, out=empty_like(x))
        return torch.lerp(x, heard, weight, out=heard)

    return apply


def _by_product(W: Mixing, like: Tensor) -> Fill:
    """Any W, as a dense array if many of its weights are not zero."""
    factor = _dense(W, like) if W.entries >= DENSE_FROM * W.n**2 else _sparse(W, like)
    return lambda x, result: torch.addmm(result, factor, x, beta=0, out=result)


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
