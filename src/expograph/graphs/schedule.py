"""A schedule: step k -> the mixing matrix W(k) of that step; and what graphs are made with.

Static graphs have period 1, time-varying ones a longer period, random ones none. Random graphs are
drawn by address (seed, step), so every rank of a job sees the same graph without a message.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from expograph.graphs.forms import Hierarchical
from expograph.graphs.mixing import Mixing


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


class Undefined(ValueError):
    """A topology has no graph over so many ranks, or with such parameters: why, in one line."""


def at_least(least: int, **parameters: int) -> None:
    """Check whole-number parameters of a graph.

    Raises:
        ValueError: in one line, for the first that is less than `least`.
    """
    for name, value in parameters.items():
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")


def cyclic(name: str, steps: Sequence[Mixing], seed: int | None = None) -> Topology:
    """These matrices one after the other, again and again."""
    return Topology(name, steps[0].n, len(steps), lambda k: steps[k % len(steps)], seed=seed)


def drawn(name: str, n: int, at: Callable[[int], Mixing], seed: int) -> Topology:
    """A fresh matrix each step, of which a few are kept for those who ask again."""
    return Topology(name, n, None, lru_cache(maxsize=4)(at), seed=seed)


def ceil_log2(n: int) -> int:
    """Number of hops of the exponential graphs, tau = ceil(log2 n), in integers."""
    return (n - 1).bit_length()


def floor_log(n: int, b: int) -> int:
    """The largest t with b^t <= n, in integers."""
    t = 0
    while b ** (t + 1) <= n:
        t += 1
    return t


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
