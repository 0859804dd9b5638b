"""How parts of a user's own look: name, colour and theory, recorded with the runs that used them.

`@named(...)` declares it beside the function; a run's record keeps it, so that tables, figures and
pages have it without the user's module.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
ATTRIBUTE = "expograph_look"
Part = TypeVar("Part", bound=Callable[..., object])


class Look(NamedTuple):
    """What is shown of a part: "" for what is not declared.

    Attributes:
        name: in tables and legends, in place of its address.
        colour: of its lines, "#rrggbb".
        communication, gap, transient: orders in n, as of `graphs.theory.Rate`.
    """

    name: str = ""
    colour: str = ""
    communication: str = ""
    gap: str = ""
    transient: str = ""


LOOKS: dict[str, Look] = {}  # address -> look, of the parts that this process has met


def named(
    name: str, colour: str = "", *, communication: str = "", gap: str = "", transient: str = ""
) -> Callable[[Part], Part]:
    """Give a topology of your own a name, a colour and its theory.

    Args:
        name: in tables and legends.
        colour: of its lines, "#rrggbb".
        communication: messages the busiest rank sends a step, an order in n: "2", "log n".
        gap: 1 - rho, an order in n: "1/n^2".
        transient: the order of its transient iterations: "n^7".
    Raises:
        ValueError: in one line, for a name of several lines or a colour of another form.

    >>> @named("chordal ring", "#7f3b08", communication="4", gap="1/n^2", transient="n^7")
    ... def chordal_ring(n):
    ...     return [(i, (i + hop) % n) for i in range(n) for hop in (1, 2)]
    """
    if not name.strip() or not name.isprintable():
        raise ValueError(f"named: expected one line of text, got {name!r}")
    if colour and not COLOUR.fullmatch(colour):
        raise ValueError(f"named: colour: expected '#rrggbb', got {colour!r}")

    def declare(part: Part) -> Part:
        setattr(part, ATTRIBUTE, Look(name, colour, communication, gap, transient))
        return part

    return declare


def look_of(name: str) -> Look:
    """The look of a part, given by its address with or without parameters; empty if none is."""
    return LOOKS.get(name.partition("(")[0], Look())


def remember(looks: Mapping[str, Mapping[str, str]]) -> None:
    """Take over what records say: address -> the fields of a look."""
    LOOKS.update({address: Look(**fields) for address, fields in looks.items()})
