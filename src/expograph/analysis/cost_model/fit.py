"""Parameters of the cost model from times that were measured or published."""

from collections.abc import Mapping

import numpy as np
from scipy.optimize import least_squares, nnls

from expograph.analysis.cost_model.model import (
    Cluster,
    Link,
    Workload,
    averaging_seconds,
    iterations,
    training_hours,
)
from expograph.graphs.topology import Topology, build


def fit(sizes: np.ndarray, seconds: np.ndarray) -> Link:
    """The link for which messages of `sizes` bytes take `seconds`, by relative least squares.

    Both arrays have shape (k,), k >= 2 and different sizes. alpha and beta are not negative.
    """
    sizes, seconds = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    columns = np.stack([np.ones_like(sizes), sizes], axis=1) / seconds[:, None]
    scale = columns.max(axis=0)  # bytes and seconds are many orders of magnitude apart
    (alpha, beta), _ = nnls(columns / scale, np.ones(len(sizes)))
    return Link(float(alpha / scale[0]), float(beta / scale[1]))


def fit_term(known: np.ndarray, term: np.ndarray, seconds: np.ndarray) -> float:
    """c >= 0 for which known + c term is nearest to `seconds`, by relative least squares.

    All arrays have shape (k,). Tells whether one more term explains what a formula misses.
    """
    known, term, seconds = (np.asarray(a, dtype=float) for a in (known, term, seconds))
    slope, missing = term / seconds, 1 - known / seconds
    return max(0.0, float(slope @ missing / (slope @ slope)))


def calibrated(cluster: Cluster, workload: Workload, topology: Topology, hours: float) -> Cluster:
    """`cluster` with the sample_seconds for which the training takes `hours`, all else kept.

    Raises:
        ValueError: if what of the averaging cannot hide takes as long, or longer.
    """
    iteration = 3600 * hours / iterations(cluster, workload, topology.n)
    averaging = averaging_seconds(cluster, workload, topology)
    compute = iteration - (1 - cluster.overlap) * averaging
    if compute <= 0 or compute < cluster.overlap * averaging:
        raise ValueError(f"{hours} h leave no time to compute: averaging takes {averaging:.3g} s")
    return cluster._replace(sample_seconds=compute / cluster.batch)


def fit_cluster(
    cluster: Cluster,
    workload: Workload,
    hours: Mapping[tuple[str, int], float],
    alpha: float | None = None,
) -> Cluster:
    """`cluster` with sample_seconds, between.alpha and overlap fitted to all `hours` together.

    Relative least squares, one set of parameters for every cell; everything else is kept.

    Args:
        hours: (topology, nodes) -> hours of the training.
        alpha: seconds a message, where it is not to be fitted.
    """
    cells = [(build(name, n), value) for (name, n), value in hours.items()]
    # as if nothing but computing took time: the largest sample_seconds that can be
    gamma = min(3600 * h / iterations(cluster, workload, t.n) for t, h in cells) / cluster.batch
    unit = gamma * cluster.batch / 100  # both are units, so that the search is among ones

    def at(x: np.ndarray) -> Cluster:
        found = float(x[2]) * unit if alpha is None else alpha
        return cluster._replace(
            sample_seconds=float(x[0]) * gamma,
            between=Link(found, cluster.between.beta),
            overlap=float(x[1]),
        )

    def errors(x: np.ndarray) -> np.ndarray:
        found = at(x)
        return np.array([training_hours(found, workload, t) / h - 1 for t, h in cells])

    alphas = (0.01, 1.0) if alpha is None else (None,)
    starts = [(0.8, phi, a) for a in alphas for phi in (0.1, 0.5, 0.9)]  # it has kinks
    searched = 3 if alpha is None else 2
    bounds = ([0] * searched, [np.inf, 1, np.inf][:searched])
    options = {"bounds": bounds, "ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
    found = (least_squares(errors, start[:searched], **options) for start in starts)
    return at(min(found, key=lambda r: r.cost).x)
