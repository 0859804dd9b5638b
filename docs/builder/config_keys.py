"""The keys of a config as tables, from the schema that checks them."""

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

Texts = dict[str, str]


def _models() -> dict[str, type[BaseModel]]:
    from expograph.config.problem_settings import KINDS
    from expograph.config.schema import ExperimentFile, Run, Table

    return {"file": ExperimentFile, "run": Run, "table": Table, **KINDS}


def names(what: str) -> str:
    """What a value may be named, with what is said of each, as a table."""
    from expograph.config import facts

    if what == "metrics":
        rows = {name: words for name, words in facts.METRICS.items()}
        return table(("metric", "what it is"), [(f"`{k}`", cell(v)) for k, v in rows.items()])
    if what == "datasets":
        rows = [
            (f"`{name}`", one.kind, f"{one.size:,}", "its own" if one.any_size else "all alike")
            for name, one in facts.DATASETS.items()
        ]
        return table(("data set", "of", "training samples", "size of an image"), rows)
    if what == "epochs":
        from expograph.config.epochs import EPOCHS

        rows = [(f"`{epochs}`", f"`{steps}`") for epochs, steps in EPOCHS.items()]
        return table(("key", "in place of"), rows)
    raise KeyError(what)


def keys(model: str) -> str:
    """The keys of one table of a config: a row each, with what is allowed and the default."""
    of = _models()[model]
    schema = of.model_json_schema()
    described = attributes(of)
    required = set(schema.get("required", ()))
    rows = []
    for key, field in schema["properties"].items():
        meaning = field.get("description") or described.get(key, "")
        if not meaning and key != "kind":
            raise ValueError(f"{of.__name__}.{key}: neither described nor in the docstring")
        default = "required" if key in required else _shown(field.get("default"))
        rows.append((f"`{key}`", _allowed(model, key, field, schema), default, cell(meaning)))
    return table(("key", "allowed", "default", "what it is"), rows)


def attributes(model: type[BaseModel]) -> Texts:
    """Key -> what the `Attributes:` of a model's docstring, or of those it is made of, say."""
    found: Texts = {}
    for one in reversed(model.__mro__):
        if issubclass(one, BaseModel):
            _, _, section = inspect.cleandoc(one.__doc__ or "").partition("Attributes:\n")
            for match in re.finditer(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE):
                found[match[1]] = " ".join(match[2].split())
    return found


def _choices(model: str, key: str) -> list[str] | str | None:
    """Names that the schema leaves to a check of its own: a list, or where they are listed."""
    from expograph.config import facts

    if key == "topology":
        return "[a topology](graphs.md#topologies), or `my_module:my_graph`"
    if key == "algorithm":
        return "[an algorithm](graphs.md#algorithms), or `my_module:my_rule`"
    if key == "metrics":
        return "[metrics](#metrics)"
    if key == "engine":
        return list(facts.ENGINES)
    if key == "partition":
        return list(facts.PARTITIONS)
    if key == "model":
        return list(facts.MODELS if model == "classification" else facts.DETECTORS)
    if key == "dataset":
        kind = "images" if model == "classification" else "scenes"
        return [name for name, one in facts.DATASETS.items() if one.kind == kind]
    if (model, key) == ("run", "problem"):
        return "[a problem](#runproblem), by its `kind`"
    return None


def _allowed(model: str, key: str, field: dict[str, Any], schema: dict[str, Any]) -> str:
    named = _choices(model, key)
    if isinstance(named, list):
        return ", ".join(f"`{name}`" for name in named)
    return named or _type(field, schema)


def _type(field: dict[str, Any], schema: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return "[a table of its own](#table)" if name == "Table" else name.lower()
    if "anyOf" in field:
        kinds = [_type(one, schema) for one in field["anyOf"] if one.get("type") != "null"]
        return " or ".join(kinds)
    if "const" in field:
        return f'`"{field["const"]}"`'
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    kind = field.get("type")
    if kind == "array":
        return f"list of {_plural(_type(field['items'], schema))}"
    if kind == "object":
        return "table: key = value"
    if kind is None:
        return "any value"
    words = {"integer": "whole number", "number": "number", "boolean": "true or false"}
    return " ".join([words.get(kind, "text"), *_bounds(field)]).strip()


def _bounds(field: dict[str, Any]) -> list[str]:
    low = [f"≥ {_number(field['minimum'])}"] if "minimum" in field else []
    low += [f"> {_number(field['exclusiveMinimum'])}"] if "exclusiveMinimum" in field else []
    high = [f"≤ {_number(field['maximum'])}"] if "maximum" in field else []
    high += [f"< {_number(field['exclusiveMaximum'])}"] if "exclusiveMaximum" in field else []
    pattern = [f"like `{field['pattern']}`"] if "pattern" in field else []
    return [", ".join([*low, *high, *pattern])]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) or value == int(value) else str(value)


def _plural(words: str) -> str:
    words = words.replace("table: key = value", "tables: key = [values]")
    return words.replace("whole number", "whole numbers").replace("text", "texts")


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`' if value else "empty"
    if isinstance(value, dict | list) and not value:
        return "empty"
    return f"`{value}`".replace("'", '"')


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """A Markdown table; `align` has a letter a column, "l" or "r"; empty, all are left."""
    rules = [{"l": ":--", "r": "--:"}[letter] for letter in align or "l" * len(heads)]
    lines = [heads, rules, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(text: str) -> str:
    """Text as it may stand in a cell of a Markdown table."""
    parts = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    return "".join(
        part if part.startswith("`") else part.replace("*", "\\*").replace("<", "&lt;")
        for part in parts
    )
