"""Step sizes that were tuned: configs/step_sizes.toml, which `make tune` writes.

    [[table2]]                          # in an experiment's file: step_sizes = "table2"
    algorithm = "dmsgd"
    topology = "ring"
    "problem.partition" = "iid"
    lr = { 8 = 0.1, 32 = 0.05 }         # nodes -> the best of the grid

An experiment that names an entry takes a run's `lr` from the row that agrees with it in everything
but nodes: between two tuned numbers of nodes by a straight line in logarithms, beyond them that of
the nearest. A topology with parameters that has no row of its own takes that of its name.
"""

import json
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from expograph.config.errors import ConfigError, quoted
from expograph.config.toml import read_toml
from expograph.files import replace_text
from expograph.names import known

FILE = "step_sizes.toml"
Chosen = Mapping[int, float]  # nodes -> lr
_ROW = ("algorithm", "topology", "problem.partition", "problem.model")  # what tells rows apart


class StepSizes:
    """The tuned step sizes of an experiment; the file is read once, when a run first needs it."""

    def __init__(self, path: Path, name: str | None) -> None:
        """`path` is the experiment's file, beside which they lie; `name` the entry, if any."""
        self._path, self._name = path, name

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return [] if self._name is None else read_rows(self._path.with_name(FILE), self._name)

    def into(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values of a run, unchecked, with the tuned `lr`; as they are if they have one.

        Raises:
            ConfigError: one line, if there is no such entry, or no row for this run.
        """
        if self._name is None or "lr" in values:
            return values
        nodes = values.get("nodes")
        found = _row(self._rows, values)
        if found is None:
            keys = _keys(self._rows)
            asked = ", ".join(f"{key} = {quoted(_value(values, key))}" for key in keys)
            lacks = f"{FILE} has no row of {self._name} for {asked}: tune it, or give lr"
            raise ConfigError(f"{self._path}: step_sizes: {lacks}")
        if type(nodes) is not int or nodes < 1:
            return {"lr": 1.0, **values}  # the check of the run says what is wrong with it
        return {**values, "lr": interpolated(found, nodes)}


def read_rows(path: Path, name: str) -> list[dict[str, Any]]:
    """The rows of an entry, each with `lr` as numbers by nodes.

    Raises:
        ConfigError: one line, if there is none or a row is not of this form.
    """
    entries = read_toml(path, "step_sizes")
    try:
        rows = entries[known("entry", name, entries)]
    except ValueError as e:
        raise ConfigError(f"{path}: {e}") from None
    return [{**row, "lr": _chosen(path, name, row)} for row in rows]


def write_rows(path: Path, name: str, chosen: list[dict[str, Any]]) -> None:
    """Write an entry; the others stay.

    Args:
        chosen: a flat dict a row and number of nodes: the keys, `nodes` and `lr`.
    """
    entries = read_toml(path, "step_sizes") if path.exists() else {}
    rows: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = {}
    for one in chosen:
        keys = {k: v for k, v in one.items() if k in _ROW and v is not None}
        row = rows.setdefault(tuple(keys.items()), {**keys, "lr": {}})
        row["lr"][str(one["nodes"])] = one["lr"]
    entries[name] = list(rows.values())
    text = ["# Written by `make tune`: see the configs with `tunes = ...`.", 'kind = "step_sizes"']
    for entry, its_rows in sorted(entries.items()):
        for row in its_rows:
            text += ["", f"[[{entry}]]"]
            text += [f"{_key(key)} = {_toml(value)}" for key, value in row.items()]
    replace_text(path, "\n".join(text) + "\n")


def _key(key: str) -> str:
    return json.dumps(key) if "." in key else key


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{n} = {lr:g}" for n, lr in value.items()) + " }"
    return json.dumps(value)


def interpolated(chosen: Chosen, nodes: int) -> float:
    """lr at a number of nodes, to three digits where it was not tuned."""
    if nodes in chosen:
        return chosen[nodes]
    fewer, more = [n for n in chosen if n < nodes], [n for n in chosen if n > nodes]
    if not fewer or not more:
        return chosen[max(fewer) if fewer else min(more)]
    below, above = max(fewer), min(more)
    share = math.log(nodes / below) / math.log(above / below)
    lr = chosen[below] ** (1 - share) * chosen[above] ** share
    return float(f"{lr:.3g}")


def _chosen(path: Path, name: str, row: Any) -> Chosen:
    by_nodes = row.get("lr") if isinstance(row, dict) else None
    try:
        return {int(nodes): _positive(lr) for nodes, lr in dict(by_nodes or {}).items()}
    except (TypeError, ValueError):
        wanted = "expected lr = { nodes = number, ... }, positive numbers"
        raise ConfigError(f"{path}: {name}: {wanted}, got {quoted(by_nodes)}") from None


def _positive(lr: Any) -> float:
    if isinstance(lr, bool) or not 0 < lr < math.inf:
        raise ValueError
    return float(lr)


def _row(rows: list[dict[str, Any]], values: dict[str, Any]) -> Chosen | None:
    wanted = {key: _value(values, key) for key in _keys(rows)}
    plain = wanted | {"topology": str(wanted.get("topology")).partition("(")[0]}
    for asked in (wanted, plain):
        for row in rows:
            if row["lr"] and all(row.get(key) == asked.get(key) for key in _keys(rows)):
                lr: Mapping[int, float] = row["lr"]
                return lr
    return None


def _keys(rows: list[dict[str, Any]]) -> list[str]:
    return [key for key in dict.fromkeys(key for row in rows for key in row) if key != "lr"]


def _value(values: dict[str, Any], key: str) -> Any:
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
