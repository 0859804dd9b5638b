"""How the training samples are divided over n workers: alike (iid), by label, or in between.

A partition is a list of n index arrays, one per worker: disjoint, none of them empty, together
every sample once. It depends on its arguments alone, so every rank computes the same one.
"""

import math

import numpy as np

from expograph.randomness import PARTITION, generator


def partition(
    kind: str, labels: np.ndarray, n: int, seed: int, alpha: float | None = None
) -> list[np.ndarray]:
    """Divide the samples over n workers.

    Args:
        kind: a key of `PARTITIONS`.
        labels: (N,) int, the label of each sample.
        n: number of workers, 1 <= n <= N.
        seed: the run's seed.
        alpha: concentration of the Dirichlet distribution, finite and > 0; other kinds ignore it.
    Returns:
        n int64 arrays of indices into `labels`, in no particular order within a worker.
    Raises:
        ValueError: on an unknown kind, an n out of range, or a missing or bad alpha.
    """
    if kind not in PARTITIONS:
        raise ValueError(f"unknown partition {kind!r}, known: {', '.join(PARTITIONS)}")
    if not 1 <= n <= len(labels):
        raise ValueError(
            f"can't divide {len(labels)} samples over {n} workers: each needs at least one"
        )
    return PARTITIONS[kind](np.asarray(labels), n, generator(seed, PARTITION), alpha)


def iid(labels: np.ndarray, n: int, rng: np.random.Generator, alpha=None) -> list[np.ndarray]:
    """A random permutation cut into n; sizes differ by at most one."""
    return np.array_split(rng.permutation(len(labels)), n)


def label(labels: np.ndarray, n: int, rng: np.random.Generator, alpha=None) -> list[np.ndarray]:
    """Sorted by label, in random order within a label, and cut into n contiguous shards.

    Sizes differ by at most one. With K equal classes and n >= K a worker sees at most 2 labels.
    """
    return np.array_split(_grouped(labels, rng.permutation(len(labels))), n)


def dirichlet(
    labels: np.ndarray, n: int, rng: np.random.Generator, alpha: float | None
) -> list[np.ndarray]:
    """Each class divided by its own proportions p ~ Dirichlet(alpha, ..., alpha) over workers.

    Of a class of m samples, worker i receives those from round(m (p_0 + ... + p_{i-1})) up to
    round(m (p_0 + ... + p_i)): all are used, and no count is off m p_i by more than one. A
    worker left with nothing then takes one random sample from the worker that has most.
    Large alpha: nearly iid. Small alpha: nearly every class on one worker.

    Raises:
        ValueError: if alpha is missing, not finite or not positive.
    Ref: Hsu, Qi & Brown 2019, arXiv:1909.06335, who draw per worker; per class, as here, is
        Yurochkin et al. 2019, arXiv:1905.12022.
    """
    if alpha is None or not 0 < n * alpha < math.inf:  # numpy's draw overflows as n alpha does
        raise ValueError(f"the dirichlet partition needs a finite alpha > 0, got {alpha}")
    order = rng.permutation(len(labels))
    owner = np.empty(len(labels), dtype=np.int64)  # (N,) the worker of each sample
    class_sizes = np.unique(labels, return_counts=True)[1]
    for members in np.split(_grouped(labels, order), np.cumsum(class_sizes)[:-1]):
        shares = rng.dirichlet(np.full(n, alpha))  # (n,)
        # rounding also makes the last cut len(members), though the shares add to 1 +- 1e-15 only
        cuts = np.rint(len(members) * np.cumsum(shares)).astype(np.int64)
        owner[members] = np.repeat(np.arange(n), np.diff(cuts, prepend=0))

    sizes = np.bincount(owner, minlength=n)
    # within a shard the order stays random, so that its last is a random sample of it
    shards = np.split(_grouped(owner, order), np.cumsum(sizes)[:-1])
    for empty in np.flatnonzero(sizes == 0):
        largest = int(np.argmax(sizes))
        shards[empty], shards[largest] = shards[largest][-1:], shards[largest][:-1]
        sizes[empty], sizes[largest] = 1, sizes[largest] - 1
    return shards


def _grouped(keys: np.ndarray, order: np.ndarray) -> np.ndarray:
    """`order` (indices into `keys`) sorted by key; those of equal keys stay in their order."""
    return order[np.argsort(keys[order], kind="stable")]


def describe(shards: list[np.ndarray], labels: np.ndarray) -> dict[str, float]:
    """Sizes of a partition, and how far the workers' label distributions are from the whole's.

    Args:
        shards: n index arrays into `labels`, none empty.
        labels: (N,) int.
    Returns:
        size_min, size_mean, size_max: samples per worker.
        label_distance: mean over workers of the total-variation distance
            (1/2) sum_k |p_ik - p_k|, with p_ik the share of label k on worker i and p_k that
            among all samples. In [0, 1]: near 0 if iid (not at 0: shards are finite), and
            1 - 1/K for K equal classes if every worker holds one label.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    K = len(classes)
    counts = np.stack([np.bincount(codes[shard], minlength=K) for shard in shards])  # (n, K)
    sizes = counts.sum(axis=1)
    everywhere = np.bincount(codes, minlength=K) / len(codes)
    distances = np.abs(counts / sizes[:, None] - everywhere).sum(axis=1) / 2  # (n,)
    return {
        "size_min": int(sizes.min()),
        "size_mean": float(sizes.mean()),
        "size_max": int(sizes.max()),
        "label_distance": float(distances.mean()),
    }


PARTITIONS = {f.__name__: f for f in (iid, label, dirichlet)}
