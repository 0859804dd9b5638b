"""Names: of one spelling, looked up with a hint when nearly right, imported when needed.

Topologies and algorithms have parameters, and one spelling with them in configs, on the command
line and in tables: `base(k=2)`, `one_peer_exponential(order=permutation)`.
"""

import ast
import difflib
import importlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

SPELLING = re.compile(r"\s*([^\s()]+)\s*(?:\((.*)\))?\s*")


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """`base(k=2, order=cyclic)` -> ("base", {"k": 2, "order": "cyclic"}).

    Values are Python's numbers, True and False; anything else is text.

    Raises:
        ValueError: if the text is not of this form, in one line.
    """
    found = SPELLING.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r}: expected name or name(parameter=value, ...)")
    name, inside = found.groups()
    parameters: dict[str, Any] = {}
    for word in (inside or "").split(",") if (inside or "").strip() else []:
        key, equals, value = map(str.strip, word.partition("="))
        if not equals or not key.isidentifier() or not value or key in parameters:
            raise ValueError(f"{text!r}: expected name(parameter=value, ...), each once")
        try:
            parameters[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):  # brackets in brackets
            parameters[key] = value
    return name, parameters


def spell(name: str, parameters: Mapping[str, Any]) -> str:
    """The inverse of `parse`."""
    words = ", ".join(f"{key}={value}" for key, value in parameters.items())
    return f"{name}({words})" if words else name


def known(kind: str, name: str, names: Iterable[str]) -> str:
    """`name`, if it is one of `names`.

    Raises:
        ValueError: otherwise, in one line that names what is known and what is nearest.
    """
    names = list(names)
    if name in names:
        return name
    near = closest(name, names)
    hint = f"did you mean {near!r}? " if near else ""
    raise ValueError(f"unknown {kind} {name!r}; {hint}known: {', '.join(names)}")


def closest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `name` was probably meant to be, if any; case does not matter."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


def resolve(address: str) -> Any:
    """What an address "module:attribute" stands for, imported now."""
    module, _, attribute = address.partition(":")
    return getattr(importlib.import_module(module), attribute)


def canonical(kind: str, text: str, parameters: Mapping[str, Mapping[str, Any]]) -> str:
    """`text` in its one spelling: parameters in declared order, those at their default left out.

    Args:
        kind: what is named, for messages: "topology".
        text: as in `parse`.
        parameters: every name with its parameters and their defaults.
    Raises:
        ValueError: in one line, for an unknown name, an unknown parameter or a value of another
            type than the default's.
    """
    name, given = parse(text)
    defaults = parameters[known(kind, name, parameters)]
    for key, value in given.items():
        if not defaults:
            raise ValueError(f"{kind} {name!r} has no parameters, got {key!r}")
        default = defaults[known(f"parameter of {name}", key, defaults)]
        wanted = (int, float) if type(default) is float else (type(default),)
        if type(value) not in wanted:
            raise ValueError(f"{name}: {key} = {value!r}: expected {wanted[-1].__name__}")
    kept = {key: given[key] for key in defaults if key in given and given[key] != defaults[key]}
    return spell(name, kept)
