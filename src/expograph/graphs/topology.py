"""Topologies as schedules: step k -> the mixing matrix W(k) of that step.

One function a graph, each for any n >= 1; `TOPOLOGIES` finds them by name. Static graphs have
period 1, time-varying ones a longer period, random ones none. Random graphs are drawn by
address (seed, step), so every rank of a job sees the same graph without a message.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from expograph import names as spelling
from expograph.graphs.forms import Circulant, Hierarchical, OnePeer, metropolis
from expograph.graphs.mixing import Mixing
from expograph.randomness import TOPOLOGY, generator

HALF_RANDOM_MOST = 8192  # ranks: its pairs are drawn all at once


@dataclass(frozen=True)
class Topology:
    """A schedule of mixing matrices over n ranks.

    Attributes:
        name: its one spelling, with parameters: `canonical`.
        n: number of ranks.
        period: W(k + period) = W(k) for all k; None if every step is drawn.
        at: step k >= 0 -> W(k). Pure: equal k gives an equal matrix.
        local_size: ranks of a server, in a row; the same as that of every W(k).
        seed: what it was drawn with; None where nothing is random.
    """

    name: str
    n: int
    period: int | None
    at: Callable[[int], Mixing]
    local_size: int = 1
    seed: int | None = None


def _cyclic(name: str, steps: Sequence[Mixing], seed: int | None = None) -> Topology:
    return Topology(name, steps[0].n, len(steps), lambda k: steps[k % len(steps)], seed=seed)


def _random(name: str, n: int, at: Callable[[int], Mixing], seed: int) -> Topology:
    return Topology(name, n, None, lru_cache(maxsize=4)(at), seed=seed)


def ceil_log2(n: int) -> int:
    """Number of hops of the exponential graphs, tau = ceil(log2 n), in integers."""
    return (n - 1).bit_length()


def fully_connected(n: int) -> Topology:
    """W = J = 11^T / n: exact averaging each step, which is parallel SGD."""
    return _cyclic("fully_connected", [Circulant(n, dict.fromkeys(range(n), 1 / n))])


def ring(n: int) -> Topology:
    """Each rank averages with the one before and the one after it, all weights 1/3 (n >= 3)."""
    offsets = sorted({0, 1 % n, (n - 1) % n})
    return _cyclic("ring", [Circulant(n, dict.fromkeys(offsets, 1 / len(offsets)))])


def star(n: int) -> Topology:
    """Rank 0 is linked with every other rank; Metropolis weights, which are 1/n on each link."""
    leaves = np.arange(1, n)
    return _cyclic("star", [metropolis(n, np.stack([0 * leaves, leaves], axis=1))])


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
    return _cyclic("grid", [metropolis(n, np.concatenate([right, down]))])


def torus(n: int) -> Topology:
    """2D grid with wrap-around; Metropolis weights, which are 1/5 where all degrees are 4."""
    rank = np.arange(n).reshape(grid_shape(n))
    links = [(rank, np.roll(rank, -1, axis)) for axis in (0, 1)]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in links])
    edges = np.unique(np.sort(edges, axis=1), axis=0)  # a side of 2 would link a pair twice
    return _cyclic("torus", [metropolis(n, edges[edges[:, 0] != edges[:, 1]])])


def _hypercube_edges(n: int, bit: int) -> np.ndarray:
    low = np.arange(n)
    low = low[(low >> bit) & 1 == 0]
    high = low | (1 << bit)
    return np.stack([low, high], axis=1)[high < n]


def hypercube(n: int) -> Topology:
    """Ranks whose numbers differ in one bit are linked; Metropolis weights.

    For n a power of two every weight is 1 / (1 + log2 n). Otherwise the links to missing ranks
    are left out (the incomplete hypercube, still connected).
    """
    edges = [_hypercube_edges(n, bit) for bit in range(ceil_log2(n))]
    return _cyclic("hypercube", [metropolis(n, np.concatenate([np.empty((0, 2), int), *edges]))])


def one_peer_hypercube(n: int) -> Topology:
    """At step k ranks that differ in bit (k mod tau) average in pairs, weights 1/2, 1/2.

    tau = ceil(log2 n). Exact averaging after tau steps iff n is a power of two; otherwise a rank
    whose partner is missing idles. Ref: Shi et al. 2016; the undirected twin of one-peer
    exponential graphs.
    """
    steps = [_pairing(n, _hypercube_edges(n, bit)) for bit in range(ceil_log2(n))]
    return _cyclic("one_peer_hypercube", steps or [_pairing(n, np.empty((0, 2), int))])


def _pairing(n: int, pairs: np.ndarray) -> OnePeer:
    peer = np.arange(n)
    peer[pairs[:, 0]], peer[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
    return OnePeer(peer)


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
            return _cyclic("half_random", [W], seed)
    raise RuntimeError(f"half_random drew no connected graph for n = {n}, seed = {seed}")


def random_match(n: int, *, seed: int = 0) -> Topology:
    """At each step a fresh random matching averages in pairs, weights 1/2, 1/2.

    For odd n one random rank idles. Ref: the bipartite random match graph of Ying et al.
    """

    def at(k: int) -> Mixing:
        order = generator(seed, TOPOLOGY, k).permutation(n)
        return _pairing(n, order[: n - n % 2].reshape(-1, 2))

    return _random("random_match", n, at, seed)


def static_exponential(n: int) -> Topology:
    """Each rank hears itself and the ranks 1, 2, 4, ... before it, all weights 1 / (1 + tau).

    tau = ceil(log2 n) counts the powers of two below n. Spectral gap 2 / (1 + tau) for even n,
    larger for odd n. Ref: Ying et al. 2021, Proposition 1; BlueFog ExponentialTwoGraph.
    """
    offsets = [0, *(2**t for t in range(ceil_log2(n)))]
    return _cyclic("static_exponential", [Circulant(n, dict.fromkeys(offsets, 1 / len(offsets)))])


def _one_peer_steps(n: int) -> list[Mixing]:
    steps: list[Mixing] = [Circulant(n, {0: 0.5, 2**t: 0.5}) for t in range(ceil_log2(n))]
    return steps or [Circulant(n, {0: 1.0})]


Order = Literal["cyclic", "permutation", "uniform"]


def one_peer_exponential(n: int, *, order: Order = "cyclic", seed: int = 0) -> Topology:
    """At step k each rank averages with the one rank 2^t before it, weights 1/2, 1/2.

        W(k) = (I + P^(2^t)) / 2, (P x)_i = x_{i - 1 mod n}, t = order's k-th choice in 0..tau-1

    tau = ceil(log2 n). Any tau matrices without repetition multiply to J iff n is a power of two
    (Ying et al. 2021, Lemma 1); they commute, being circulant.

    Args:
        n: number of ranks.
        order: "cyclic", t = k mod tau, as BlueFog's GetDynamicOnePeerSendRecvRanks over the
            static graph; "permutation", each period of tau steps in a fresh random order, still
            exact after each period; "uniform", t drawn anew each step, exact by luck only.
        seed: of the two random orders.
    """
    steps = _one_peer_steps(n)
    tau = len(steps)
    if order == "cyclic":
        return _cyclic("one_peer_exponential", steps)

    def permuted(k: int) -> Mixing:
        period, t = divmod(k, tau)
        return steps[generator(seed, TOPOLOGY, period).permutation(tau)[t]]

    def uniform(k: int) -> Mixing:
        return steps[generator(seed, TOPOLOGY, k).integers(tau)]

    at = {"permutation": permuted, "uniform": uniform}[order]
    return _random(f"one_peer_exponential(order={order})", n, at, seed)


TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    f.__name__: f
    for f in (
        fully_connected,
        ring,
        star,
        grid,
        torus,
        hypercube,
        static_exponential,
        one_peer_exponential,
        one_peer_hypercube,
        half_random,
        random_match,
    )
}
ALIASES = {  # spellings of earlier versions
    "one_peer_exponential_permutation": "one_peer_exponential(order=permutation)",
    "one_peer_exponential_uniform": "one_peer_exponential(order=uniform)",
}


def _parameters(name: str) -> list[inspect.Parameter]:
    declared = inspect.signature(TOPOLOGIES[name]).parameters.values()
    return [p for p in declared if p.name not in ("n", "seed")]


def parameters() -> dict[str, dict[str, Any]]:
    """Every topology's parameters with their defaults, as its function declares them."""
    return {name: {p.name: p.default for p in _parameters(name)} for name in TOPOLOGIES}


