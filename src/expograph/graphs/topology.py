"""The topologies by name: what is known, how it is spelled, and `build`.

One function a graph, in the module of its family, for any n >= 1 or with an `Undefined` that says
why not; `TOPOLOGIES` finds them by name.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

from expograph import names as spelling
from expograph.graphs.cascade import k_peer_exponential, null_cascade
from expograph.graphs.ceca import NAMES as TWO_MODELS
from expograph.graphs.equi import d_equistatic, od_equidyn, ou_equidyn, u_equistatic
from expograph.graphs.finite import base, de_bruijn, hyper_cuboid, hyper_hypercube, simple_base
from expograph.graphs.mixing import Mixing, Stochastic
from expograph.graphs.one_peer import (
    bipartite_exponential,
    directed_exponential,
    one_peer_exponential,
    one_peer_hypercube,
    random_match,
)
from expograph.graphs.push import directed_random, uniform_gossip
from expograph.graphs.schedule import Topology, Undefined, ceil_log2, hierarchical
from expograph.graphs.servers import alternating_exp_ring, inner_outer_exponential
from expograph.graphs.static import (
    fully_connected,
    grid,
    grid_shape,
    half_random,
    hypercube,
    ring,
    star,
    static_exponential,
    torus,
)

__all__ = [
    "ALIASES",
    "TOPOLOGIES",
    "Topology",
    "Undefined",
    "build",
    "canonical",
    "ceil_log2",
    "exact_average",
    "explained",
    "grid_shape",
    "hierarchical",
    "is_random",
    "names",
    "one_peer_exponential",
    "parameters",
    "static_exponential",
    "undefined",
]

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
        directed_exponential,
        bipartite_exponential,
        k_peer_exponential,
        null_cascade,
        hyper_hypercube,
        hyper_cuboid,
        simple_base,
        base,
        de_bruijn,
        d_equistatic,
        u_equistatic,
        od_equidyn,
        ou_equidyn,
        inner_outer_exponential,
        alternating_exp_ring,
        uniform_gossip,
        directed_random,
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
    smallest = next(n for n in range(4, 129) if undefined(text, n) is None)
    return build(text, smallest).seed is not None


def explained(text: str) -> list[str]:
    """The paragraphs of a topology's docstring, without those on arguments."""
    name, _ = spelling.parse(canonical(text))
    paragraphs = inspect.cleandoc(TOPOLOGIES[name].__doc__ or "").split("\n\n")
    return [p for p in paragraphs if not p.startswith(("Args:", "Raises:", "Returns:"))]


def names(n: int | None = None, stochastic: Stochastic | None = None) -> tuple[str, ...]:
    """Spellings to list: every topology, then those with a choice other than the default.

    Args:
        n: only those that are defined over so many ranks.
        stochastic: only those whose first matrix over n ranks has such sums.
    """
    others = [
        spelling.spell(name, {p.name: choice})
        for name in TOPOLOGIES
        for p in _parameters(name)
        for choice in get_args(p.annotation)
        if choice != p.default
    ]
    every = (*TOPOLOGIES, *others)
    if n is None:
        return every
    defined = [text for text in every if undefined(text, n) is None]
    return tuple(t for t in defined if stochastic is None or build(t, n).at(0).is_(stochastic))


def undefined(text: str, n: int) -> str | None:
    """Why a topology has no graph over n ranks, in a phrase; None where it has one."""
    try:
        build(text, n)
    except Undefined as e:
        return str(e)
    return None


def canonical(text: str) -> str:
    """The one spelling of a topology: known names, parameters that differ from their defaults.

    Raises:
        ValueError: in one line, with the nearest right name, parameter or choice.
    """
    if text.strip() in TWO_MODELS:
        raise ValueError(
            f"topology {text.strip()!r}: CECA mixes two models a rank, which no matrix of ranks "
            "says: it is listed and shown, not trained with"
        )
    found = spelling.canonical("topology", ALIASES.get(text.strip(), text), parameters())
    name, given = spelling.parse(found)
    for p in _parameters(name):
        if p.name in given and (choices := get_args(p.annotation)):
            spelling.known(f"{p.name} of {name}", given[p.name], choices)
    return found


def exact_average(n: int, local_size: int = 1) -> Mixing:
    """J over n ranks; where servers have several, as its stages between servers and inside."""
    return hierarchical(fully_connected(n // local_size), local_size).at(0)


def build(text: str, n: int, seed: int = 0, local_size: int = 1) -> Topology:
    """The topology spelled `text` over n ranks, or n servers; `seed` matters to random ones only.

    Args:
        text: a name, with parameters if wanted: "one_peer_exponential(order=uniform)".
        n: what it connects: ranks, or servers of `local_size` ranks (see `hierarchical`).
    Raises:
        Undefined: if the graph does not exist over n ranks.
        ValueError: if the spelling is not known (see `canonical`), n < 1 or local_size < 1.
    """
    if n < 1:
        raise ValueError(f"a topology needs at least 1 rank, got {n}")
    found = canonical(text)
    name, given = spelling.parse(found)
    function = TOPOLOGIES[name]
    if "seed" in inspect.signature(function).parameters:
        given["seed"] = seed
    return hierarchical(replace(function(n, **given), name=found), local_size)
