"""Looking a name up, with a hint when it is nearly right."""

import difflib
from collections.abc import Iterable


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
    """The one of `names` that `name` was probably meant to be, if any."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1)), None)
