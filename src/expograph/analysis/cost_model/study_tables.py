"""The study as tables: what is in results/cost_model/table.json."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from expograph.analysis.cost_model.left_out import at_bounds
from expograph.analysis.cost_model.model import training_hours
from expograph.analysis.cost_model.notes import map_title, notes_of, topology_name
from expograph.analysis.cost_model.study import FROM_ALL_CELLS, Study, Variant
from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.analysis.written import UNAVAILABLE
from expograph.graphs.topology import static_exponential

ROUNDING = 0.05  # hours: the published ones have one decimal
PERCENT = "+z.1f"  # without a negative zero


def tables_of(study: Study, path: str, made: Mapping[str, Any]) -> Tables:
    """All tables of the study with their notes.

    Args:
        path: of the assumptions, for the notes.
        made: provenance.
    """
    beyond = [_speed_up(study, *key) for key in study.maps]
    return Tables(
        title="What averaging and training cost",
        tables=(
            hours(study),
            _left_out(study),
            _latency(study),
            parameters(study),
            _node_hours(study),
            _static_exponential(study),
            _held_out(study),
            _links(study),
            _all_reduces(study),
            *beyond,
            *(_iterations(study, kind) for kind in dict.fromkeys(kind for _, kind in study.maps)),
        ),
        notes=tuple(notes_of(study, path, made)),
        made=made,
    )


def hours(study: Study) -> TableResult:
    """Published and predicted hours, cell by cell."""
    source, calibrated = study.published.source, study.calibrated_cell
    left_out = study.hours["left out"]
    rows = []
    for i, row in enumerate(study.hours.itertuples()):
        errors = [
            Cell(mean=100 * (value / row.published - 1))
            for value in (left_out[i], row.predictive, row.fitted)
        ]
        cells = (
            Cell(mean=row.published, source=source),
            Cell(mean=100 * ROUNDING / row.published),
            Cell(mean=left_out[i]),
            errors[0],
            Cell(mean=row.predictive),
            Cell(text="calibrated") if calibrated[i] else errors[1],
            Cell(mean=row.fitted),
            errors[2],
        )
        rows.append(((row.topology, row.nodes), cells))
    columns = (
        Column(name="published", format=".1f", published="itself"),
        Column(name="its rounding (± %)", format=".1f"),
        Column(name="left out"),
        Column(name="its error (%)", format=PERCENT),
        Column(name="predictive"),
        Column(name="error of predictive (%)", format=PERCENT),
        Column(name="fitted"),
        Column(name="in-sample error of fitted (%)", format=PERCENT),
    )
    heading = "Hours of the paper's ImageNet table"
    return _table("hours", heading, ("topology", "nodes"), columns, rows)


def _left_out(study: Study) -> TableResult:
    """The cost model beside models that know nothing of communication, on unseen cells."""
    columns = (
        Column(name="cells", format=".0f"),
        Column(name="mean |error| (%)", format=".1f"),
        Column(name="worst (%)", format=PERCENT),
        Column(name="its cell"),
    )
    rows = []
    for judged in study.judged:
        error = judged.errors["error"]
        cells = (
            Cell(mean=len(error)),
            Cell(mean=100 * float(error.abs().mean())),
            *_worst(judged.errors),
        )
        rows.append(((judged.protocol, judged.model), cells))
    heading = "Errors on cells that a model has not seen"
    return _table("left_out", heading, ("predicted", "model"), columns, rows)


def _latency(study: Study) -> TableResult:
    columns = (
        Column(name="alpha (ms)"),
        Column(name="images/s a GPU", format=".1f"),
        Column(name="overlap phi"),
        Column(name="on its bound"),
        Column(name="rms error (%)", format=".1f"),
        Column(name="the same with alpha = 0 (%)", format=".1f"),
    )
    rows = []
    for rested in study.rested:
        cluster, unknown = rested.cluster, Cell(text="not determined")
        cells = (
            Cell(mean=1e3 * cluster.between.alpha) if rested.determined else unknown,
            Cell(mean=1 / cluster.sample_seconds) if rested.determined else unknown,
            Cell(mean=cluster.overlap),
            Cell(text=", ".join(at_bounds(cluster)) or "none"),
            Cell(mean=100 * rested.error),
            Cell(mean=100 * rested.without_alpha),
        )
        name = "all" if rested.without is None else f"without {topology_name(rested.without)}"
        rows.append(((name,), cells))
    heading = "What the fitted alpha rests on: fits without one row of the table"
    return _table("latency", heading, ("rows",), columns, rows)


def _worst(errors: pd.DataFrame) -> tuple[Cell, Cell]:
    """The error furthest from 0, and where it is."""
    worst = errors.loc[errors["error"].abs().idxmax()]
    place = f"{topology_name(worst['topology'])}, {worst['nodes']} nodes"
    return Cell(mean=100 * float(worst["error"])), Cell(text=place)


def parameters(study: Study) -> TableResult:
    """What each prediction's parameters are, and how far it is off."""
    columns = (
        Column(name="images/s a GPU", format=".1f"),
        Column(name="alpha (ms)"),
        Column(name="1/beta (Gbit/s)", format=".1f"),
        Column(name="overlap phi"),
        Column(name="cells", format=".0f"),
        Column(name="mean |error| (%)", format=".1f"),
        Column(name="worst (%)", format=PERCENT),
        Column(name="its cell"),
        Column(name="within rounding", format=".0f"),
    )
    rows = [((variant.name,), _describe(variant)) for variant in study.variants]
    heading = "Parameters and errors, and what they depend on"
    return _table("parameters", heading, ("prediction",), columns, rows)


