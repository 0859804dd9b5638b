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
    raise ValueError(f"unknown {kind} {name!r}; {hint(name, names)}known: {', '.join(names)}")


def hint(name: str, names: Iterable[str]) -> str:
    """ "did you mean 'ring'? " or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {close[0]!r}? " if close else ""
