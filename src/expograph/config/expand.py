"""A config file -> an experiment: overrides applied, sweeps expanded, every run checked.

    name = "table2"             # where its results go: results/<name>/
    [run]                       # what every run shares; keys of `Run`
    [[sweep]]                   # lists of values, all combinations; several blocks are joined
    topology = ["ring", "static_exponential"]
    seed = [0, 1, 2]
    "nodes, steps" = [[8, 100], [16, 400]]    # keys that go together

Dotted keys ("problem.model") reach into the problem. `epochs`, `warmup_epochs`, `decay_epochs`
and `evaluate_epochs` are turned into steps (`epochs`).
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from expograph.config.checking import checked
from expograph.config.epochs import EPOCHS, LISTS, in_steps
from expograph.config.errors import ConfigError, quoted
from expograph.config.facts import ALGORITHMS
from expograph.config.schema import Experiment, ExperimentFile, Run
from expograph.config.table_check import check_table
from expograph.config.toml import parse, read_toml
from expograph.names import parse as parse_name

MOST_RUNS = 100_000  # of one experiment
Block = dict[str, list[Any]]  # a [[sweep]]


def load(path: Path | str, overrides: Sequence[str] = ()) -> Experiment:
    """Read and check a config file.

    Args:
        path: the TOML file.
        overrides: `key=value` words; the key is one of `[run]`, dotted for the problem's. A list
            `key=[a,b]` sweeps; a key that the file sweeps is replaced in every block.
    Raises:
        ConfigError: one line naming file and key.
    """
    path = Path(path)
    file = checked(path, ExperimentFile, read_toml(path))
    blocks: list[Block] = [dict(block) for block in file.sweep] or [{}]
    for block in blocks:
        _check_keys(path, block)
    base, blocks = _overridden(file.run, blocks, overrides)
    _check_size(path, blocks)
    runs: dict[str, Run] = {}
    for block in blocks:
        for values in _combinations(path, base, block):
            run = checked(path, Run, in_steps(path, values))
            runs.setdefault(run.key, run)
    check_table(path, file, list(runs.values()))
    return Experiment(
        name=file.name,
        path=path,
        runs=list(runs.values()),
        table=file.table,
        scale=file.scale,
        scale_of=file.scale_of,
        command=file.command or f"expograph sweep {path}",
    )


def keys_of(swept: str) -> list[str]:
    """The keys that a key of a sweep's block sets: `"nodes, steps"` sets two."""
    return [key.strip() for key in swept.split(",")]


def _check_keys(path: Path, block: Block) -> None:
    """Refuse a block that sets a value twice: the first would be dropped in silence."""
    seen: dict[str, str] = {}  # key -> the block's key that sets it
    for swept in block:
        for key in keys_of(swept):
            for other, by in seen.items():
                inside = key.startswith(f"{other}.") or other.startswith(f"{key}.")
                if key == other or inside:
                    where = f"{by!r} and {swept!r}" if by != swept else repr(swept)
                    what = "set" if key != other else f"set {key!r} twice, or"
                    raise ConfigError(
                        f"{path}: sweep.{swept}: {where} {what} the same values: give each key once"
                    )
            seen[key] = swept


def _check_size(path: Path, blocks: Sequence[Block]) -> None:
    """Refuse more runs than anybody can want, before they are expanded."""
    count = sum(math.prod(len(values) for values in block.values()) for block in blocks)
    if count > MOST_RUNS:
        raise ConfigError(f"{path}: sweep: {count:,} runs, at most {MOST_RUNS:,} are possible")


def _combinations(path: Path, base: dict[str, Any], block: Block) -> Iterator[dict[str, Any]]:
    """The values of every run of a block, unchecked."""
    for key, values in block.items():
        if not values:
            raise ConfigError(f"{path}: sweep.{key}: an empty list sweeps nothing")
    for values in itertools.product(*block.values()):
        resolved = base
        for swept, value in zip(block, values, strict=True):
            keys = keys_of(swept)
            together = value if len(keys) > 1 else [value]
            if not isinstance(together, list) or len(together) != len(keys):
                raise ConfigError(
                    f"{path}: sweep.{swept}: expected {len(keys)} values, got {quoted(value)}"
                )
            for key, part in zip(keys, together, strict=True):
                resolved = _with(resolved, key, part)
        yield resolved


# ---- overrides ----


def _overridden(
    base: dict[str, Any], blocks: list[Block], overrides: Sequence[str]
) -> tuple[dict[str, Any], list[Block]]:
    """What is shared and what is swept, after the `key=value` words."""
    base = dict(base)
    for key, value in map(_parse_override, overrides):
        for block in blocks:
            # parallel SGD, the reference of a table, has the one topology it can have
            spared = key == "topology" and value != "fully_connected"
            if not (spared and _averages_exactly(block, base)):
                for swept in [s for s in block if key in keys_of(s)]:
                    del block[swept]
        for epochs in (e for e, steps in EPOCHS.items() if steps == key):
            base.pop(epochs, None)
        if isinstance(value, list) and key not in ("decay_steps", *LISTS):
            blocks = [block if key in block else {**block, key: value} for block in blocks]
        else:
            base = _with(base, key, value)
    return base, blocks


def _parse_override(word: str) -> tuple[str, Any]:
    key, equals, text = word.removeprefix("run.").partition("=")
    if not equals or not key:
        raise ConfigError(f"override {word!r}: expected key=value, as in topology=ring nodes=16")
    return key, _value(text)


def _value(text: str) -> Any:
    """TOML, or bare words: `ring`, `[ring,grid]`, `[ring,base(k=2, m=3)]`."""
    try:
        return parse(f"value = {text}")["value"]
    except ValueError:
        bare = text.strip()
        if bare.startswith("[") and bare.endswith("]"):
            return [_item(item) for item in _split(bare[1:-1])]
        return bare


def _item(text: str) -> Any:
    """An item of a bare list: TOML where it is, else the text itself."""
    try:
        return parse(f"value = {text}")["value"]
    except ValueError:
        return text.strip()


def _split(text: str) -> list[str]:
    """At the commas that are not within brackets."""
    items, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            items.append("")
        else:
            items[-1] += character
    return items


def _with(values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy of `values` with the dotted `key` set."""
    head, _, rest = key.partition(".")
    if not rest:
        return {**values, head: value}
    inner = values.get(head, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"override {key}: {head} is not a table")
    return {**values, head: _with(inner, rest, value)}


def _averages_exactly(block: Block, base: dict[str, Any]) -> bool:
    names = [str(name) for name in block.get("algorithm", [base.get("algorithm")])]
    facts = [ALGORITHMS.get(_name(name)) for name in names]
    return all(found is not None and found.exact for found in facts)


def _name(spelling: str) -> str:
    try:
        return parse_name(spelling)[0]
    except ValueError:
        return spelling
