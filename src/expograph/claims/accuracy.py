"""Claims about accuracy: paired differences between runs that share their seeds."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from expograph.analysis.statistics import Paired, paired
from expograph.analysis.written import name_of
from expograph.claims import evidence
from expograph.claims.arguments import (
    AccuracyConfig,
    Algorithm,
    Algorithms,
    Points,
    Sizes,
    Topologies,
    Topology,
    Where,
)
from expograph.claims.outcome import NotMeasured, Part, within

ACCURACY = "accuracy_averaged"
FEW = 5  # seeds up to which every difference is shown


class Compared(NamedTuple):
    """Two settings, the same seeds: their difference in points, in words, and the runs' keys."""

    difference: Paired
    text: str
    keys: tuple[str, ...]


def _compare(summary: pd.DataFrame, ours: Mapping[str, Any], other: Mapping[str, Any]) -> Compared:
    """Accuracy of the runs with the values `ours` minus those with `other` in their place."""
    sides = []
    for values in (ours, {**ours, **other}):
        side = summary
        for key, value in values.items():
            side = side[side[key] == value] if key in side else side[:0]
        if not len(side) or (side["status"] != "done").any():
            raise NotMeasured(f"no finished runs for {dict(values)}, or some diverged")
        sides.append(side.set_index("seed"))
    a, b = sides
    if set(a.index) != set(b.index) or len(a) < 2 or len(a) + len(b) > 2 * a.index.nunique():
        raise NotMeasured(f"{dict(ours)} and {dict(other)}: no pairs of runs of two or more seeds")
    values, others = a[ACCURACY], b[ACCURACY].loc[a.index]
    found = paired(values, others)
    seeds = f"{found.count} seeds"
    if found.count <= FEW:
        seeds += ": " + ", ".join(f"{value:+.2f}" for value in values - others)
    return Compared(found, f"difference {found}, {seeds}", (*a["key"], *b["key"]))


def as_accurate(
    root: Path,
    config: AccuracyConfig,
    where: Where,
    nodes: Sizes,
    topologies: Topologies,
    reference: Topology,
    margin: Points,
) -> list[Part]:
    """Non-inferiority: the difference lies above -margin points."""
    wanted = f"not more than {margin:g} point below {_in_words(reference)}"
    return [
        _part(f"{name}/n={n}", f"{name_of(name)}, {n} nodes: {wanted}", found, -margin)
        for name, _, n, found in _graphs(root, config, where, nodes, topologies, [reference])
    ]


def alike(
    root: Path,
    config: AccuracyConfig,
    where: Where,
    nodes: Sizes,
    topologies: Topologies,
    reference: Topology,
    margin: Points,
) -> list[Part]:
    """Equivalence: the difference lies within margin points, by two one-sided tests."""
    wanted = f"within {margin:g} point of {_in_words(reference)}"
    return [
        _part(f"{name}/n={n}", f"{name_of(name)} {wanted}, {n} nodes", found, -margin, margin)
        for name, _, n, found in _graphs(root, config, where, nodes, topologies, [reference])
    ]


def more_accurate(
    root: Path,
    config: AccuracyConfig,
    where: Where,
    nodes: Sizes,
    topologies: Topologies,
    than: Topologies,
) -> list[Part]:
    """Superiority: the difference lies above zero."""
    return [
        _part(f"{a}/{b}/n={n}", f"{name_of(a)} above {name_of(b)}, {n} nodes", found, 0)
        for a, b, n, found in _graphs(root, config, where, nodes, topologies, than)
    ]


def rules_alike(
    root: Path,
    config: AccuracyConfig,
    where: Where,
    topologies: Topologies,
    algorithms: Algorithms,
    than: Algorithm,
    margin: Points,
) -> list[Part]:
    """Equivalence of update rules on the same graph and seeds."""
    wanted = f"within {margin:g} point of {name_of(than)}"
    return [
        _part(f"{a}/{graph}", f"{name_of(a)} {wanted}, {name_of(graph)}", found, -margin, margin)
        for a, graph, found in _rules(root, config, where, topologies, algorithms, than)
    ]


def rules_better(
    root: Path,
    config: AccuracyConfig,
    where: Where,
    topologies: Topologies,
    algorithms: Algorithms,
    than: Algorithm,
) -> list[Part]:
    """Superiority of update rules over another one on the same graph and seeds."""
    wanted = f"above {name_of(than)}"
    return [
        _part(f"{a}/{graph}", f"{name_of(a)} {wanted}, {name_of(graph)}", found, 0)
        for a, graph, found in _rules(root, config, where, topologies, algorithms, than)
    ]


def _graphs(
    root: Path,
    config: str,
    where: Mapping[str, Any],
    nodes: Sequence[int],
    topologies: Sequence[str],
    others: Sequence[str],
) -> Iterator[tuple[str, str, int, Compared]]:
    """Each graph against each of the others at each n: their names, n, the difference."""
    _, summary = evidence.finished(root, config, where)
    for name, other, n in itertools.product(topologies, others, nodes):
        ours = {"topology": name, "nodes": n}
        yield name, other, n, _compare(summary, ours, {"topology": other})


def _rules(
    root: Path,
    config: str,
    where: Mapping[str, Any],
    topologies: Sequence[str],
    algorithms: Sequence[str],
    than: str,
) -> Iterator[tuple[str, str, Compared]]:
    """Each rule against another one on each graph: its name, the graph's, the difference."""
    _, summary = evidence.finished(root, config, where)
    for graph, name in itertools.product(topologies, algorithms):
        ours = {"topology": graph, "algorithm": name}
        yield name, graph, _compare(summary, ours, {"algorithm": than})


def _part(
    id: str, text: str, found: Compared, lowest: float = -math.inf, most: float = math.inf
) -> Part:
    return Part.tested(id, text, within(found.difference, lowest, most), found.text, found.keys)


def _in_words(reference: str) -> str:
    return name_of("psgd" if reference == "fully_connected" else reference)
