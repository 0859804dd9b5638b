"""Parts of a user's own, named in a config by an address: "my_module:my_graph", with parameters.

Whoever only reads results needs the address alone. The commands that train or draw import the
module: `imported`.
"""

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from expograph import names

ADDRESS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def is_own(text: str) -> bool:
    """Whether a name, with or without parameters, is an address."""
    return ADDRESS.fullmatch(address(text)) is not None


def address(text: str) -> str:
    """A name without its parameters."""
    return text.partition("(")[0].strip()


def canonical(text: str) -> str:
    """The one spelling that is known without the module: parameters in alphabetical order.

    Raises:
        ValueError: if it is not of the form address or address(parameter=value, ...).
    """
    name, given = names.parse(text)
    return names.spell(name, dict(sorted(given.items())))


def imported(kind: str, address: str) -> Callable[..., Any]:
    """The function of an address, its module looked for as Python does, and in this folder.

    Args:
        kind: what it is to be, for messages: "topology".
    Raises:
        ValueError: in one line, if its module can't be imported or has no such function.
    """
    module, _, attribute = address.partition(":")
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    try:
        found = importlib.import_module(module)
    except Exception as e:
        said = " ".join(str(e).split())
        raise ValueError(f"{kind} {address!r}: {module} can't be imported: {said}") from None
    function: Callable[..., Any] | None = getattr(found, attribute, None)
    if not callable(function):
        near = names.closest(attribute, [n for n in vars(found) if not n.startswith("_")])
        hint = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"{kind} {address!r}: {module} has no function {attribute!r}{hint}")
    return function


def called(kind: str, text: str, **offered: Any) -> Any:
    """What the function of an address gives, called with the parameters that stand behind it.

    Args:
        kind: as of `imported`.
        text: the address, with parameters or not.
        offered: what it is given as well, as far as it has such parameters.
    Raises:
        ValueError: in one line, if it cannot be had, has no such parameter, or fails.
    """
    name, given = names.parse(text)
    function = imported(kind, name)
    parameters = inspect.signature(function).parameters
    for key in given:
        names.known(f"parameter of {name}", key, parameters)
    given = {key: value for key, value in offered.items() if key in parameters} | given
    try:
        return function(**given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{kind} {name!r}: {' '.join(str(error).split())}") from None
