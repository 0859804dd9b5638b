"""Values -> a checked type of the schema, or one line that says which key is wrong and why."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from expograph.config.epochs import EPOCHS
from expograph.config.errors import ConfigError, quoted
from expograph.config.problem_settings import KINDS
from expograph.config.schema import ExperimentFile, Run, Table
from expograph.names import closest

Model = TypeVar("Model", bound=BaseModel)


def checked(path: Path, model: type[Model], values: dict[str, Any]) -> Model:
    """`model` built from `values`.

    Raises:
        ConfigError: made of pydantic's first finding.
    """
    try:
        return model.model_validate(values)
    except ValidationError as e:
        # a misspelt key is also a missing one: the misspelling is what helps
        errors = e.errors(include_url=False, include_context=False)
        error = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    where = [str(part) for part in error["loc"]]
    if len(where) > 1 and where[0] == "problem":
        where.pop(1)  # pydantic puts the chosen kind into the path
    if model is Run:
        where.insert(0, "run")
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = _unknown(where, values)
    elif error["type"] != "value_error" and not isinstance(error["input"], dict):
        message += f", got {quoted(error['input'])}"
    raise ConfigError(f"{path}: {'.'.join(where)}: {message}")


def _unknown(where: list[str], values: dict[str, Any]) -> str:
    """What to say of an unknown key: the nearest one that may stand there, or where it belongs."""
    problem = values.get("problem")
    kind = problem.get("kind") if isinstance(problem, dict) else None
    kind = kind if isinstance(kind, str) and kind in KINDS else None
    places = {
        "": [key for key in ExperimentFile.model_fields],
        "table.": list(Table.model_fields),
        "run.": [*Run.model_fields, *EPOCHS],
        "run.problem.": list(KINDS[kind].model_fields) if kind else [],
    }
    place, key = "".join(f"{part}." for part in where[:-1]), where[-1]
    allowed = places.get(place, [])
    if homes := [home for home, keys in places.items() if _plain(key) in map(_plain, keys)]:
        (right,) = [k for k in places[homes[-1]] if _plain(k) == _plain(key)]
        return f"unknown key; did you mean {homes[-1]}{right}?"
    if near := closest(key, allowed):
        return f"unknown key; did you mean {place}{near}?"
    owners = [name for name, model in KINDS.items() if key in model.model_fields]
    if kind and owners and place == "run.problem.":
        return f"a {kind} problem has no such key, it is of {' and '.join(owners)}"
    return f"unknown key; known: {', '.join(f'{place}{k}' for k in allowed)}"


def _plain(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")
