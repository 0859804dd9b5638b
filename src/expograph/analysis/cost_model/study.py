"""The study: our measurements, the hours of the paper's ImageNet table, and sizes beyond both.

The hours are predicted twice: *predictive*, with gamma from one cell and everything else measured
or stated, and *fitted*, with three parameters fitted to all twelve cells.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from expograph.analysis.cost_model.assumptions import (
    Assumptions,
    Beyond,
    PublishedHours,
    published_hours,
)
from expograph.analysis.cost_model.fit import calibrated, fit_cluster
from expograph.analysis.cost_model.held_out import (
    Formula,
    Links,
    Measurements,
    all_reduce_formulas,
    held_out,
    measurements,
)
from expograph.analysis.cost_model.model import (
    ALL_REDUCES,
    Cluster,
    Link,
    Workload,
    iteration_seconds,
    ring_all_reduce,
    training_hours,
)
from expograph.config import ConfigError
from expograph.graphs.topology import build

PSGD = "fully_connected"
BEYOND = (PSGD, "ring", "static_exponential", "one_peer_exponential")
MAPS = (("fitted", "ring"), ("predictive", "ring"), ("predictive", "tree"))
# what a variant's parameters come from: the one cell, or all
FROM_ONE_CELL, FROM_ALL_CELLS = "predictive", "fitted"


class Variant(NamedTuple):
    """A prediction of the published hours under other assumptions.

    Attributes:
        name: what differs.
        cluster: its parameters.
        errors: relative, of the cells that its parameters do not come from: topology, nodes,
            published (hours), error.
    """

    name: str
    cluster: Cluster
    errors: pd.DataFrame


class Study(NamedTuple):
    """Everything that was found.

    Attributes:
        given: the assumptions.
        published: the hours and where they were read.
        efficiency: a step's seconds over the wire's, as measured.
        alpha: seconds a message takes however short it is, as measured.
        workload: what is trained.
        clusters: "predictive" and "fitted".
        hours: topology, nodes, published, predictive, fitted.
        variants: the two and others.
        checked, links: `held_out`.
        formulas: `all_reduce_formulas`.
        grid: `beyond`.
        maps: (parameters, all-reduce) -> `speed_up`.
    """

    given: Assumptions
    published: PublishedHours
    efficiency: float
    alpha: float
    workload: Workload
    clusters: dict[str, Cluster]
    hours: pd.DataFrame
    variants: list[Variant]
    checked: pd.DataFrame
    links: Links
    formulas: list[Formula]
    grid: pd.DataFrame
    maps: dict[tuple[str, str], pd.DataFrame]

    @property
    def calibrated_cell(self) -> pd.Series:
        """Which row of `hours` gives gamma."""
        cell = self.given.published
        return (self.hours["topology"] == cell.topology) & (self.hours["nodes"] == cell.nodes)


def study(given: Assumptions, path: Path, root: Path) -> Study:
    """Fit and predict from the measurements under `root`.

    Args:
        given: the assumptions, read from `path`; published.toml lies beside it.
    Raises:
        ConfigError: measurements or published hours that they name are not there.
    """
    measured = measurements(root)
    checked, links = held_out(measured.times)
    formulas = all_reduce_formulas(checked, links)
    efficiency, alpha, call_alpha = _link_facts(given, path, measured, links)
    published = published_hours(path, given.published.table)
    cell = (given.published.topology, given.published.nodes)
    if cell not in published.hours:
        raise ConfigError(f"{path}: published: no cell {cell[0]}, {cell[1]} nodes")

    w, c = given.workload, given.cluster
    workload = Workload(float(w.parameters * w.bytes_per_parameter), w.samples, w.epochs)
    between = Link(alpha, efficiency * 8e-9 / c.gbit)
    stated = Cluster(c.gpus, c.batch, 1.0, between, Link(0.0, 1e-9 / c.nvlink_gbyte))

    fits: dict[str, Callable[[Cluster], Cluster]] = {
        FROM_ONE_CELL: lambda cluster: calibrated(
            cluster, workload, build(*cell), published.hours[cell]
        ),
        FROM_ALL_CELLS: lambda cluster: fit_cluster(cluster, workload, published.hours),
    }
    (slowdown,) = (formula.slowdown for formula in formulas if formula.slowdown is not None)
    variants = []
    for kind, about, cluster in _variants(stated, call_alpha, slowdown):
        found = fits[kind](cluster)
        errors = _errors(found, workload, published, None if kind == FROM_ALL_CELLS else cell)
        variants.append(Variant(f"{kind}, {about}" if about else kind, found, errors))
    clusters = {v.name: v.cluster for v in variants if v.name in fits}
    cells = [(*cell, hours) for cell, hours in published.hours.items()]
    hours = pd.DataFrame(cells, columns=["topology", "nodes", "published"])
    for name, cluster in clusters.items():
        hours[name] = [
            training_hours(cluster, workload, build(row.topology, row.nodes))
            for row in hours.itertuples()
        ]
    grid = beyond(clusters, workload, given.beyond, efficiency)
    return Study(
        given=given,
        published=published,
        efficiency=efficiency,
        alpha=alpha,
        workload=workload,
        clusters=clusters,
        hours=hours,
        variants=variants,
        checked=checked,
        links=links,
        formulas=formulas,
        grid=grid,
        maps={(parameters, kind): speed_up(grid, parameters, kind) for parameters, kind in MAPS},
    )


def _link_facts(
    given: Assumptions, path: Path, measured: Measurements, links: Links
) -> tuple[float, float, float]:
    """A step's seconds over the wire's, alpha of a message, and alpha of a whole one-peer call."""
    source = given.measured
    at = measured.times[measured.times["place"] == source.table]
    chosen = at[(at["averaging"] == source.efficiency) & (at["elements"] == source.elements)]
    if chosen.empty or chosen["wire"].isna().any() or source.alpha not in set(at["averaging"]):
        raise ConfigError(f"{path}: measured: no such rows with a wire limit in {source.table}")
    step = chosen.iloc[0]
    ranks = int(step["ranks"])
    efficiency = float(step["ms"] / step["wire_ms"])
    return (
        efficiency,
        measured.messages[source.table, ranks].alpha,
        links[source.table, ranks].alpha,
    )


def _variants(
    stated: Cluster, call_alpha: float, slowdown: float
) -> list[tuple[str, str, Cluster]]:
    """(what the parameters come from, what differs, the cluster before they are found)."""

    def slow_ring(n: int, message: float, link: Link) -> float:
        return ring_all_reduce(n, message, Link(link.alpha, slowdown * link.beta))

    slower = stated._replace(between=Link(call_alpha, stated.between.beta))
    tree = stated._replace(all_reduce=ALL_REDUCES["tree"])
    as_slow = stated._replace(all_reduce=slow_ring)
    batches = {f"batch {b}": stated._replace(batch=b) for b in (64, 256)}
    one_cell = {
        "": stated,
        "alpha of a whole one-peer call": slower,
        "all-reduce as slow as on the virtual cluster": as_slow,
        "all-reduce by trees": tree,
        **batches,
    }
    all_cells = {"": stated, "all-reduce by trees": tree, **batches}
    return [
        (kind, about, cluster)
        for kind, clusters in ((FROM_ONE_CELL, one_cell), (FROM_ALL_CELLS, all_cells))
        for about, cluster in clusters.items()
    ]


def _errors(
    cluster: Cluster,
    workload: Workload,
    published: PublishedHours,
    calibrated_on: tuple[str, int] | None,
) -> pd.DataFrame:
    rows = [
        (*cell, hours, training_hours(cluster, workload, build(*cell)) / hours - 1)
        for cell, hours in published.hours.items()
        if cell != calibrated_on
    ]
    return pd.DataFrame(rows, columns=["topology", "nodes", "published", "error"])


def beyond(
    clusters: dict[str, Cluster], workload: Workload, values: Beyond, efficiency: float
) -> pd.DataFrame:
    """Iteration seconds: parameters, all_reduce, topology, nodes, gbit, seconds."""
    topologies = [build(name, n) for n in values.nodes for name in BEYOND]
    rows = []
    for parameters, cluster in clusters.items():
        for topology in topologies:
            kinds = ("ring", "tree") if topology.name == PSGD else ("",)
            for kind in kinds:
                for gbit in values.gbit:
                    link = Link(cluster.between.alpha, efficiency * 8e-9 / gbit)
                    reduce = ALL_REDUCES.get(kind, ring_all_reduce)
                    at = cluster._replace(between=link, all_reduce=reduce)
                    seconds = iteration_seconds(at, workload, topology)
                    rows.append((parameters, topology.name, kind, topology.n, gbit, seconds))
    columns = ["parameters", "topology", "all_reduce", "nodes", "gbit", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def speed_up(grid: pd.DataFrame, parameters: str, all_reduce: str) -> pd.DataFrame:
    """Parallel SGD's seconds over the one-peer graph's: rows nodes, columns Gbit/s."""
    at = grid[grid["parameters"] == parameters]
    psgd = at[(at["topology"] == PSGD) & (at["all_reduce"] == all_reduce)]
    one_peer = at[at["topology"] == "one_peer_exponential"]
    by = {"index": "nodes", "columns": "gbit", "values": "seconds"}
    return psgd.pivot(**by) / one_peer.pivot(**by)
