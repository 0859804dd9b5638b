"""Schedules whose matrices are all diagonal in one orthonormal basis, as their eigenvalues.

Of such a schedule (normal matrices that commute) nothing but the eigenvalues counts for what
noise and heterogeneity do on average, so that n^2 numbers a step become n. Found are

- graphs that look the same from every rank: W[i, j] depends on i - j alone, by coordinates, over
  a grid that wraps around. One dimension is a circulant (exponential graphs, ring), two a torus,
  log2 n dimensions of two a hypercube, with one peer or all; the basis is Fourier's (Walsh's);
- one normal matrix for all steps (symmetric ones are), by a dense eigensolver.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from expograph.graphs.forms import Circulant
from expograph.graphs.mixing import Mixing
from expograph.graphs.schedule import Topology, ceil_log2
from expograph.graphs.static import grid_shape

MOST_DENSE = 1024  # ranks of schedules without a common basis: n^3 work
MOST = 4096  # ranks: of a dense eigensolver, and of what a run of the recursions takes
PROBED = 8  # steps of a random schedule by which it is told whether all are circulant
ROUNDING = 1e-12


@dataclass(frozen=True)
class Modes:
    """A schedule in the basis that its matrices share.

    Attributes:
        n: number of ranks.
        period: as in `Topology`.
        at: step k >= 0 -> the eigenvalues of W(k), (n - 1,), that of the constant vector left
            out; entry m belongs to the same vector at every step. Real if every W is symmetric.
    """

    n: int
    period: int | None
    at: Callable[[int], np.ndarray]


def modes_of(topology: Topology) -> Modes | None:
    """The modes of a schedule; None if its matrices share no basis that is looked for here.

    Raises:
        ValueError: for more than 4,096 ranks.
    """
    if topology.n > MOST:
        raise ValueError(f"{topology.name}: modes of at most {MOST:,} ranks, got {topology.n:,}")
    if topology.period is None:
        return _of_random(topology)
    steps = [topology.at(k) for k in range(topology.period)]
    values = _of_translations(steps)
    if values is None and len(steps) == 1:
        values = _of_normal(steps[0])
    if values is None:
        return None
    return Modes(topology.n, topology.period, lambda k: values[k % len(values)])


def check_dense(topology: Topology) -> None:
    """Refuse a schedule without modes that is too large for (n, n) arrays.

    Raises:
        ValueError: for more than 1,024 ranks.
    """
    if topology.n > MOST_DENSE:
        raise ValueError(
            f"{topology.name}: its matrices share no basis: at most {MOST_DENSE:,} ranks, "
            f"got {topology.n:,}"
        )


def _of_random(topology: Topology) -> Modes | None:
    if not all(isinstance(topology.at(k), Circulant) for k in range(PROBED)):
        return None

    def at(k: int) -> np.ndarray:
        W = topology.at(k)
        assert isinstance(W, Circulant), f"{topology.name}: step {k} is of another kind"
        return W.eigenvalues()[1:]

    return Modes(topology.n, None, at)


def _of_translations(steps: list[Mixing]) -> np.ndarray | None:
    """Eigenvalues (steps, n - 1) if all look alike from every rank of one grid."""
    n = steps[0].n
    shapes = [(n,), grid_shape(n)]
    if n == 1 << ceil_log2(n):
        shapes.append((2,) * ceil_log2(n))
    for shape in shapes:
        found = [v for W in steps if (v := _spectrum(W, shape)) is not None]
        if len(found) == len(steps):
            values = np.stack(found)
            return values.real if np.abs(values.imag).max(initial=0) < ROUNDING else values
    return None


def _spectrum(W: Mixing, shape: tuple[int, ...]) -> np.ndarray | None:
    """Eigenvalues (n - 1,) of W, in Fourier order, if W[i, j] = w[i - j] on a grid that wraps."""
    if isinstance(W, Circulant) and len(shape) == 1:
        return W.eigenvalues()[1:]
    entries = W.csr.tocoo()
    receivers, senders = (np.unravel_index(rank, shape) for rank in entries.coords)
    apart = [(i - j) % side for i, j, side in zip(receivers, senders, shape, strict=True)]
    where = np.ravel_multi_index(apart, shape)
    w = np.zeros(W.n)
    w[where] = entries.data
    everywhere = entries.nnz == W.n * np.count_nonzero(w)
    if not everywhere or np.abs(entries.data - w[where]).max() > ROUNDING:
        return None
    return np.fft.fftn(w.reshape(shape)).ravel()[1:]


def _of_normal(W: Mixing) -> np.ndarray | None:
    """Eigenvalues (1, n - 1) of one normal matrix; None if W W^T is not W^T W."""
    if abs(W.csr @ W.csr.T - W.csr.T @ W.csr).max() > ROUNDING:
        return None
    rest = W.dense() - 1 / W.n  # the constant vector's eigenvalue 1 becomes 0
    symmetric = np.abs(rest - rest.T).max() <= ROUNDING
    values = np.linalg.eigvalsh(rest) if symmetric else np.linalg.eigvals(rest)
    return np.delete(values, np.abs(values).argmin())[None]
