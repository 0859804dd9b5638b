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
    """The shards of `label_contiguous`, dealt to the workers at random.

    Which classes sit next to which in a ring or a grid is then the seed's doing.
    """
    shards = label_contiguous(labels, n, rng)
    return [shards[i] for i in rng.permutation(n)]


def label_contiguous(
    labels: np.ndarray, n: int, rng: np.random.Generator, alpha=None
) -> list[np.ndarray]:
    """Sorted by label, in random order within a label, and cut into n contiguous shards.

    Sizes differ by at most one. With K equal classes and n >= K a worker sees at most 2 labels.
    Worker i + 1 has the labels that follow worker i's: for a ring or a grid, whose neighbours are
    near in number, the worst placement there is.
    """
    return np.array_split(_grouped(labels, rng.permutation(len(labels))), n)


def dirichlet(
    labels: np.ndarray, n: int, rng: np.random.Generator, alpha: float | None
) -> list[np.ndarray]:
    """Equally large shards whose class proportions are drawn from Dirichlet(alpha, ..., alpha).

    One worker after the other, in random order, draws its proportions q over the K classes and
    takes its N / n samples one class at a time, without replacement: counts are multinomial with
    q over the classes that are not used up, renormalised when one is. Sizes differ by at most one.
    Large alpha: nearly iid. Small alpha: nearly one class a worker, but for those who come last.

    Raises:
        ValueError: if alpha is missing, not finite or not positive.
    Ref: Hsu, Qi & Brown 2019, arXiv:1909.06335, whose concentration is K times this alpha.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    K = len(classes)
    if alpha is None or not 0 < K * alpha < math.inf:  # numpy's draw overflows as K alpha does
        raise ValueError(f"the dirichlet partition needs a finite alpha > 0, got {alpha}")
    order = _grouped(codes, rng.permutation(len(labels)))
    left = np.bincount(codes, minlength=K)  # of each class
    ends = np.cumsum(left)  # of what is left of each class in `order`
    sizes = [len(part) for part in np.array_split(order, n)]
    shards: list[np.ndarray] = [order[:0]] * n
    for worker in rng.permutation(n):
        counts = _draw(rng.dirichlet(np.full(K, alpha)), sizes[worker], left, rng)
        shards[worker] = np.concatenate(
            [order[end - count : end] for end, count in zip(ends, counts, strict=True)]
        )
        left, ends = left - counts, ends - counts
    return shards


def _draw(q: np.ndarray, size: int, left: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How many of each class (K,) make `size` draws with probabilities q from what is left."""
    counts = np.zeros_like(left)
    while missing := size - counts.sum():
        free = left - counts
        open_q = np.where(free > 0, q, 0)
        if open_q.sum() == 0:  # of its own classes nothing is left
            open_q = free.astype(float)
        counts += np.minimum(rng.multinomial(missing, open_q / open_q.sum()), free)
    return counts


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


PARTITIONS = {f.__name__: f for f in (iid, label, label_contiguous, dirichlet)}
