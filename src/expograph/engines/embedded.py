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

Apply = Callable[[Tensor, Tensor], Tensor]  # (x, spare) -> W x, in the memory of one of the two

ROWWISE_FROM = 65_536  # columns from which row by row beats gathering them, measured on CPU


class Embedded:
    """Mixes rows in memory and counts what a real rank would have sent. See `engines.Engine`."""

    root = True
    agree_every = 1
    transport = "one process"

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.n = topology.n
        self.ranks = range(topology.n)
        self.sent = torch.zeros(self.n, dtype=torch.int64)
        self._prepared: dict[tuple | None, tuple[Apply, Tensor]] = {}
        self._spare: dict[tuple, Tensor] = {}

    def mixer(self, k: int) -> Mix:
        """The `mix` of step k: (n, d) arrays -> W(k) times each."""
        W = self.topology.at(k)

        def start(*arrays: Tensor) -> Callable[[], Mixed]:
            mixed = tuple(self._mix(W, k, x.clone()) for x in arrays)
            return lambda: mixed if len(mixed) > 1 else mixed[0]

        return Mix(start)

    def mean(self, x: Tensor) -> Tensor:
        return x.mean(dim=0)

    def gather(self, x: Tensor) -> Tensor:
        return x

    def broadcast(self, x: Tensor) -> Tensor:
        return x

    def _mix(self, W: Mixing, k: int, x: Tensor) -> Tensor:
        kind = (x.shape, x.dtype, x.device)
        key = (k % self.topology.period, *kind) if self.topology.period else None
        if key in self._prepared:
            apply, sent = self._prepared[key]
        else:
            apply = prepare(W, x)
            sent = torch.from_numpy(bytes_sent(W, x.shape[1] * x.element_size()))
            if key:
                self._prepared[key] = apply, sent
        self.sent += sent
        # x is ours to overwrite, so its memory becomes the spare of the next call
        spare = self._spare[kind] if kind in self._spare else torch.empty_like(x)
        mixed = apply(x, spare)
        self._spare[kind] = spare if mixed is x else x
        return mixed


def prepare(W: Mixing, like: Tensor) -> Apply:
    """The fastest way to apply W to arrays shaped, typed and placed as `like`, (n, d).

    Returns:
        (x, spare) -> W x, which overwrites x, or spare, or both; the result is one of the two.
    """
    if W.n == 1:
        return lambda x, spare: x
    if W.is_exact_average:
        return lambda x, spare: x.copy_(x.mean(dim=0, keepdim=True).expand_as(x))
    if W.local_size > 1:
        return _by_servers(W, like)
    if W.permutation:
        peer, weight = W.permutation
        if like.device.type == "cpu" and like.shape[1] >= ROWWISE_FROM:
            return _along_cycles(peer, weight)
        rows = torch.from_numpy(peer).to(like.device)
        return lambda x, spare: torch.lerp(x, x.index_select(0, rows), weight, out=spare)
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
    return lambda x, spare: torch.addmm(spare, csr, x, beta=0, out=spare)


def _by_servers(W: Mixing, like: Tensor) -> Apply:
    """W = between (x) J: the mean of each server, mixed on (servers, d), back to each rank."""
    n = W.between.n
    apply = prepare(W.between, like[:n])

    def by_servers(x: Tensor, spare: Tensor) -> Tensor:
        ranks = x.unflatten(0, (n, W.local_size))
        means = torch.mean(ranks, dim=1, out=spare[:n])  # spare has 2 n rows or more
        ranks.copy_(apply(means, spare[n : 2 * n]).unsqueeze(1).expand_as(ranks))
        return x

    return by_servers


def _along_cycles(peer: np.ndarray, weight: float) -> Apply:
    """W = (1 - weight) I + weight P in place, along the cycles of the permutation.

    Each row is read from memory once and written once: row i takes in row peer[i] before that
    row changes, and only the first row of a cycle needs a copy.
    """
    cycles, seen = [], np.zeros(len(peer), dtype=bool)
    for first in range(len(peer)):
        cycle, i = [], first
        while not seen[i]:
            seen[i] = True
            cycle.append(i)
            i = int(peer[i])
        if len(cycle) > 1:
            cycles.append(cycle)

    def apply(x: Tensor, spare: Tensor) -> Tensor:
        saved = spare[0]
        for cycle in cycles:
            saved.copy_(x[cycle[0]])
            for i, j in pairwise(cycle):
                x[i].lerp_(x[j], weight)
            x[cycle[-1]].lerp_(saved, weight)
        return x

    return apply
