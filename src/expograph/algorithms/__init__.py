"""Algorithms by name: decentralized SGD and its momentum variants, each in the lines of its paper.

A rule is a function that returns an `Algorithm`: its name is the name in configs, its keyword
arguments are the parameters, spelled `name(parameter=value)`, and its docstring holds the
equations. What a rule declares and what its step is handed: `base`.
"""

import inspect
from collections.abc import Callable
from typing import Any

from expograph.algorithms.base import Algorithm, Grad, Mix, Mixed
from expograph.algorithms.momentum import dmsgd, dmsgd_delayed, psgd, qg_dmsgd, vanilla_dmsgd
from expograph.algorithms.sgd import dsgd_atc, dsgd_awc, dsgd_cta
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
    )
}


def parameters(name: str) -> dict[str, Any]:
    """The parameters of a rule of `ALGORITHMS` with their defaults, read off its signature."""
    signature = inspect.signature(ALGORITHMS[name])
    return {key: parameter.default for key, parameter in signature.parameters.items()}


def build(spelling: str) -> Algorithm:
    """The algorithm called `name` or `name(parameter=value, ...)`.

    Raises:
        ValueError: in one line, for an unknown name or parameter, or a value of another type.
    """
    known = {name: parameters(name) for name in ALGORITHMS}
    name, given = parse(canonical("algorithm", spelling, known))
    return ALGORITHMS[name](**given)
