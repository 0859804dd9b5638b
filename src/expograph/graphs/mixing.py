"""One step's mixing matrix W, held by its nonzeros and never as an (n, n) array.

`W[i, j]` is the weight that rank i puts on what it receives from rank j, so that one step is
`x <- W @ x` and rows are receivers. (BlueFog's `topology_util` stores the transpose: its rows
are senders.) One interface, four forms: `Circulant` for graphs that look the same from every
rank, `OnePeer` for steps in which every rank hears at most one other, `Sparse` for the rest, and
`Hierarchical` for servers of several ranks.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, kron


class Mixing:
    """What every form answers; a subclass gives `n` and `csr`.

    Attributes:
        n: number of ranks.
        csr: W as a scipy CSR array of shape (n, n), float64, without stored zeros.
        local_size: ranks of a server; 1 for every form but `Hierarchical`.
    """

    n: int
    csr: csr_array
    local_size: int = 1

    @property
    def between(self) -> "Mixing":
        """The mixing of the servers, (n / local_size) rows: W itself where a rank is a server."""
        return self

    def sources(self, rank: int) -> dict[int, float]:
        """In-neighbors of `rank` with their weights, self left out: BlueFog's `src_weights`."""
        row = slice(self.csr.indptr[rank], self.csr.indptr[rank + 1])
        pairs = zip(self.csr.indices[row].tolist(), self.csr.data[row].tolist(), strict=True)
        return {j: w for j, w in pairs if j != rank}

    def destinations(self, rank: int) -> list[int]:
        """Out-neighbors of `rank` in order, self left out: BlueFog's `dst_weights`."""
        column = slice(self._csc.indptr[rank], self._csc.indptr[rank + 1])
        return [i for i in sorted(self._csc.indices[column].tolist()) if i != rank]

    def self_weight(self, rank: int) -> float:
        """W[rank, rank]."""
        return float(self.csr[rank, rank])

    @cached_property
    def out_degrees(self) -> np.ndarray:
        """Out-neighbors of each rank, self left out, shape (n,)."""
        senders = self.csr.indices[self.csr.data != 0]
        return np.bincount(senders, minlength=self.n) - (self.csr.diagonal() != 0)

    @property
    def permutation(self) -> tuple[np.ndarray, float] | None:
        """(peer, w) if W = (1 - w) I + w P with (P x)_i = x_peer[i]; None for other matrices."""
        return None

    @property
    def is_exact_average(self) -> bool:
        """Whether W is J = 11^T / n, which every engine computes as one all-reduce."""
        return self.n == 1

    def dense(self) -> np.ndarray:
        """W as an (n, n) array: for mathematics and tests, never on the training path."""
        return self.csr.toarray()

    @cached_property
    def _csc(self):
        return self.csr.tocsc()


