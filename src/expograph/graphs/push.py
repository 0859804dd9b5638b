"""Directed graphs over which a rank decides alone whom it sends to: column stochastic matrices.

What a rank sends out sums to one, so the sum over all ranks stays; what it takes in does not, so
that an average needs push-sum's weights, x <- W x, w <- W w, and x / w is read. Rules whose
matrices must be doubly stochastic refuse them. (`one_peer.directed_exponential`, also push-sum's,
is doubly stochastic.)
"""

import numpy as np

from expograph.graphs.mixing import Mixing, Sparse, from_coordinates
from expograph.graphs.schedule import Topology, Undefined, at_least, cyclic, drawn
from expograph.randomness import TOPOLOGY, generator


def uniform_gossip(n: int, *, seed: int = 0) -> Topology:
    """At each step every rank keeps half and sends half to one other rank, drawn anew.

    A rank may hear several others, or none. Ref: Kempe, Dobra & Gehrke 2003, push-sum.
    """

    def at(k: int) -> Mixing:
        ahead = generator(seed, TOPOLOGY, k).integers(1, max(n, 2), size=n)
        return _sent(n, ((np.arange(n) + ahead) % n)[:, None])

    return drawn("uniform_gossip", n, at, seed)


def directed_random(n: int, *, peers: int = 2, seed: int = 0) -> Topology:
    """Every rank sends to `peers` others, drawn once and kept; it keeps 1 / (1 + peers) of itself.

    One of them is the next on a random cycle through all ranks, so that all are connected.

    Args:
        n: number of ranks, more than `peers` (or 1).
        peers: how many a rank sends to, at least 1.
        seed: of the draw.
    Raises:
        Undefined: for fewer ranks.
    """
    at_least(1, peers=peers)
    if 1 < n <= peers:
        raise Undefined(f"needs more than peers = {peers} ranks")
    draws = generator(seed, TOPOLOGY)
    order = draws.permutation(n)
    to = np.empty((n, peers if n > 1 else 0), dtype=np.int64)
    for rank, following in zip(order, np.roll(order, -1), strict=True):
        if n > 1:
            others = np.setdiff1d(np.arange(n), [rank, following])
            to[rank] = following, *draws.choice(others, size=peers - 1, replace=False)
    return cyclic("directed_random", [_sent(n, to)], seed)


def _sent(n: int, receivers: np.ndarray) -> Sparse:
    """Rank j keeps and sends equal parts to `receivers[j]`, (n, peers)."""
    to = np.concatenate([np.arange(n)[:, None], receivers], axis=1)
    parts = to.shape[1]
    senders = np.repeat(np.arange(n), parts)
    return Sparse(from_coordinates(n, np.full(to.size, 1 / parts), to.ravel(), senders))