def _describe(variant: Variant) -> list[Cell]:
    cluster, at = variant.cluster, variant.errors
    error = at["error"]
    within = (error.abs() * at["published"] <= ROUNDING).sum()
    return [
        Cell(mean=1 / cluster.sample_seconds),
        Cell(mean=1e3 * cluster.between.alpha),
        Cell(mean=cluster.between.gbit),
        Cell(mean=cluster.overlap),
        Cell(mean=len(error)),
        Cell(mean=100 * float(error.abs().mean())),
        *_worst(at),
        Cell(mean=int(within)),
    ]


def _node_hours(study: Study) -> TableResult:
    by_cell = study.published.hours
    sizes = list(dict.fromkeys(n for _, n in by_cell))
    topologies = dict.fromkeys(name for name, _ in by_cell)
    columns = [
        Column(name=f"{n} nodes", key="nodes", value=n, format=".1f", published="itself")
        for n in sizes
    ]
    rows = [
        (
            (name,),
            [Cell(mean=n * by_cell[name, n]) if (name, n) in by_cell else Cell() for n in sizes],
        )
        for name in topologies
    ]
    return _table("node_hours", "Published nodes x hours", ("topology",), columns, rows)


def _static_exponential(study: Study) -> TableResult:
    sizes = [int(n) for n in study.hours["nodes"].unique()]
    columns = [Column(name=f"{n} nodes", key="nodes", value=n) for n in sizes]
    rows = [
        (
            (name,),
            [Cell(mean=training_hours(c, study.workload, static_exponential(n))) for n in sizes],
        )
        for (name, kind), c in study.clusters.items()
        if kind == "ring"
    ]
    heading = f"Hours of the static exponential graph, published: {UNAVAILABLE}"
    return _table("static_exponential_hours", heading, ("prediction",), columns, rows)


def _held_out(study: Study) -> TableResult:
    columns = (
        Column(name="measured (ms)", format=".3g"),
        Column(name="predicted (ms)", format=".3g"),
        Column(name="error (%)", format="+z.0f"),
    )
    rows = [
        (
            (row.place, row.ranks, row.averaging, row.elements),
            (
                Cell(mean=1e3 * row.measured),
                Cell(mean=1e3 * row.predicted),
                Cell(mean=100 * row.error),
            ),
        )
        for row in study.checked.itertuples()
    ]
    heading = "Our own measurements, predicted from the one-peer graph's alone"
    labels = ("place", "ranks", "averaging", "elements")
    return _table("held_out", heading, labels, columns, rows)


def _links(study: Study) -> TableResult:
    columns = (Column(name="alpha (ms)"), Column(name="1/beta (Gbit/s)"))
    rows = [
        ((place, n), (Cell(mean=1e3 * link.alpha), Cell(mean=link.gbit)))
        for (place, n), link in study.links.items()
    ]
    heading = "Links fitted to the one-peer graph's times"
    return _table("links", heading, ("place", "ranks"), columns, rows)


def _all_reduces(study: Study) -> TableResult:
    places = list(study.formulas[0].errors)
    columns = (
        Column(name="c (ns a byte)"),
        Column(name="f"),
        *(Column(name=f"{place}, {n} ranks (%)", format="+z.0f") for place, n in places),
    )
    rows = [
        (
            (formula.name,),
            (
                Cell(mean=None if formula.arithmetic is None else 1e9 * formula.arithmetic),
                Cell(mean=formula.slowdown),
                *(Cell(mean=100 * formula.errors[where]) for where in places),
            ),
        )
        for formula in study.formulas
    ]
    heading = "All-reduce of a million elements and more: mean error of formulas"
    return _table("all_reduces", heading, ("formula",), columns, rows)


def _speed_up(study: Study, parameters: str, all_reduce: str) -> TableResult:
    frame = study.maps[parameters, all_reduce]
    columns = [
        Column(name=f"{gbit:g} Gbit/s", key="gbit", value=float(gbit)) for gbit in frame.columns
    ]
    rows = [((int(n),), [Cell(mean=v) for v in values]) for n, *values in frame.itertuples()]
    title = map_title(parameters, all_reduce)
    heading = f"Beyond: speed-up of one-peer over parallel SGD, {title}"
    return _table(f"speed_up_{all_reduce}_{parameters}", heading, ("nodes",), columns, rows)


def _iterations(study: Study, all_reduce: str) -> TableResult:
    """Empty where the stated bandwidth is none of those beyond."""
    grid, gbit = study.grid, study.given.cluster.gbit
    at = grid[
        (grid["parameters"] == FROM_ALL_CELLS)
        & (grid["all_reduce"] == all_reduce)
        & (grid["gbit"] == gbit)
    ]
    topologies = list(dict.fromkeys(at["topology"]))
    columns = [Column(name=topology_name(topology), format=".3f") for topology in topologies]
    seconds = at.set_index(["nodes", "topology"])["seconds"]
    rows = [
        ((int(n),), [Cell(mean=float(seconds[n, topology])) for topology in topologies])
        for n in at["nodes"].unique()
    ]
    title = map_title(FROM_ALL_CELLS, all_reduce)
    heading = f"Beyond: iteration seconds at the assumed bandwidth, {title}"
    return _table(f"iteration_seconds_{all_reduce}", heading, ("nodes",), columns, rows)


def _table(
    id: str,
    heading: str,
    labels: Iterable[str],
    columns: Iterable[Column],
    rows: Iterable[tuple[tuple, Iterable[Cell]]],
) -> TableResult:
    return TableResult(
        id=id,
        heading=heading,
        labels=tuple(labels),
        columns=tuple(columns),
        rows=tuple(Row(labels=names, cells=tuple(cells)) for names, cells in rows),
    )
