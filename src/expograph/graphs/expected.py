"""The expected error of decentralized SGD on quadratics, exact, for every step and any step sizes.

Rank i minimises f_i(x) = h/2 |x - b_i|^2 from the same start x(0) as all others; its gradients have
independent noise of variance sigma2; the b_i are drawn independently around the common minimiser
x* = mean of b_i, so that h^2 |b_i - x*|^2 is zeta2 (n - 1) / n in expectation. Then x is linear
in noise and b, and second moments follow a recursion: of one vector a mode where the matrices share
a basis (`modes`), of an (n, n) covariance where they do not. No bound, no constant to fit; noise
that depends on x, and Hessians that differ, are left out.

The mean of the models is what the same rule gives over exact averaging: parallel SGD is not
computed apart. Derived by us; n to 4,096 with modes, to 1,024 without.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from expograph.graphs.modes import Modes, check_dense, modes_of
from expograph.graphs.schedule import Topology


@dataclass(frozen=True)
class Quadratic:
    """A problem by what counts in expectation; the three variances are sums over coordinates.

    Attributes:
        sigma2: variance of a rank's gradient noise.
        zeta2: variance of the ranks' gradients at the common minimiser, over independent draws.
        initial2: |x(0) - x*|^2.
        curvature: h, the one eigenvalue of all Hessians. Where they differ by coordinate, in the
            same way on every rank, errors are sums over coordinates.
    """

    sigma2: float
    zeta2: float = 0.0
    initial2: float = 0.0
    curvature: float = 1.0


class Rule(NamedTuple):
    """An update rule as z <- L (M z + N g0), with z = (x, ...) of s vectors a rank.

    Attributes:
        step: (lr, beta, h) -> M (s, s) and N (s,); h x is in M, g0 is the rest of the gradient.
        averaged: of each of the s vectors, whether L averages it by W or leaves it with its rank.
    """

    step: Callable[[float, float, float], tuple[np.ndarray, np.ndarray]]
    averaged: tuple[bool, ...]


def _sgd(lr: float, beta: float, h: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([[1 - lr * h]]), np.array([-lr])


def _current(lr: float, beta: float, h: float) -> tuple[np.ndarray, np.ndarray]:
    """m^+ = beta m + g, x^+ = x - lr m^+."""
    return np.array([[1 - lr * h, -lr * beta], [h, beta]]), np.array([-lr, 1.0])


def _delayed(lr: float, beta: float, h: float) -> tuple[np.ndarray, np.ndarray]:
    """m^+ = beta m + g, x^+ = x - lr m."""
    return np.array([[1.0, -lr], [h, beta]]), np.array([0.0, 1.0])


RULES: dict[str, Rule] = {
    "dsgd_atc": Rule(_sgd, (True,)),  # x <- W (x - lr g)
    "dmsgd": Rule(_current, (True, True)),  # m <- W (beta m + g), x <- W (x - lr (beta m + g))
    "dmsgd_delayed": Rule(_delayed, (True, True)),  # the same, x <- W (x - lr m)
    "vanilla_dmsgd": Rule(_current, (True, False)),  # m <- beta m + g, x <- W (x - lr m)
}


class ExpectedError(NamedTuple):
    """Squared distances to x* after 0, 1, ..., T steps, in expectation; shapes (T + 1,).

    Attributes:
        mean: E |x_bar - x*|^2, which is parallel SGD's error by the same rule.
        consensus: 1/n sum_i E |x_i - x_bar|^2.
    """

    mean: np.ndarray
    consensus: np.ndarray

    @property
    def workers(self) -> np.ndarray:
        """1/n sum_i E |x_i - x*|^2."""
        return np.asarray(self.mean + self.consensus)


def expected_error(
    topology: Topology,
    problem: Quadratic,
    step_sizes: Sequence[float] | np.ndarray,
    beta: float = 0.0,
    rule: str = "dsgd_atc",
) -> ExpectedError:
    """The error of each step, in expectation over noise and over the placement of the b_i.

    Args:
        topology: a schedule of doubly stochastic matrices. Of a random one this is the error over
            its very draws.
        problem: what is minimised.
        step_sizes: (T,) of the steps k = 0 ... T - 1.
        beta: momentum, 0 <= beta < 1; `dsgd_atc` has none.
        rule: a name of `RULES`.
    Raises:
        ValueError: for an unknown rule, for more than 4,096 ranks, or for more than 1,024 if
            the matrices have no basis in common.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    step, averaged = RULES[rule]
    space, n, s = _space_of(topology, averaged), topology.n, len(averaged)
    moment = np.zeros((s, s))  # of the mean over ranks
    moment[0, 0] = problem.initial2
    covariance, response = space.zero((s, s)), space.zero((s,))
    mean, consensus = [moment[0, 0]], [0.0]
    for k, lr in enumerate(step_sizes):
        M, N = step(float(lr), beta, problem.curvature)
        noise = problem.sigma2 * np.outer(N, N)
        moment = M @ moment @ M.T + noise / n
        covariance = space.averaged_pair(k, _through(M, covariance) + _times(noise, space.unit))
        spread = space.trace(covariance[0, 0])
        if problem.zeta2:
            # of each b at once: to a unit of gradient that always pulls the same way
            response = np.tensordot(M, response, 1) + _times(N, space.unit)
            response = space.averaged(k, response)
            spread += problem.zeta2 * np.vdot(response[0], response[0]).real
        mean.append(moment[0, 0])
        consensus.append(spread / n)
    return ExpectedError(np.array(mean), np.array(consensus))


