"""The graphs that every comparison has: the same at every step, for any n.

Undirected ones have Metropolis weights, which are symmetric; exponential graphs are directed, with
equal weights.
"""

import numpy as np

from expograph.graphs.forms import Circulant, metropolis
from expograph.graphs.schedule import Topology, ceil_log2, cyclic
from expograph.randomness import TOPOLOGY, generator

HALF_RANDOM_MOST = 8192  # ranks: its pairs are drawn all at once


def fully_connected(n: int) -> Topology:
    """W = J = 11^T / n: exact averaging each step, which is parallel SGD."""
    return cyclic("fully_connected", [Circulant(n, dict.fromkeys(range(n), 1 / n))])


def ring(n: int) -> Topology:
    """Each rank averages with the one before and the one after it, all weights 1/3 (n >= 3)."""
    offsets = sorted({0, 1 % n, (n - 1) % n})
    return cyclic("ring", [Circulant(n, dict.fromkeys(offsets, 1 / len(offsets)))])


def star(n: int) -> Topology:
    """Rank 0 is linked with every other rank; Metropolis weights, which are 1/n on each link."""
    leaves = np.arange(1, n)
    return cyclic("star", [metropolis(n, np.stack([0 * leaves, leaves], axis=1))])


def grid_shape(n: int) -> tuple[int, int]:
    """(rows, columns), the two closest factors of n with rows <= columns."""
    rows = next(r for r in range(int(n**0.5) + 1, 0, -1) if n % r == 0 and r * r <= n)
    return rows, n // rows


def grid(n: int) -> Topology:
    """2D grid without wrap-around, ranks row by row; Metropolis weights.

    n is laid out as `grid_shape(n)`: a prime n becomes a path.
    """
    rank = np.arange(n).reshape(grid_shape(n))
    right = np.stack([rank[:, :-1].ravel(), rank[:, 1:].ravel()], axis=1)
    down = np.stack([rank[:-1].ravel(), rank[1:].ravel()], axis=1)
    return cyclic("grid", [metropolis(n, np.concatenate([right, down]))])


def torus(n: int) -> Topology:
    """2D grid with wrap-around; Metropolis weights, which are 1/5 where all degrees are 4."""
    rank = np.arange(n).reshape(grid_shape(n))
    links = [(rank, np.roll(rank, -1, axis)) for axis in (0, 1)]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in links])
    edges = np.unique(np.sort(edges, axis=1), axis=0)  # a side of 2 would link a pair twice
    return cyclic("torus", [metropolis(n, edges[edges[:, 0] != edges[:, 1]])])


def hypercube_edges(n: int, bit: int) -> np.ndarray:
    low = np.arange(n)
    low = low[(low >> bit) & 1 == 0]
    high = low | (1 << bit)
    return np.asarray(np.stack([low, high], axis=1)[high < n])


def hypercube(n: int) -> Topology:
    """Ranks whose numbers differ in one bit are linked; Metropolis weights.

    For n a power of two every weight is 1 / (1 + log2 n). Otherwise the links to missing ranks
    are left out (the incomplete hypercube, still connected).
    """
    edges = [hypercube_edges(n, bit) for bit in range(ceil_log2(n))]
    return cyclic("hypercube", [metropolis(n, np.concatenate([np.empty((0, 2), int), *edges]))])


def static_exponential(n: int) -> Topology:
    """Each rank hears itself and the ranks 1, 2, 4, ... before it, all weights 1 / (1 + tau).

    tau = ceil(log2 n) counts the powers of two below n. Spectral gap 2 / (1 + tau) for even n,
    larger for odd n. Ref: Ying et al. 2021, Proposition 1; BlueFog ExponentialTwoGraph.
    """
    offsets = [0, *(2**t for t in range(ceil_log2(n)))]
    return cyclic("static_exponential", [Circulant(n, dict.fromkeys(offsets, 1 / len(offsets)))])


def half_random(n: int, *, seed: int = 0) -> Topology:
    """Every pair is linked with probability 1/2, drawn once and kept; Metropolis weights.

    Drawn again until the graph is connected, without which no averaging would reach all ranks.

    Raises:
        ValueError: for more than 8,192 ranks: 34 million pairs are drawn.
    """
    if n > HALF_RANDOM_MOST:
        raise ValueError(f"half_random: at most {HALF_RANDOM_MOST:,} ranks, got {n:,}")
    from scipy.sparse.csgraph import connected_components  # slow to import: not for every config

    upper = np.stack(np.triu_indices(n, k=1), axis=1)
    for attempt in range(10_000):
        coins = generator(seed, TOPOLOGY, attempt).random(len(upper)) < 0.5
        W = metropolis(n, upper[coins])
        if connected_components(W.csr, directed=False, return_labels=False) == 1:
            return cyclic("half_random", [W], seed)
    raise RuntimeError(f"half_random drew no connected graph for n = {n}, seed = {seed}")
