"""One step's mixing matrix W, held by its nonzeros and never as an (n, n) array.

`W[i, j]` is the weight that rank i puts on what it receives from rank j, so that one step is
`x <- W @ x` and rows are receivers. (BlueFog's `topology_util` stores the transpose: its rows
are senders.)

What a matrix is - an exact average, a permutation, who sends to whom and how much - is computed
here, once, from its entries. `graphs.forms` has matrices that know some of the answers without
looking at every entry; a test holds them against the answers from here.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.sparse import csc_array, csr_array

Stochastic = Literal["doubly", "row", "column"]  # which sums of a matrix are one
ROUNDING = 1e-9  # relative: weights that are nearer to each other than this are equal


class Mixing:
    """All that is asked of a mixing matrix, answered from its entries; a subclass gives n and csr.

    Attributes:
        n: number of ranks.
        csr: W as a scipy CSR array of shape (n, n), float64, without stored zeros.
        local_size: ranks of a server; 1 for all but `Hierarchical`.
    """

    n: int
    csr: csr_array
    local_size: int = 1

    @property
    def between(self) -> "Mixing":
        """The mixing of the servers, (n / local_size) rows: W itself where a rank is a server."""
        return self

    @property
    def entries(self) -> int:
        """Number of weights that are not zero."""
        return int(self.csr.nnz)

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
    def in_degrees(self) -> np.ndarray:
        """In-neighbors of each rank, self left out, shape (n,)."""
        return np.asarray(np.diff(self.csr.indptr) - (self.csr.diagonal() != 0))

    @cached_property
    def out_degrees(self) -> np.ndarray:
        """Out-neighbors of each rank, self left out, shape (n,)."""
        received = np.bincount(self.csr.indices, minlength=self.n)
        return np.asarray(received - (self.csr.diagonal() != 0))

    @cached_property
    def row_sums(self) -> np.ndarray:
        """W 1, shape (n,): all ones if W is row stochastic."""
        return np.asarray(self.csr.sum(axis=1))

    @cached_property
    def column_sums(self) -> np.ndarray:
        """W^T 1, shape (n,): all ones if W is column stochastic, which keeps the mean."""
        return np.asarray(self.csr.sum(axis=0))

    @property
    def row_stochastic(self) -> bool:
        """Whether every rank takes in a weighted average: no weight below 0, rows sum to one."""
        return not self.has_negative and equal(self.row_sums, 1)

    @property
    def column_stochastic(self) -> bool:
        """Whether every rank gives away all of its model and no more: the sum over ranks stays."""
        return not self.has_negative and equal(self.column_sums, 1)

    def is_(self, stochastic: Stochastic) -> bool:
        """Whether rows, columns or both ("doubly") sum to one, and no weight is below zero."""
        rows = stochastic == "column" or self.row_stochastic
        return rows and (stochastic == "row" or self.column_stochastic)

    @property
    def has_negative(self) -> bool:
        """Whether a weight is below zero."""
        return bool((self.csr.data < 0).any())

    @cached_property
    def is_exact_average(self) -> bool:
        """Whether W is J = 11^T / n, which every engine computes as one all-reduce."""
        return self.entries == self.n**2 and equal(self.n * self.csr.data, 1)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether W = W^T."""
        return self.is_exact_average or equal((self.csr - self.csr.T).data, 0)

    @cached_property
    def permutation(self) -> tuple[np.ndarray, float] | None:
        """(peer, w) if W = (1 - w) I + w P with (P x)_i = x_peer[i]; None for other matrices.

        The identity is (0 ... n-1, 0.0). A rank that is its own peer keeps its row.
        """
        if self.entries > 2 * self.n or self.in_degrees.max() > 1:
            return None
        if (self.in_degrees != self.out_degrees).any():
            return None
        receivers, senders = self.csr.nonzero()
        moved = receivers != senders
        peer = np.arange(self.n)
        peer[receivers[moved]] = senders[moved]
        weights = self.csr.data[moved]
        weight = float(weights[0]) if len(weights) else 0.0
        kept = np.where(self.in_degrees, 1 - weight, 1.0)
        if (weights == weight).all() and equal(self.csr.diagonal(), kept):
            return peer, weight
        return None

    @cached_property
    def messages(self) -> np.ndarray:
        """Whole buffers that each rank sends to other servers, shape (n,), fractions allowed.

        A rank sends its buffer to each out-neighbor. W = J counts as a ring all-reduce in every
        engine: 2 (n - 1) / n messages. Where servers have several ranks, n counts servers, their
        leaders send and the other ranks count 0: what stays inside a server is no network
        traffic. Ref: Patarasuk & Yuan 2009.
        """
        if self.is_exact_average:
            return np.full(self.n, 2 * (self.n - 1) / self.n)
        return self.out_degrees.astype(float)

    def dense(self) -> np.ndarray:
        """W as an (n, n) array: for mathematics and tests, never on the training path."""
        return np.asarray(self.csr.toarray())

    @cached_property
    def _csc(self) -> csc_array:
        return self.csr.tocsc()


def equal(a: np.ndarray, b: np.ndarray | float) -> bool:
    """Whether a and b are the same up to rounding."""
    return bool((np.abs(a - b) <= ROUNDING).all())


def bytes_sent(messages: np.ndarray | float, message: int) -> np.ndarray:
    """Bytes of so many messages, to the nearest byte, int64: how every engine counts.

    Args:
        messages: as in `Mixing.messages`, of all ranks or of one.
        message: bytes of a rank's buffer, of all arrays of one averaging call together.
    """
    rounded: np.ndarray = np.rint(np.asarray(messages) * message)
    return rounded.astype(np.int64)


@dataclass(frozen=True)
class Sparse(Mixing):
    """Any mixing matrix, given as its CSR array (n, n); stored zeros are left out."""

    csr: csr_array
    n: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the entries canonical: each once, in order, none of them zero."""
        clean = csr_array(self.csr, dtype=np.float64, copy=True)
        clean.sum_duplicates()
        clean.eliminate_zeros()
        object.__setattr__(self, "csr", clean)
        object.__setattr__(self, "n", clean.shape[0])


def from_coordinates(
    n: int, weights: np.ndarray, receivers: np.ndarray, senders: np.ndarray
) -> csr_array:
    """CSR array (n, n) of its entries; those of one place are summed, zeros left out."""
    W = csr_array((weights, (receivers, senders)), shape=(n, n))
    W.sum_duplicates()
    W.eliminate_zeros()
    return W
