"""Mixing matrices of special form, which know facts of `Mixing` without looking at every entry.

`Circulant` for graphs that look the same from every rank, `OnePeer` for steps in which every
rank hears at most one other, `Hierarchical` for servers of several ranks; and Metropolis weights
for any undirected graph.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, kron

from expograph.graphs.mixing import ROUNDING, Mixing, Sparse, equal, from_coordinates


@dataclass(frozen=True)
class Circulant(Mixing):
    """W[i, (i - offset) mod n] = weight: every rank hears the ranks `offset` before it.

    Attributes:
        n: number of ranks.
        weights: {offset: weight}, offsets distinct in 0..n-1, offset 0 is the self weight.
    """

    n: int
    weights: dict[int, float]

    def __post_init__(self) -> None:
        """Leave out zero weights.

        Raises:
            ValueError: for an offset that is not in 0..n-1.
        """
        for offset in self.weights:
            if not 0 <= offset < self.n:
                raise ValueError(f"offset {offset} of a circulant: not in 0..{self.n - 1}")
        object.__setattr__(self, "weights", {o: w for o, w in self.weights.items() if w})

    @cached_property
    def csr(self) -> csr_array:
        offsets = np.fromiter(self.weights, dtype=np.int64)
        values = np.fromiter(self.weights.values(), dtype=np.float64)
        columns = (np.arange(self.n)[:, None] - offsets) % self.n  # (n, degree)
        order = np.argsort(columns, axis=1)
        indptr = len(offsets) * np.arange(self.n + 1)
        data = values[order].ravel()
        indices = np.take_along_axis(columns, order, axis=1).ravel()
        return csr_array((data, indices, indptr), shape=(self.n, self.n))

    @property
    def entries(self) -> int:
        return self.n * len(self.weights)

    def sources(self, rank: int) -> dict[int, float]:
        return {(rank - o) % self.n: w for o, w in self.weights.items() if o}

    def destinations(self, rank: int) -> list[int]:
        return sorted((rank + o) % self.n for o in self.weights if o)

    def self_weight(self, rank: int) -> float:
        return self.weights.get(0, 0.0)

    @cached_property
    def in_degrees(self) -> np.ndarray:
        return np.full(self.n, sum(1 for o in self.weights if o))

    @property
    def out_degrees(self) -> np.ndarray:
        return self.in_degrees

    @cached_property
    def row_sums(self) -> np.ndarray:
        return np.full(self.n, sum(self.weights.values()))

    @property
    def column_sums(self) -> np.ndarray:
        return self.row_sums

    @property
    def has_negative(self) -> bool:
        return any(w < 0 for w in self.weights.values())

    @cached_property
    def is_exact_average(self) -> bool:
        if self.entries < self.n**2:
            return False
        return equal(self.n * np.fromiter(self.weights.values(), dtype=np.float64), 1)

    @property
    def permutation(self) -> tuple[np.ndarray, float] | None:
        moved = {o: w for o, w in self.weights.items() if o}
        if len(moved) > 1:
            return None
        ((offset, weight),) = moved.items() or [(0, 0.0)]
        if abs(self.self_weight(0) + weight - 1) > ROUNDING:
            return None
        return np.roll(np.arange(self.n), offset), weight  # half the time of arithmetic mod n

    def eigenvalues(self) -> np.ndarray:
        """The n eigenvalues, complex, in Fourier order: entry 0 belongs to the constant vector."""
        first_column = np.zeros(self.n)
        first_column[list(self.weights)] = list(self.weights.values())
        return np.fft.fft(first_column)


@dataclass(frozen=True)
class OnePeer(Mixing):
    """W = (1 - weight) I + weight P with (P x)_i = x_peer[i]; a rank that is its own peer idles.

    Attributes:
        peer: (n,) int, a permutation of 0..n-1.
        weight: what a rank puts on its peer, above 0, at most 1.
    """

    peer: np.ndarray
    weight: float = 0.5
    n: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the peers.

        Raises:
            ValueError: if they are not a permutation, or the weight is not in (0, 1].
        """
        if not 0 < self.weight <= 1:
            raise ValueError(f"weight {self.weight} of a peer: not above 0 and at most 1")
        object.__setattr__(self, "n", len(self.peer))
        heard = np.zeros(self.n, dtype=bool)
        heard[self.peer] = True
        if not heard.all():
            raise ValueError(f"rank {np.argmin(heard)} is nobody's peer, and not its own")

    @cached_property
    def csr(self) -> csr_array:
        ranks = np.arange(self.n)
        return from_coordinates(
            self.n,
            np.concatenate([np.full(self.n, 1 - self.weight), np.full(self.n, self.weight)]),
            np.concatenate([ranks, ranks]),
            np.concatenate([ranks, self.peer]),
        )  # an idle rank's two entries are one

    @property
    def entries(self) -> int:
        moved = int(self.out_degrees.sum())
        return self.n + (moved if self.weight < 1 else 0)

    def sources(self, rank: int) -> dict[int, float]:
        peer = int(self.peer[rank])
        return {} if peer == rank else {peer: self.weight}

    def destinations(self, rank: int) -> list[int]:
        return [i for i in np.flatnonzero(self.peer == rank).tolist() if i != rank]

    def self_weight(self, rank: int) -> float:
        return 1.0 if self.peer[rank] == rank else 1 - self.weight

    @cached_property
    def in_degrees(self) -> np.ndarray:
        return np.asarray(self.peer != np.arange(self.n), dtype=np.int64)

    @property
    def out_degrees(self) -> np.ndarray:
        return self.in_degrees  # who hears another is heard by another

    @cached_property
    def row_sums(self) -> np.ndarray:
        return np.ones(self.n)

    @property
    def column_sums(self) -> np.ndarray:
        return self.row_sums

    @property
    def has_negative(self) -> bool:
        return False

    @property
    def permutation(self) -> tuple[np.ndarray, float]:
        return self.peer, self.weight if self.in_degrees.any() else 0.0


