"""Overrides: `key=value` words of a command line, laid over a config before it is expanded."""

import re
from collections.abc import Sequence
from typing import Any, get_origin

from expograph.config import toml
from expograph.config.epochs import EPOCHS, LISTS
from expograph.config.errors import ConfigError, quoted
from expograph.config.expand import Axis, Block, check_unique, inside, with_key
from expograph.config.facts import algorithm
from expograph.config.schema import Run

# keys whose value is a list by itself: `decay_steps=[30,60]` sweeps nothing
LIST_KEYS = {k for k, f in Run.model_fields.items() if get_origin(f.annotation) is list} | {*LISTS}
COMMA = re.compile(r",(?![^(]*\))")  # not one between the parameters of `base(k=2, order=cyclic)`


def override(
    base: dict[str, Any], blocks: Sequence[Block], words: Sequence[str]
) -> tuple[dict[str, Any], list[Block]]:
    """What all runs share and what is swept, with the words laid over it.

    A value takes the place of all that the file says of its key, also of what it sweeps; a list
    is swept. A key inside a swept one (problem.noise, where problems are swept) is set in each.

    Raises:
        ConfigError: one line naming the word.
    """
    words = list(dict.fromkeys(words))
    given = [parse_word(word) for word in words]
    check_unique([(key, f"override {quoted(w)}") for (key, _), w in zip(given, words, strict=True)])
    base, blocks = dict(base), list(blocks)
    for key, value in given:
        swept = isinstance(value, list) and key not in LIST_KEYS
        values = value if swept else [value]
        if not values:
            raise ConfigError(f"override {key}: an empty list sweeps nothing")
        for i, block in enumerate(blocks):
            # the reference of a table keeps the topology that makes it one
            spared = key == "topology" and value != "fully_connected"
            if not (spared and _averages_exactly(block, base)):
                blocks[i] = _replaced(block, key, values, swept)
            elif swept and not any(key in axis.keys for axis in block):
                blocks[i] = [*block, Axis((key,), [(v,) for v in values])]
        for counted in (e for e, steps in EPOCHS.items() if steps == key):
            base.pop(counted, None)
        if not swept:
            base = with_key(f"override {key}", base, key, value)
    return base, blocks


def _replaced(block: Block, key: str, values: list[Any], swept: bool) -> Block:
    """The block where `key` takes these values instead of what the block sweeps of it."""
    if any(inside(key, whole) for axis in block for whole in axis.keys):
        return [_set_inside(axis, key, values) for axis in block]
    replaced = {key, *(counted for counted, steps in EPOCHS.items() if steps == key)}
    kept = [a for a in block if not any(k in replaced or inside(k, key) for k in a.keys)]
    return [*kept, Axis((key,), [(value,) for value in values])] if swept else kept


def _set_inside(axis: Axis, key: str, values: list[Any]) -> Axis:
    """The axis with `key` set in the table that is swept, each of its values with each of these."""
    wholes = [i for i, whole in enumerate(axis.keys) if inside(key, whole)]
    if not wholes:
        return axis
    (i,) = wholes
    rest = key.removeprefix(f"{axis.keys[i]}.")

    def changed(swept: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        if not isinstance(swept[i], dict):
            raise ConfigError(f"override {key}: {axis.keys[i]} is not a table")
        return (*swept[:i], with_key(f"override {key}", swept[i], rest, value), *swept[i + 1 :])

    return Axis(axis.keys, [changed(swept, value) for swept in axis.values for value in values])


def _averages_exactly(block: Block, base: dict[str, Any]) -> bool:
    """Whether all of the block's runs average exactly: by their topology, or their algorithm."""
    if set(map(str, _values(block, base, "topology"))) == {"fully_connected"}:
        return True
    algorithms = _values(block, base, "algorithm")
    try:
        return all(isinstance(name, str) and algorithm(name).exact for name in algorithms)
    except ValueError:  # unknown: the check of the run says so
        return False


def _values(block: Block, base: dict[str, Any], key: str) -> list[Any]:
    """What a key is in the block's runs."""
    for axis in block:
        if key in axis.keys:
            return [value[axis.keys.index(key)] for value in axis.values]
    return [base.get(key)]


def parse_word(word: str) -> tuple[str, Any]:
    """`key=value` -> key and value: one of TOML, else the bare text, or a list of such.

    Raises:
        ConfigError: if it has no key.
    """
    key, equals, text = word.removeprefix("run.").partition("=")
    if not equals or not key:
        raise ConfigError(
            f"override {quoted(word)}: expected key=value, as in topology=ring nodes=16"
        )
    return key, _value(text.strip())


def _value(text: str) -> Any:
    if "\n" not in text:  # a second line would be another key
        try:
            return toml.parse(f"value = {text}")["value"]
        except ValueError:
            pass
    if text.startswith("[") and text.endswith("]") and not text.startswith("[["):
        return [_value(item.strip()) for item in COMMA.split(text[1:-1])]
    return text
