"""Algorithms by name: decentralized SGD and what came after it, each in the lines of its paper.

A rule is a function that returns an `Algorithm`: its name is the name in configs, its keyword
arguments are the parameters, spelled `name(parameter=value)`, and its docstring holds the
equations. `seed`, keyword-only and without a default, is no parameter: rules that draw are given
the run's. What a rule declares and what its step is handed: `base`.
"""

import inspect
from collections.abc import Callable
from typing import Any

from expograph import rule_parameters
from expograph.algorithms.adaptive import accum_adam, diloco, noloco
from expograph.algorithms.base import Algorithm, Grad, Mix, Mixed
from expograph.algorithms.compressed import choco_int, choco_topk, sparta
from expograph.algorithms.local import gossip_pga, local_sgd, slowmo
from expograph.algorithms.momentum import (
    decentlam,
    dmsgd,
    dmsgd_delayed,
    psgd,
    qg_dmsgd,
    vanilla_dmsgd,
)
from expograph.algorithms.push_sum import sgp
from expograph.algorithms.sgd import dsgd_atc, dsgd_awc, dsgd_cta
from expograph.algorithms.tracking import exact_diffusion, gradient_tracking, momentum_tracking
from expograph.names import canonical, parse

__all__ = ["ALGORITHMS", "Algorithm", "Grad", "Mix", "Mixed", "build", "parameters"]

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    rule.__name__: rule
    for rule in (
        psgd,
        dsgd_atc,
        dsgd_cta,
        dsgd_awc,
        vanilla_dmsgd,
        dmsgd,
        dmsgd_delayed,
        qg_dmsgd,
        decentlam,
        gradient_tracking,
        exact_diffusion,
        momentum_tracking,
        sgp,
        gossip_pga,
        local_sgd,
        slowmo,
        accum_adam,
        diloco,
        noloco,
        choco_int,
        choco_topk,
        sparta,
    )
}


def parameters(name: str) -> dict[str, Any]:
    """The parameters of a rule of `ALGORITHMS` with their defaults, read off its signature."""
    signature = inspect.signature(ALGORITHMS[name])
    found = signature.parameters.items()
    return {key: p.default for key, p in found if key != "seed" or p.default is not p.empty}


def build(spelling: str, seed: int = 0) -> Algorithm:
    """The algorithm called `name` or `name(parameter=value, ...)`.

    Args:
        seed: by which rules draw that draw anything.
    Raises:
        ValueError: in one line, for an unknown name or parameter, or a value of another type or out
            of its range.
    """
    known = {name: parameters(name) for name in ALGORITHMS}
    name, given = parse(canonical("algorithm", spelling, known))
    rule_parameters.check(name, given)
    if "seed" in inspect.signature(ALGORITHMS[name]).parameters.keys() - known[name].keys():
        given["seed"] = seed
    return ALGORITHMS[name](**given)
