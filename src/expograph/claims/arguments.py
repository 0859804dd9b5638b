"""What may stand under `with` in configs/claims.toml: a check's parameters, by their types.

A check is a function of `root`, the folder of the results, and of what its claim gives; the types
below bound each number, so that no value makes a check fail or run for ever.
"""

import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, create_model

from expograph.algorithms import ALGORITHMS
from expograph.claims.evidence import experiment_of
from expograph.claims.outcome import Part
from expograph.config.problem_settings import KINDS
from expograph.config.schema import Run
from expograph.graphs.topology import TOPOLOGIES
from expograph.names import closest, known, parse
from expograph.validation import STRICT

Check = Callable[..., list[Part]]


@cache
def declared(check: Check) -> type[BaseModel]:
    """The arguments that a check declares, as a model that validates them."""
    parameters = list(inspect.signature(check).parameters.values())
    fields: dict[str, Any] = {
        p.name: (p.annotation, ... if p.default is p.empty else p.default)
        for p in parameters
        if p.name != "root"
    }
    return create_model(check.__name__, __config__=STRICT, **fields)


def _named(kind: str, names: Any) -> AfterValidator:
    def check(text: str) -> str:
        known(kind, parse(text)[0], names)
        return text

    return AfterValidator(check)


def _with_metric(metric: str) -> AfterValidator:
    def check(config: str) -> str:
        experiment = experiment_of(_there(config))
        if experiment.table is None or metric not in experiment.table.metrics:
            raise ValueError(f"{config} has no table of {metric}")
        return config

    return AfterValidator(check)


def _with_transients(config: str) -> str:
    experiment = experiment_of(_there(config))
    if experiment.table is None or experiment.table.kind == "pivot":
        raise ValueError(f"{config} has no table of transient iterations")
    return config


def _there(config: str) -> str:
    if not Path(config).is_file():
        raise ValueError(f"there is no file {config}")
    return config


KEYS = (*Run.model_fields, *(f"problem.{k}" for m in KINDS.values() for k in m.model_fields))


def _key(text: str) -> str:
    if text not in KEYS:  # too many to list
        near = closest(text, KEYS)
        raise ValueError("unknown config key" + (f"; did you mean {near}" if near else ""))
    return text


Key = Annotated[str, AfterValidator(_key)]  # a config key, dotted for the problem's
Topology = Annotated[str, _named("topology", TOPOLOGIES)]
Algorithm = Annotated[str, _named("algorithm", ALGORITHMS)]
Topologies = Annotated[list[Topology], Field(min_length=1)]
Algorithms = Annotated[list[Algorithm], Field(min_length=1)]

Where = Annotated[dict[Key, str | int | float], Field(min_length=1)]  # a setting's config values

Config = Annotated[str, Field(pattern=r"^[\w./-]+\.toml$")]
AccuracyConfig = Annotated[Config, _with_metric("accuracy_averaged")]
ErrorConfig = Annotated[Config, _with_metric("error_workers")]
TransientsConfig = Annotated[Config, AfterValidator(_with_transients)]
Folder = Annotated[str, Field(pattern=r"^[\w./-]+$", description="under the results")]

Nodes = Annotated[int, Field(ge=2, le=4096)]
Sizes = Annotated[list[Nodes], Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Points = Annotated[float, Field(ge=0, le=100)]
Exponent = Annotated[float, Field(ge=0, le=20)]
Blocks = Annotated[int, Field(ge=1, le=100)]