def _through(M: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """M C M^T on the first two axes (s, s, ...)."""
    half = np.tensordot(M, covariance, 1).swapaxes(0, 1)
    return np.tensordot(M, half, 1).swapaxes(0, 1)


def _times(small: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Every entry of an array (s, ...) times the whole of `unit`."""
    return np.asarray(np.multiply.outer(small, unit))


class _Space(Protocol):
    """Where the deviations from the mean live: by modes, or by pairs of ranks.

    `unit` is the covariance of unit noise without its mean, and the response to a unit pull.
    """

    unit: np.ndarray

    def zero(self, shape: tuple[int, ...]) -> np.ndarray: ...

    def averaged(self, k: int, response: np.ndarray) -> np.ndarray: ...

    def averaged_pair(self, k: int, covariance: np.ndarray) -> np.ndarray: ...

    def trace(self, covariance: np.ndarray) -> float: ...


class _ModeSpace:
    """A number a mode: the covariance of different modes never meets the error."""

    def __init__(self, modes: Modes, mask: tuple[bool, ...]) -> None:
        self.modes, self.mask = modes, np.array(mask)
        self.unit = np.ones(modes.n - 1)

    def zero(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros((*shape, self.modes.n - 1))

    def factors(self, k: int) -> np.ndarray:
        """What step k multiplies each vector of each mode by, (s, n - 1)."""
        return np.where(self.mask[:, None], self.modes.at(k), 1)

    def averaged(self, k: int, response: np.ndarray) -> np.ndarray:
        return np.asarray(self.factors(k) * response)

    def averaged_pair(self, k: int, covariance: np.ndarray) -> np.ndarray:
        factors = self.factors(k)
        return np.asarray(covariance * (factors[:, None] * factors[None].conj()))

    def trace(self, covariance: np.ndarray) -> float:
        return float(covariance.sum().real)


class _RankSpace:
    """(n, n) arrays, for matrices without a common basis."""

    def __init__(self, topology: Topology, mask: tuple[bool, ...]) -> None:
        self.topology, self.mask = topology, mask
        self.unit = np.eye(topology.n) - 1 / topology.n

    def zero(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros((*shape, *self.unit.shape))

    def averaged(self, k: int, response: np.ndarray) -> np.ndarray:
        W = self.topology.at(k).csr
        return np.stack([W @ u if a else u for u, a in zip(response, self.mask, strict=True)])

    def averaged_pair(self, k: int, covariance: np.ndarray) -> np.ndarray:
        rows = [self.averaged(k, row.swapaxes(1, 2)) for row in covariance]  # of C_ab: (W C_ab^T)
        columns = np.stack(rows).swapaxes(0, 1).swapaxes(2, 3)
        return np.stack([self.averaged(k, column) for column in columns]).swapaxes(0, 1)

    def trace(self, covariance: np.ndarray) -> float:
        return float(np.trace(covariance))


def _space_of(topology: Topology, mask: tuple[bool, ...]) -> _Space:
    modes = modes_of(topology)
    if modes is not None:
        return _ModeSpace(modes, mask)
    check_dense(topology)
    return _RankSpace(topology, mask)
