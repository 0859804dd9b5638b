"""The study: our measurements, the hours of the paper's ImageNet table, and sizes beyond both.

The hours are predicted in three ways: *left out*, each cell by three parameters fitted to all
others; *predictive*, with gamma from one cell and everything else measured or assumed; *fitted*, by
three parameters fitted to all cells, which is no prediction and shown beside.
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
from expograph.analysis.cost_model.left_out import (
    NULL_MODELS,
    Fit,
    Judged,
    Rested,
    from_one_cell,
    largest_from_smaller,
    leave_one_out,
    no_communication,
    of_cluster,
    without_rows,
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
# what a variant's parameters come from: the one cell, or all
FROM_ONE_CELL, FROM_ALL_CELLS = "predictive", "fitted"
BY_TREES = "all-reduce by trees"
# what large clusters use first
MAPS = tuple((p, kind) for kind in ("tree", "ring") for p in (FROM_ALL_CELLS, FROM_ONE_CELL))
DRAWN = tuple(key for key in MAPS if key != (FROM_ALL_CELLS, "ring"))  # all are in the tables
COST_MODEL = "cost model"


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
        clusters: (parameters, all-reduce) -> the cluster; "fitted" with the same all-reduce.
        hours: topology, nodes, published, predictive, fitted, and "left out", the fit to the
            other cells.
        variants: "predictive", "fitted", and either under other assumptions.
        judged: the cost model and null models on cells that they have not seen.
        rested: what the fitted alpha rests on.
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
    clusters: dict[tuple[str, str], Cluster]
    hours: pd.DataFrame
    variants: list[Variant]
    judged: list[Judged]
    rested: list[Rested]
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

    def judgement(self, model: str, protocol: str) -> pd.DataFrame:
        """The predictions of one model: topology, nodes, published, predicted, error."""
        at = ((judged.model, judged.protocol) == (model, protocol) for judged in self.judged)
        return self.judged[list(at).index(True)].errors


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
    for kind, about, cluster in _variants(stated, efficiency, call_alpha, slowdown):
        found = fits[kind](cluster)
        errors = _errors(found, workload, published, None if kind == FROM_ALL_CELLS else cell)
        variants.append(Variant(f"{kind}, {about}" if about else kind, found, errors))
    by_name = {v.name: v.cluster for v in variants}
    clusters = {
        (parameters, kind): by_name[f"{parameters}, {BY_TREES}" if kind == "tree" else parameters]
        for parameters, kind in MAPS
    }
    judged = _judged(by_name[f"{FROM_ALL_CELLS}, {BY_TREES}"], stated, workload, published, cell)
    cells = [(*cell, hours) for cell, hours in published.hours.items()]
    hours = pd.DataFrame(cells, columns=["topology", "nodes", "published"])
    hours["left out"] = judged[0].errors["predicted"]
    for name in fits:
        hours[name] = [
            training_hours(by_name[name], workload, build(row.topology, row.nodes))
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
        judged=judged,
        rested=without_rows(stated, workload, published.hours),
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
    source, ranks = given.measured, given.measured.ranks
    times = measured.times
    at = times[(times["place"] == source.table) & (times["ranks"] == ranks)]
    chosen = at[(at["averaging"] == source.efficiency) & (at["elements"] == source.elements)]
    if chosen.empty or chosen["wire"].isna().any() or source.alpha not in set(at["averaging"]):
        raise ConfigError(f"{path}: measured: no such rows with a wire limit in {source.table}")
    step = chosen.iloc[0]
    efficiency = float(step["ms"] / step["wire_ms"])
    return (
        efficiency,
        measured.messages[source.table, ranks].alpha,
        links[source.table, ranks].alpha,
    )


def _variants(
    stated: Cluster, efficiency: float, call_alpha: float, slowdown: float
) -> list[tuple[str, str, Cluster]]:
    """(what the parameters come from, what differs, the cluster before they are found)."""

    def slow_ring(n: int, message: float, link: Link) -> float:
        return ring_all_reduce(n, message, Link(link.alpha, slowdown * link.beta))

    slower = stated._replace(between=Link(call_alpha, stated.between.beta))
    tree = stated._replace(all_reduce=ALL_REDUCES["tree"])
    as_slow = stated._replace(all_reduce=slow_ring)
    assumed = {f"batch {b}": stated._replace(batch=b) for b in (64, 256)}
    for gbit in (10, 100):
        link = Link(stated.between.alpha, efficiency * 8e-9 / gbit)
        assumed[f"{gbit} Gbit/s"] = stated._replace(between=link)
    one_cell = {
        "": stated,
        "alpha of a whole one-peer call": slower,
        "all-reduce as slow as on the virtual cluster": as_slow,
        BY_TREES: tree,
        **assumed,
    }
    all_cells = {"": stated, BY_TREES: tree, **assumed}
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


def _judged(
    by_trees: Cluster,
    stated: Cluster,
    workload: Workload,
    published: PublishedHours,
    cell: tuple[str, int],
) -> list[Judged]:
    """The cost model and the null models, first each cell from all others."""
    models: dict[str, Fit] = {
        COST_MODEL: of_cluster(stated, workload),
        f"{COST_MODEL}, {BY_TREES}": of_cluster(by_trees, workload),
        **NULL_MODELS,
    }
    hours = published.hours

    def from_gamma(cells):
        ((at, value),) = cells.items()
        found = calibrated(stated, workload, build(*at), value)
        return lambda topology, nodes: training_hours(found, workload, build(topology, nodes))

    return [
        *(leave_one_out(name, fit, hours) for name, fit in models.items()),
        *(largest_from_smaller(name, fit, hours) for name, fit in models.items()),
        from_one_cell(f"{COST_MODEL}, predictive", from_gamma, hours, cell),
        from_one_cell("no communication", no_communication, hours, cell),
    ]


def beyond(
    clusters: dict[tuple[str, str], Cluster],
    workload: Workload,
    values: Beyond,
    efficiency: float,
) -> pd.DataFrame:
    """Iteration seconds: parameters, all_reduce, topology, nodes, gbit, seconds.

    Args:
        clusters: (parameters, all-reduce) -> cluster, its all-reduce being that one.
    """
    topologies = [build(name, n) for n in values.nodes for name in BEYOND]
    rows = []
    for (parameters, kind), cluster in clusters.items():
        for topology in topologies:
            for gbit in values.gbit:
                link = Link(cluster.between.alpha, efficiency * 8e-9 / gbit)
                seconds = iteration_seconds(cluster._replace(between=link), workload, topology)
                rows.append((parameters, kind, topology.name, topology.n, gbit, seconds))
    columns = ["parameters", "all_reduce", "topology", "nodes", "gbit", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def speed_up(grid: pd.DataFrame, parameters: str, all_reduce: str) -> pd.DataFrame:
    """Parallel SGD's seconds over the one-peer graph's: rows nodes, columns Gbit/s."""
    at = grid[(grid["parameters"] == parameters) & (grid["all_reduce"] == all_reduce)]
    psgd = at[at["topology"] == PSGD]
    one_peer = at[at["topology"] == "one_peer_exponential"]
    by = {"index": "nodes", "columns": "gbit", "values": "seconds"}
    return psgd.pivot(**by) / one_peer.pivot(**by)