@dataclass(frozen=True)
class Circulant(Mixing):
    """W[i, (i - offset) mod n] = weight: every rank hears the ranks `offset` before it.

    Attributes:
        n: number of ranks.
        weights: {offset: weight}, offsets distinct in 0..n-1, offset 0 is the self weight.
    """

    n: int
    weights: dict[int, float]

    @cached_property
    def csr(self) -> csr_array:
        offsets = np.fromiter(self.weights, dtype=np.int64)
        values = np.fromiter(self.weights.values(), dtype=np.float64)
        columns = (np.arange(self.n)[:, None] - offsets) % self.n  # (n, degree)
        order = np.argsort(columns, axis=1)
        indptr = np.arange(0, columns.size + 1, len(offsets))
        data = values[order].ravel()
        indices = np.take_along_axis(columns, order, axis=1).ravel()
        return csr_array((data, indices, indptr), shape=(self.n, self.n))

    def sources(self, rank: int) -> dict[int, float]:
        return {(rank - o) % self.n: w for o, w in self.weights.items() if o}

    def destinations(self, rank: int) -> list[int]:
        return sorted((rank + o) % self.n for o in self.weights if o)

    def self_weight(self, rank: int) -> float:
        return self.weights.get(0, 0.0)

    @cached_property
    def out_degrees(self) -> np.ndarray:
        return np.full(self.n, sum(1 for o in self.weights if o))

    @cached_property
    def permutation(self) -> tuple[np.ndarray, float] | None:
        moved = {o: w for o, w in self.weights.items() if o}
        if len(moved) != 1:
            return None
        ((offset, weight),) = moved.items()
        return (np.arange(self.n) - offset) % self.n, weight

    @cached_property
    def is_exact_average(self) -> bool:
        return len(self.weights) == self.n and len(set(self.weights.values())) == 1

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
        weight: what a rank puts on its peer.
    """

    peer: np.ndarray
    weight: float = 0.5

    @property
    def n(self) -> int:
        return len(self.peer)

    @cached_property
    def csr(self) -> csr_array:
        ranks = np.arange(self.n)
        W = csr_array(
            (
                np.concatenate([np.full(self.n, 1 - self.weight), np.full(self.n, self.weight)]),
                (np.concatenate([ranks, ranks]), np.concatenate([ranks, self.peer])),
            ),
            shape=(self.n, self.n),
        )
        W.sum_duplicates()  # an idle rank's two entries are one
        return W

    def sources(self, rank: int) -> dict[int, float]:
        peer = int(self.peer[rank])
        return {} if peer == rank else {peer: self.weight}

    def destinations(self, rank: int) -> list[int]:
        return [i for i in np.flatnonzero(self.peer == rank).tolist() if i != rank]

    def self_weight(self, rank: int) -> float:
        return 1.0 if self.peer[rank] == rank else 1 - self.weight

    @cached_property
    def out_degrees(self) -> np.ndarray:
        return (self.peer != np.arange(self.n)).astype(np.int64)

    @property
    def permutation(self) -> tuple[np.ndarray, float]:
        return self.peer, self.weight


@dataclass(frozen=True)
class Sparse(Mixing):
    """Any mixing matrix, given as its CSR array (n, n)."""

    csr: csr_array

    @property
    def n(self) -> int:
        return self.csr.shape[0]


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

    @property
    def n(self) -> int:
        return self.inner.n * self.local_size

    @property
    def between(self) -> Mixing:
        return self.inner

    @cached_property
    def csr(self) -> csr_array:
        inside = np.full((self.local_size, self.local_size), 1 / self.local_size)
        return csr_array(kron(self.inner.csr, inside, format="csr"))

    @property
    def is_exact_average(self) -> bool:
        return self.inner.is_exact_average


def metropolis(n: int, edges: np.ndarray) -> Sparse:
    """Metropolis-Hastings weights on an undirected graph: symmetric, hence doubly stochastic.

        W[i, j] = 1 / max(|N_i|, |N_j|) on edges, N_i counting i itself; W[i, i] = 1 - the rest.

    Args:
        n: number of ranks.
        edges: (m, 2) int, each undirected edge once, no loops.
    Ref: the rule of BlueFog's MeshGrid2DGraph; Hastings 1970.
    """
    edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    i, j = edges.T
    size = 1 + np.bincount(edges.ravel(), minlength=n)
    w = 1.0 / np.maximum(size[i], size[j])
    remainder = 1.0 - np.bincount(edges.ravel(), weights=np.repeat(w, 2), minlength=n)
    ranks = np.arange(n)
    W = csr_array(
        (
            np.concatenate([remainder, w, w]),
            (np.concatenate([ranks, i, j]), np.concatenate([ranks, j, i])),
        ),
        shape=(n, n),
    )
    W.sum_duplicates()
    return Sparse(W)


def bytes_sent(W: Mixing, message: int) -> np.ndarray:
    """Bytes each rank sends to other servers to mix `message` bytes once, shape (n,), int64.

    A rank sends its message to each out-neighbor. W = J counts as a ring all-reduce in every
    engine: 2 (n - 1) / n messages. Where servers have several ranks, n counts servers, their
    leaders send and the other ranks count 0: what stays inside a server is no network traffic.
    Ref: Patarasuk & Yuan 2009.
    """
    n = W.between.n
    sent = np.zeros(W.n, dtype=np.int64)
    if W.is_exact_average:
        sent[:: W.local_size] = round(2 * (n - 1) / n * message)
    else:
        sent[:: W.local_size] = W.between.out_degrees * message
    return sent