def is_random(text: str) -> bool:
    """Whether the seed decides what a topology is."""
    return build(text, 4).seed is not None


def explained(text: str) -> list[str]:
    """The paragraphs of a topology's docstring, without those on arguments."""
    name, _ = spelling.parse(canonical(text))
    paragraphs = inspect.cleandoc(TOPOLOGIES[name].__doc__ or "").split("\n\n")
    return [p for p in paragraphs if not p.startswith(("Args:", "Raises:", "Returns:"))]


def names() -> tuple[str, ...]:
    """Spellings to list: every topology, then those with a choice other than the default."""
    others = [
        spelling.spell(name, {p.name: choice})
        for name in TOPOLOGIES
        for p in _parameters(name)
        for choice in get_args(p.annotation)
        if choice != p.default
    ]
    return (*TOPOLOGIES, *others)


def canonical(text: str) -> str:
    """The one spelling of a topology: known names, parameters that differ from their defaults.

    Raises:
        ValueError: in one line, with the nearest right name, parameter or choice.
    """
    found = spelling.canonical("topology", ALIASES.get(text.strip(), text), parameters())
    name, given = spelling.parse(found)
    for p in _parameters(name):
        if p.name in given and (choices := get_args(p.annotation)):
            spelling.known(f"{p.name} of {name}", given[p.name], choices)
    return found


def hierarchical(topology: Topology, local_size: int) -> Topology:
    """Every rank of `topology` becomes a server of `local_size` ranks: W(k) (x) J, `Hierarchical`.

    The product of steps is (W(k) ... W(0)) (x) J: exact averaging takes as many steps as between
    the servers. With `local_size` 1 it is `topology` itself.

    Raises:
        ValueError: if local_size < 1.
    """
    if local_size < 1:
        raise ValueError(f"a server needs at least 1 rank, got local_size = {local_size}")
    if local_size == 1:
        return topology

    def at(k: int) -> Mixing:
        return Hierarchical(topology.at(k), local_size)

    return replace(topology, n=topology.n * local_size, at=at, local_size=local_size)


def build(text: str, n: int, seed: int = 0, local_size: int = 1) -> Topology:
    """The topology spelled `text` over n ranks, or n servers; `seed` matters to random ones only.

    Args:
        text: a name, with parameters if wanted: "one_peer_exponential(order=uniform)".
        n: what it connects: ranks, or servers of `local_size` ranks (see `hierarchical`).
    Raises:
        ValueError: if the spelling is not known (see `canonical`), n < 1 or local_size < 1.
    """
    if n < 1:
        raise ValueError(f"a topology needs at least 1 rank, got {n}")
    name, given = spelling.parse(canonical(text))
    function = TOPOLOGIES[name]
    if "seed" in inspect.signature(function).parameters:
        given["seed"] = seed
    return hierarchical(function(n, **given), local_size)
