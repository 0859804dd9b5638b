"""What one averaging step costs on a network: the alpha-beta model.

A message of m bytes takes alpha + beta m seconds on its link. A rank's messages of one step
share its link, so they follow each other; their latencies overlap.

    neighbours   alpha + degree beta m, degree the larger of the busiest rank's in and out
    all-reduce   2 (n - 1) (alpha + beta m / n), a ring
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from expograph.mixing import Mixing
from expograph.topology import Topology


class Link(NamedTuple):
    """A full-duplex link.

    Attributes:
        alpha: seconds a message takes however short it is.
        beta: seconds a byte.
    """

    alpha: float
    beta: float


def fit(sizes: np.ndarray, seconds: np.ndarray) -> Link:
    """The link for which messages of `sizes` bytes take `seconds`, by relative least squares.

    Both arrays have shape (k,), k >= 2 and different sizes. alpha and beta are not negative.
    """
    sizes, seconds = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    columns = np.stack([np.ones_like(sizes), sizes], axis=1) / seconds[:, None]
    scale = columns.max(axis=0)  # bytes and seconds are many orders of magnitude apart
    (alpha, beta), _ = nnls(columns / scale, np.ones(len(sizes)))
    return Link(float(alpha / scale[0]), float(beta / scale[1]))


def step_seconds(W: Mixing, message: int, link: Link) -> float:
    """Seconds to average `message` bytes a rank once with W."""
    if W.n == 1:
        return 0.0
    if W.is_exact_average:
        return 2 * (W.n - 1) * (link.alpha + link.beta * message / W.n)
    in_degrees = np.diff(W.csr.indptr) - (W.csr.diagonal() != 0)
    degree = int(max(W.out_degrees.max(), in_degrees.max()))
    return (link.alpha + link.beta * message * degree) if degree else 0.0


def mean_step_seconds(topology: Topology, message: int, link: Link, steps: int = 64) -> float:
    """`step_seconds` averaged over the topology's period, or over `steps` random ones."""
    counted = range(topology.period or steps)
    return float(np.mean([step_seconds(topology.at(k), message, link) for k in counted]))
