"""Claims about accuracy: paired differences between runs that share their seeds."""

import itertools
from pathlib import Path

import pandas as pd

from expograph.analysis.statistics import Paired, paired
from expograph.analysis.written import name_of
from expograph.claims import evidence
from expograph.claims.arguments import (
    AccuracyConfig,
    Algorithm,
    Partition,
    Points,
    Sizes,
    Topologies,
    Topology,
)
from expograph.claims.outcome import NotMeasured, Part, between

ACCURACY = "accuracy_averaged"


def _difference(
    summary: pd.DataFrame, ours: dict[str, object], theirs: dict[str, object]
) -> tuple[Paired, tuple[str, ...]]:
    """Paired difference in accuracy between the runs with these values, and their keys."""
    sides = []
    for where in (ours, theirs):
        side = summary
        for key, value in where.items():
            side = side[side[key] == value]
        if not len(side) or (side["status"] != "done").any():
            raise NotMeasured(f"no finished runs for {where}, or some diverged")
        sides.append(side.set_index("seed"))
    a, b = sides
    if set(a.index) != set(b.index) or len(a) < 2 or len(a) + len(b) > 2 * a.index.nunique():
        raise NotMeasured(f"{ours} and {theirs}: no pairs of runs of two or more seeds")
    keys = tuple([*a["key"], *b["key"]])
    return paired(a[ACCURACY], b[ACCURACY].loc[a.index]), keys


def as_accurate(
    root: Path, config: AccuracyConfig, topologies: Topologies, reference: Topology, margin: Points
) -> list[Part]:
    """Non-inferiority: the whole 95 % interval of the difference lies above -margin points."""
    _, summary = evidence.finished(root, config)
    parts = []
    for name in topologies:
        for n in sorted(summary["nodes"].unique()):
            found, keys = _difference(
                summary, {"topology": name, "nodes": n}, {"topology": reference, "nodes": n}
            )
            parts.append(
                Part(
                    f"{name}/n={n}",
                    f"{name_of(name)}, {n} nodes: not more than {margin:g} point below "
                    f"{name_of('psgd' if reference == 'fully_connected' else reference)}",
                    between(found.low, found.high, lowest=-margin),
                    f"difference {found}, {found.count} seeds",
                    keys,
                )
            )
    return parts


def more_accurate(
    root: Path, config: AccuracyConfig, nodes: Sizes, topologies: Topologies, than: Topologies
) -> list[Part]:
    """The whole 95 % interval of the difference lies above zero."""
    _, summary = evidence.finished(root, config)
    parts = []
    for name, other, n in itertools.product(topologies, than, nodes):
        found, keys = _difference(
            summary, {"topology": name, "nodes": n}, {"topology": other, "nodes": n}
        )
        parts.append(
            Part(
                f"{name}/{other}/n={n}",
                f"{name_of(name)} above {name_of(other)}, {n} nodes",
                between(found.low, found.high, lowest=0),
                f"difference {found}, {found.count} seeds",
                keys,
            )
        )
    return parts


def momentum(
    root: Path,
    config: AccuracyConfig,
    partition: Partition,
    margin: Points,
    better: list[Algorithm],
    alike: list[Algorithm],
) -> list[Part]:
    """Each algorithm minus vanilla DmSGD on the same graph and seeds."""
    _, summary = evidence.finished(root, config)
    parts = []
    for topology in ("static_exponential", "one_peer_exponential"):
        for name in (*better, *alike):
            where = {"topology": topology, "problem.partition": partition}
            found, keys = _difference(
                summary,
                {**where, "algorithm": name},
                {**where, "algorithm": "vanilla_dmsgd"},
            )
            sides = {"lowest": 0.0} if name in better else {"lowest": -margin, "most": margin}
            wanted = "above" if name in better else f"within {margin:g} point of"
            parts.append(
                Part(
                    f"{name}/{topology}",
                    f"{name_of(name)} {wanted} vanilla DmSGD, {name_of(topology)}",
                    between(found.low, found.high, **sides),
                    f"difference {found}, {found.count} seeds",
                    keys,
                )
            )
    return parts
