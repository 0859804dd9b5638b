"""Sweeps: lists of values -> the values of every run, one combination after the other.

    [[sweep]]
    topology = ["ring", "grid"]
    "nodes, steps" = [[8, 100], [16, 400]]    # an axis of two keys, which go together

A block is a list of axes whose values are combined in all ways; several blocks are joined.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from expograph.config.errors import ConfigError, quoted

MOST_RUNS = 100_000  # of a config: some ten seconds to check


class Axis(NamedTuple):
    """Keys that are swept together, and the values that they take together."""

    keys: tuple[str, ...]
    values: list[tuple[Any, ...]]


Block = list[Axis]


def blocks_of(path: Path, sweep: Sequence[dict[str, list[Any]]]) -> list[Block]:
    """The blocks of a file's `[[sweep]]`; one block without axes if there are none.

    Raises:
        ConfigError: if an axis is empty, its values are too few, or a block gives a key twice.
    """
    blocks = [[_axis(path, *item) for item in block.items()] for block in sweep]
    for block in blocks:
        check_unique([(key, f"{path}: sweep.{', '.join(a.keys)}") for a in block for key in a.keys])
    return blocks or [[]]


def _axis(path: Path, name: str, values: list[Any]) -> Axis:
    where = f"{path}: sweep.{name}"
    keys = tuple(key.strip() for key in name.split(","))
    if not all(keys):
        raise ConfigError(f"{where}: expected a key, or keys separated by commas")
    if not values:
        raise ConfigError(f"{where}: an empty list sweeps nothing")
    if len(keys) == 1:
        return Axis(keys, [(value,) for value in values])
    for value in values:
        if not isinstance(value, list) or len(value) != len(keys):
            raise ConfigError(f"{where}: expected {len(keys)} values, got {quoted(value)}")
    return Axis(keys, [tuple(value) for value in values])


def check_unique(given: Sequence[tuple[str, str]]) -> None:
    """Refuse a key that is given twice, or as a whole and in part: one of its values would be lost.

    Args:
        given: keys, each with the start of its message.
    """
    for i, (key, where) in enumerate(given):
        for other, _ in given[:i]:
            if key == other:
                raise ConfigError(f"{where}: {key} is given twice")
            if inside(key, other) or inside(other, key):
                whole, part = sorted((key, other), key=len)
                raise ConfigError(f"{where}: {part} is given, and {whole} as a whole: give one")


def inside(key: str, whole: str) -> bool:
    """Whether a dotted key is a part of another: problem.noise is one of problem."""
    return key.startswith(f"{whole}.")


def expand(path: Path, base: dict[str, Any], blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    """The values of every run of the blocks, unchecked, laid over those of `base`.

    Raises:
        ConfigError: if they are too many, or a dotted key reaches into what is no table.
    """
    count = sum(math.prod(len(axis.values) for axis in block) for block in blocks)
    if count > MOST_RUNS:
        raise ConfigError(f"{path}: sweep: {quoted(count)} runs are more than {MOST_RUNS}")
    for block in blocks:
        keys = [key for axis in block for key in axis.keys]
        for combination in itertools.product(*(axis.values for axis in block)):
            values = base
            for key, value in zip(keys, itertools.chain(*combination), strict=True):
                values = with_key(f"{path}: sweep.{key}", values, key, value)
            yield values


def with_key(where: str, values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy of `values` with the dotted `key` set.

    Raises:
        ConfigError: if the key reaches into what is no table; the message starts with `where`.
    """
    head, _, rest = key.partition(".")
    if not rest:
        return {**values, head: value}
    inner = values.get(head, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"{where}: {head} is not a table")
    return {**values, head: with_key(where, inner, rest, value)}
