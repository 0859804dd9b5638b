"""Two numbers of a schedule: how far noise, and unlike data, keep the ranks apart.

Decentralized SGD (adapt, then combine) with a small constant step size lr, gradient noise of
variance sigma^2 on every rank, and local minimisers that pull the ranks apart by zeta:

    1/n sum_i E |x_i - x_bar|^2  ->  lr^2 (sigma^2 S + zeta^2 H) / n

    S = sum over t >= 1 of (|W(k) ... W(k-t+1)|_F^2 - 1)
    H = |sum over t >= 1 of (W(k) ... W(k-t+1) - J)|_F^2

each a mean over the steps k of the schedule. Noise is fresh at every step, so that squares are
summed; the pull is the same at every step, so that it is summed first and squared then. sigma^2 and
zeta^2 are sums over coordinates; the ranks' minimisers are drawn independently, so that ranks that
are neighbours have no more in common than others. One normal W with the eigenvalues lambda, but for
the 1 of the constant vector:

    S = sum |lambda|^2 / (1 - |lambda|^2)       H = sum |lambda / (1 - lambda)|^2

One-peer exponential over n = 2^t: S = n - 1 - t in whatever order of the steps (ours), H < 3 n.

Derived by us. Close relatives: the effective number of neighbours of Vogels et al. 2022,
arXiv:2206.03093, is S with damping, n / (1 + (1 - gamma) S_gamma); in the rate of Takezawa,
Koloskova & Stich 2026, arXiv:2606.09154, all eigenvalues of a static W count.
"""

from collections.abc import Callable

import numpy as np

from expograph.graphs.mixing import Mixing
from expograph.graphs.modes import Modes, check_dense, modes_of
from expograph.graphs.schedule import Topology

RANDOM_STEPS = 2048  # over which a random schedule is averaged, after as many
DOUBLINGS = 64  # of the number of periods that are summed

Step = Callable[[int, np.ndarray], np.ndarray]  # (k, v) -> the next v
Size = Callable[[np.ndarray], float]


def S(topology: Topology, random_steps: int = RANDOM_STEPS) -> float:
    """What noise leaves: the sum over past steps of |W(k) ... W(k-t+1)|_F^2 - 1, mean over k.

    Exact up to rounding for periodic schedules; infinite if the schedule does not connect all
    ranks. Of a random schedule it is the mean over `random_steps` of its steps, after as many.

    Raises:
        ValueError: for more than 4,096 ranks; for more than 1,024 if the matrices have no basis
            in common (see `modes`).
    """
    modes = modes_of(topology)
    if modes is None:
        return _dense_mean(topology, random_steps, _noise_step, _noise_limit, np.trace)

    def step(k: int, v: np.ndarray) -> np.ndarray:
        return np.asarray(np.abs(modes.at(k)) ** 2 * (v + 1))

    return _mean(modes, random_steps, step, lambda k: np.abs(modes.at(k)) ** 2, np.sum)


def H(topology: Topology, random_steps: int = RANDOM_STEPS) -> float:
    """What a steady pull leaves: |sum over past steps of W(k) ... W(k-t+1) - J|_F^2, mean over k.

    Accuracy, random schedules and errors are as in `S`.
    """
    modes = modes_of(topology)
    if modes is None:
        return _dense_mean(topology, random_steps, _pull_step, _pull_limit, _square)

    def step(k: int, u: np.ndarray) -> np.ndarray:
        return np.asarray(modes.at(k) * (u + 1))

    return _mean(modes, random_steps, step, modes.at, _square)


def _square(a: np.ndarray) -> float:
    return float(np.vdot(a, a).real)


def _mean(
    modes: Modes,
    random_steps: int,
    step: Step,
    factor: Callable[[int], np.ndarray],
    size: Size,
) -> float:
    """Mean of size(v) over the steps of v <- step(k, v), linear with `factor` a mode, when settled.

    After a period v is a v + c, whatever it was before: from its fixed point c / (1 - a) on, the
    period repeats itself.
    """
    v = np.zeros(modes.n - 1)
    if modes.period is None:
        return _mean_of_steps(random_steps, step, size, v, before=random_steps)
    a = np.ones(modes.n - 1)
    for k in range(modes.period):
        v, a = step(k, v), a * factor(k)
    if (np.abs(a) >= 1 - 1e-14).any():
        return float("inf")
    return _mean_of_steps(modes.period, step, size, v / (1 - a))


def _mean_of_steps(number: int, step: Step, size: Size, v: np.ndarray, before: int = 0) -> float:
    """Mean of size(v) over so many steps, after `before` that are not counted."""
    sizes = []
    for k in range(before + number):
        v = step(k, v)
        sizes.append(size(v))
    return float(np.mean(sizes[before:]))


def _dense_mean(
    topology: Topology,
    random_steps: int,
    step: Callable[[Mixing, np.ndarray], np.ndarray],
    limit: Callable[[np.ndarray, np.ndarray], np.ndarray | None],
    size: Size,
) -> float:
    """The same over (n, n) arrays; `limit` finds the fixed point of a period."""
    check_dense(topology)
    n = topology.n
    identity, start = np.eye(n) - 1 / n, np.zeros((n, n))

    def at(k: int, v: np.ndarray) -> np.ndarray:
        return step(topology.at(k), v + identity)

    if topology.period is None:
        return _mean_of_steps(random_steps, at, size, start, before=random_steps)
    v, product = start, identity
    for k in range(topology.period):
        v, product = at(k, v), topology.at(k).csr @ product
    settled = limit(product, v)
    return float("inf") if settled is None else _mean_of_steps(topology.period, at, size, settled)


def _noise_step(W: Mixing, v: np.ndarray) -> np.ndarray:
    return np.asarray(W.csr @ (W.csr @ v).T)  # v is symmetric: W v W^T, transposed


def _pull_step(W: Mixing, v: np.ndarray) -> np.ndarray:
    return np.asarray(W.csr @ v)


def _noise_limit(product: np.ndarray, c: np.ndarray) -> np.ndarray | None:
    """V = P V P^T + C, as the sum of P^j C P^jT, twice as many terms at a time."""
    for _ in range(DOUBLINGS):
        if np.linalg.norm(product) < 1e-16:
            return c
        c, product = c + product @ c @ product.T, product @ product
    return None


def _pull_limit(product: np.ndarray, c: np.ndarray) -> np.ndarray | None:
    """U = P U + C."""
    shrinks = np.linalg.norm(product) < 0.5  # the eigenvalues are known to be small
    if not shrinks and np.abs(np.linalg.eigvals(product)).max() >= 1 - 1e-12:
        return None
    return np.linalg.solve(np.eye(len(product)) - product, c)