@dataclass(frozen=True)
class Hierarchical(Mixing):
    """Servers of `local_size` ranks each: W = inner (x) J, J = 11^T / local_size.

    Server s holds the ranks s * local_size ... (s + 1) * local_size - 1; after the step they all
    hold the same row. It is done in three stages: the mean inside each server, one message
    between the leaders (the first rank of each server) for every edge of `inner`, and the
    leader's result to its server. W is J over all ranks if `inner` is J over the servers.

    Attributes:
        inner: W over the servers, (n / local_size, n / local_size).
        local_size: ranks of a server.
    Ref: BlueFog's hierarchical_neighbor_allreduce.
    """

    inner: Mixing
    local_size: int
    n: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.inner.n * self.local_size)

    @property
    def between(self) -> Mixing:
        return self.inner

    @property
    def entries(self) -> int:
        return self.inner.entries * self.local_size**2

    @cached_property
    def csr(self) -> csr_array:
        inside = np.full((self.local_size, self.local_size), 1 / self.local_size)
        return csr_array(kron(self.inner.csr, inside, format="csr"))

    @property
    def row_sums(self) -> np.ndarray:
        return np.repeat(self.inner.row_sums, self.local_size)

    @property
    def column_sums(self) -> np.ndarray:
        return np.repeat(self.inner.column_sums, self.local_size)

    @property
    def has_negative(self) -> bool:
        return self.inner.has_negative

    @property
    def is_exact_average(self) -> bool:
        return self.inner.is_exact_average

    @cached_property
    def messages(self) -> np.ndarray:
        sent = np.zeros(self.n)
        sent[:: self.local_size] = self.inner.messages
        return sent


def metropolis(n: int, edges: np.ndarray) -> Sparse:
    """Metropolis-Hastings weights on an undirected graph: symmetric, hence doubly stochastic.

        W[i, j] = 1 / max(|N_i|, |N_j|) on edges, N_i counting i itself; W[i, i] = 1 - the rest.

    Args:
        n: number of ranks.
        edges: (m, 2) int, each undirected edge once, no loops.
    Ref: the rule of BlueFog's MeshGrid2DGraph; Hastings 1970.
    """
    edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    size = 1 + np.bincount(edges.ravel(), minlength=n)
    return linked(n, edges, 1.0 / np.maximum(*size[edges.T]))


def linked(n: int, edges: np.ndarray, weights: np.ndarray) -> Sparse:
    """Undirected links with weights; what they leave of one stays with the rank: symmetric.

    Args:
        n: number of ranks.
        edges: (m, 2) int, each link once, no loops.
        weights: (m,), of a link both ways.
    """
    i, j = edges.T
    remainder = 1.0 - np.bincount(edges.ravel(), weights=np.repeat(weights, 2), minlength=n)
    ranks = np.arange(n)
    receivers, senders = np.concatenate([ranks, i, j]), np.concatenate([ranks, j, i])
    values = np.concatenate([remainder, weights, weights])
    return Sparse(from_coordinates(n, values, receivers, senders))


def pairing(n: int, pairs: np.ndarray, weight: float = 0.5) -> OnePeer:
    """Both ranks of a pair (m, 2) put `weight` on each other; a rank of no pair idles."""
    peer = np.arange(n)
    peer[pairs[:, 0]], peer[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
    return OnePeer(peer, weight)
