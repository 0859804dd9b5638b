"""Which samples a worker sees at a step: a pure function of (seed, rank, step)."""

from collections.abc import Sequence

import numpy as np

from expograph.randomness import BATCHES, generator


class Batches:
    """Mini-batches without replacement: a worker sees each of its samples once an epoch.

    Each epoch has an order of its own, drawn at the address (seed, rank, epoch). Batch k covers
    positions k B .. (k + 1) B - 1 of the endless sequence of epochs, so it may span two.
    """

    def __init__(
        self, shards: Sequence[np.ndarray], ranks: Sequence[int], batch_size: int, seed: int
    ) -> None:
        """`shards[rank]` holds the sample indices of a worker; `ranks` are the ones wanted here."""
        self.shards, self.ranks, self.batch_size, self.seed = shards, ranks, batch_size, seed
        self._orders: dict[int, dict[int, np.ndarray]] = {rank: {} for rank in ranks}

    def at(self, k: int) -> np.ndarray:
        """Sample indices of step k, shape (len(ranks), batch_size)."""
        positions = np.arange(k * self.batch_size, (k + 1) * self.batch_size)
        return np.stack([self._samples(rank, positions) for rank in self.ranks])

    def _samples(self, rank: int, positions: np.ndarray) -> np.ndarray:
        shard, orders = self.shards[rank], self._orders[rank]
        epochs, within = np.divmod(positions, len(shard))
        wanted = range(epochs[0], epochs[-1] + 1)
        for epoch in [e for e in orders if e not in wanted]:
            del orders[epoch]
        for epoch in wanted:
            if epoch not in orders:
                orders[epoch] = generator(self.seed, BATCHES, rank, epoch).permutation(shard)
        if len(wanted) == 1:
            return orders[wanted[0]][within]
        return np.array([orders[e][i] for e, i in zip(epochs, within, strict=True)])
