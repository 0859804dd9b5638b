"""What mixing matrices imply: spectral gap, contraction, exact averaging of a schedule.

Circulant matrices go through the FFT (n = 2^20 in a fraction of a second), small others through
dense eigenvalues, large others through Lanczos or Arnoldi iterations on W - J.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigs, eigsh, svds

from expograph.graphs.forms import Circulant
from expograph.graphs.mixing import Mixing
from expograph.graphs.schedule import Topology

ROUNDING = 1e-13  # relative: what is left of an exact average
POWER_STEPS = 200
DENSE_LIMIT = 1500  # above it the cubic dense solvers lose to the iterative ones
VECTORS = 64  # that ARPACK keeps: its default of 20 takes five times as long on a path


def is_doubly_stochastic(W: Mixing, tol: float = 1e-12) -> bool:
    """Whether entries are >= 0 and all rows and columns sum to 1: what keeps the mean fixed."""
    sums = np.concatenate([W.column_sums, W.row_sums])
    return not W.has_negative and bool(np.allclose(sums, 1, rtol=0, atol=tol))


def is_symmetric(W: Mixing, tol: float = 1e-12) -> bool:
    """Whether W = W^T."""
    if isinstance(W, Circulant):
        return all(abs(w - W.weights.get(-o % W.n, 0.0)) <= tol for o, w in W.weights.items())
    return bool(abs(W.csr - W.csr.T).max() <= tol)


def rho(W: Mixing) -> float:
    """Largest modulus of an eigenvalue of W - J, for doubly stochastic W; 0 if n = 1.

    W - J has the eigenvalues of W with the one of the constant vector replaced by 0.
    """
    if W.n == 1:
        return 0.0
    if isinstance(W, Circulant):
        return float(np.abs(W.eigenvalues()[1:]).max())
    symmetric = is_symmetric(W)
    if W.n <= DENSE_LIMIT:
        deviation = W.dense() - 1 / W.n
        values = np.linalg.eigvalsh(deviation) if symmetric else np.linalg.eigvals(deviation)
        return float(np.abs(values).max())
    deviation, v0 = _deviation([W]), _start_vector(W.n)
    if _is_zero(deviation):
        return 0.0
    solver = eigsh if symmetric else eigs
    try:
        options = {"ncv": min(VECTORS, W.n), "v0": v0, "return_eigenvectors": False}
        values = solver(deviation, k=1, which="LM", **options)
    except ArpackNoConvergence as e:
        values = e.eigenvalues if len(e.eigenvalues) else np.array([_norm(deviation)])
    return float(np.abs(values).max())


def spectral_gap(W: Mixing) -> float:
    """1 - rho(W). For one matrix only: judge a time-varying topology by `contraction` of a window.

    Ref: Ying et al. 2021, Proposition 1 (static exponential graph).
    """
    return 1.0 - rho(W)


def contraction(window: Sequence[Mixing]) -> float:
    """||W(k+m-1) ... W(k) - J||_2 of the m matrices in `window`, applied in that order.

    For one normal matrix (symmetric or circulant) this is rho. Zero means that the window
    averages exactly.
    """
    n = window[0].n
    if n == 1:
        return 0.0
    circulants = [W for W in window if isinstance(W, Circulant)]
    if len(circulants) == len(window):
        modes = np.ones(n, dtype=complex)
        for circulant in circulants:
            modes *= circulant.eigenvalues()
        return float(np.abs(modes[1:]).max())
    if n <= DENSE_LIMIT:
        product = np.eye(n)
        for W in window:
            product = W.csr @ product
        return float(np.linalg.norm(product - 1 / n, ord=2))
    return _norm(_deviation(window))


def window_of(topology: Topology, start: int, steps: int) -> list[Mixing]:
    """W(start), ..., W(start + steps - 1)."""
    return [topology.at(k) for k in range(start, start + steps)]


def averages_exactly(topology: Topology, start: int, steps: int, tol: float = 1e-12) -> bool:
    """Whether `steps` consecutive matrices from step `start` multiply to J, up to rounding.

    Ref: Ying et al. 2021, Lemma 1 (one-peer exponential, steps = log2 n, n a power of two).
    """
    return contraction(window_of(topology, start, steps)) <= tol


def exact_after(topology: Topology, most: int, tol: float = 1e-12) -> int | None:
    """After how many steps from step 0, at most `most`, the product is J; None if after none."""
    if topology.n > DENSE_LIMIT:
        within = (
            steps for steps in range(1, most + 1) if averages_exactly(topology, 0, steps, tol)
        )
        return next(within, None)
    product = np.eye(topology.n)
    for k in range(most):
        product = topology.at(k).csr @ product
        if np.linalg.norm(product - 1 / topology.n) <= tol:
            return k + 1
    return None


def _deviation(window: Sequence[Mixing]) -> LinearOperator:
    """x -> (W(k+m-1) ... W(k) - J) x without ever forming the product."""

    def forward(x: np.ndarray) -> np.ndarray:
        y = x
        for W in window:
            y = W.csr @ y
        return np.asarray(y - x.mean(axis=0))

    def adjoint(x: np.ndarray) -> np.ndarray:
        y = x
        for W in reversed(window):
            y = W.csr.T @ y
        return np.asarray(y - x.mean(axis=0))

    n = window[0].n
    return LinearOperator((n, n), matvec=forward, rmatvec=adjoint, dtype=np.float64)


def _is_zero(operator: LinearOperator) -> bool:
    """Whether nothing but rounding is left: Krylov methods start from what it makes of a vector."""
    v = _start_vector(operator.shape[0])
    return float(np.linalg.norm(operator @ v)) <= ROUNDING * float(np.linalg.norm(v))


def _norm(operator: LinearOperator) -> float:
    """The largest singular value, also of an operator that is zero up to rounding.

    Of one that annihilates all but a few directions ARPACK finds no basis to start from; power
    iteration then finds the largest of them.
    """
    v = _start_vector(operator.shape[0])
    image = operator @ v
    if _is_zero(operator):
        return float(np.linalg.norm(image) / np.linalg.norm(v))
    try:
        return float(svds(operator, k=1, return_singular_vectors=False, v0=v)[0])
    except ArpackError:
        for _ in range(POWER_STEPS):
            v = operator.rmatvec(operator @ v)
            v /= np.linalg.norm(v)
        return float(np.linalg.norm(operator @ v))


def _start_vector(n: int) -> np.ndarray:
    # a fixed start keeps the iterative solvers deterministic
    return np.random.default_rng(0).standard_normal(n)
