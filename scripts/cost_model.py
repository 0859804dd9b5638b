"""The cost model against our own measurements and against the paper's hours, and beyond both.

    python scripts/cost_model.py

Fits alpha and beta to our one-peer measurements (results/bench_comm/) and predicts the other
averagings from them; predicts the hours of the paper's ImageNet table twice, with gamma from one
cell and everything else measured or stated, and with three parameters fitted to all twelve cells;
then predicts an iteration at up to 4,096 nodes and 400 Gbit/s. What it stands on is in
configs/cost_model.toml. Writes results/cost_model/: table.{md,csv,tex}, heatmap.csv and figures.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from expograph.analysis.cost_model.model import (
    ALL_REDUCES,
    Cluster,
    Link,
    Workload,
    calibrated,
    fit,
    fit_cluster,
    fit_term,
    iteration_seconds,
    mean_step_seconds,
    ring_all_reduce,
    training_hours,
)
from expograph.config import ConfigError, published_numbers, read_toml
from expograph.files import replace_text
from expograph.graphs.topology import build, static_exponential
from expograph.names import closest
from expograph.report import figures, tables
from expograph.report.cost_figures import ROUNDING, node_hours, speed_up_map
from expograph.report.style import name_of
from expograph.runs import results
from expograph.runs.provenance import provenance

ONE_PEER = "one-peer exponential"  # what is fitted; the others are held out
AVERAGINGS = {  # of the measurements: label -> topology
    ONE_PEER: "one_peer_exponential",
    "static exponential": "static_exponential",
    "ring": "ring",
    "BlueFog allreduce": "fully_connected",
    "Horovod allreduce": "fully_connected",
}
LONG = 1_000_000  # elements from which on the wire matters more than the call
PSGD = "fully_connected"
BEYOND = (PSGD, "ring", "static_exponential", "one_peer_exponential")


# ---- what it stands on ----


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class WorkloadValues(Strict):
    parameters: PositiveInt
    bytes_per_parameter: PositiveInt
    samples: PositiveInt
    epochs: PositiveInt


class ClusterValues(Strict):
    gpus: PositiveInt
    batch: PositiveInt
    gbit: PositiveFloat
    nvlink_gbyte: PositiveFloat


class Measured(Strict):
    table: str
    efficiency: str
    elements: PositiveInt
    alpha: str


class PublishedCell(Strict):
    table: str
    topology: str
    nodes: PositiveInt


class Reference(Strict):
    images_per_second: PositiveFloat
    gpus: PositiveInt


class Beyond(Strict):
    nodes: list[PositiveInt] = Field(min_length=2)
    gbit: list[PositiveFloat] = Field(min_length=2)
    nothing_gained: float = Field(gt=1)


class Assumptions(Strict):
    """configs/cost_model.toml."""

    workload: WorkloadValues
    cluster: ClusterValues
    measured: Measured
    published: PublishedCell
    reference: Reference
    beyond: Beyond


def read(path: Path) -> Assumptions:
    """Raises ConfigError, one line naming file and key."""
    try:
        return Assumptions.model_validate(read_toml(path, "cost_model"))
    except ValidationError as e:
        # a misspelt key is also a missing one: the misspelling is what helps
        error = min(e.errors(), key=lambda error: error["type"] != "extra_forbidden")
        where, message = list(map(str, error["loc"])), error["msg"]
        if error["type"] == "extra_forbidden":
            inner = Assumptions.model_fields.get(where[0])
            known = (inner.annotation if inner and len(where) > 1 else Assumptions).model_fields
            near = closest(where[-1], known)
            message = "unknown key" + (f"; did you mean {near}?" if near else "")
        elif not isinstance(error["input"], dict):
            message += f", got {error['input']!r}"
        raise ConfigError(f"{path}: {'.'.join(where)}: {message}") from None


def measurements(root: Path) -> pd.DataFrame:
    """Every bench_comm table: place, ranks, elements, averaging, seconds, wire and alpha."""
    frames = []
    for path in sorted((root / "bench_comm").glob("*/table.csv")):
        frame = pd.read_csv(path).dropna(subset="elements")
        frames.append(frame.assign(place=path.parent.name, bytes=4 * frame["elements"]))
    if not frames:
        raise ConfigError(f"{root / 'bench_comm'}: no table.csv in it: `make bench-comm` makes one")
    found = pd.concat(frames, ignore_index=True)
    return found.assign(seconds=found["ms"] / 1e3)


# ---- our own measurements ----


def held_out(measured: pd.DataFrame) -> tuple[pd.DataFrame, dict[tuple[str, int], Link]]:
    """Each averaging predicted by the link that is fitted to the one-peer graph's times alone."""
    rows, links = [], {}
    for (place, n), at in measured.groupby(["place", "ranks"]):
        one_peer = at[at["averaging"] == ONE_PEER]
        link = links[place, n] = fit(one_peer["bytes"], one_peer["seconds"])
        for label, name in AVERAGINGS.items():
            for row in at[at["averaging"] == label].itertuples():
                predicted = mean_step_seconds(build(name, int(n)), row.bytes, link)
                rows.append((place, n, label, int(row.elements), row.seconds, predicted))
    columns = ["place", "ranks", "averaging", "elements", "measured", "predicted"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(error=frame["predicted"] / frame["measured"] - 1), links


def all_reduce_formulas(checked: pd.DataFrame, links: dict[tuple[str, int], Link]) -> pd.DataFrame:
    """Formulas for an all-reduce of long messages, and their mean error at each place.

    A formula's one parameter, where it has one, is fitted on the virtual cluster at 1 Gbit/s and
    judged on the other places, all of which are held out.
    """
    at = checked[checked["averaging"].str.contains("allreduce") & (checked["elements"] >= LONG)]
    link = [links[place, n] for place, n in zip(at["place"], at["ranks"], strict=True)]
    ranks, message, seconds = at["ranks"], 4.0 * at["elements"], at["measured"]
    by_name = {
        name: np.array([f(*args) for args in zip(ranks, message, link, strict=True)])
        for name, f in ALL_REDUCES.items()
    }
    ring = by_name["ring"]
    reduced = ((ranks - 1) / ranks * message).to_numpy()  # bytes a rank adds up
    wire = np.array([2 * b.beta for b in link]) * reduced
    fitted = (at["place"] == "testbed_1gbit").to_numpy()
    arithmetic, slow = (
        fit_term(ring[fitted], term[fitted], seconds[fitted]) for term in (reduced, wire)
    )
    candidates = {
        "ring, 2 (n - 1) (alpha + beta m / n)": (ring, ""),
        "ring + c (n - 1) m / n, arithmetic": (
            ring + arithmetic * reduced,
            f"c = {1e9 * arithmetic:.2f} ns a byte",
        ),
        "ring, beta times f": (ring + slow * wire, f"f = {1 + slow:.2f}"),
        "recursive doubling, log2 n (alpha + beta m)": (by_name["recursive doubling"], ""),
        "trees, 2 (log2 n alpha + beta m)": (by_name["tree"], ""),
    }
    rows = []
    for formula, (predicted, parameter) in candidates.items():
        error = pd.Series((predicted / seconds - 1).to_numpy())
        row = {"formula": formula, "parameter": parameter}
        for (place, n), i in at.reset_index(drop=True).groupby(["place", "ranks"]).groups.items():
            row[f"{place}, {n} ranks"] = f"{round(100 * error[i].mean()) + 0:+d} %"
        rows.append(row)
    frame = pd.DataFrame(rows)
    frame.attrs["slow"] = 1 + slow
    return frame


# ---- the published hours ----


def errors(prediction: pd.Series, published: pd.Series) -> pd.Series:
    return prediction / published - 1


def predicted_hours(cluster: Cluster, workload: Workload, hours: pd.DataFrame) -> pd.Series:
    """Hours of the training for each row's topology and nodes."""
    cells = [build(row.topology, row.nodes) for row in hours.itertuples()]
    return pd.Series([training_hours(cluster, workload, t) for t in cells], index=hours.index)


def describe(
    name: str, cluster: Cluster, workload: Workload, hours: pd.DataFrame
) -> dict[str, object]:
    """One row: a prediction's parameters, and its errors over the cells of `hours`."""
    error = errors(predicted_hours(cluster, workload, hours), hours["published"])
    worst = error.abs().idxmax()
    return {
        "prediction": name,
        "images/s a GPU": f"{1 / cluster.sample_seconds:.1f}",
        "alpha (ms)": f"{1e3 * cluster.between.alpha:.2f}",
        "1/beta (Gbit/s)": f"{8e-9 / cluster.between.beta:.1f}",
        "overlap phi": f"{cluster.overlap:.2f}",
        "cells": len(error),
        "mean |error|": f"{100 * error.abs().mean():.1f} %",
        "worst": percent(error[worst]),
        "its cell": f"{label_of(hours['topology'][worst])}, {hours['nodes'][worst]} nodes",
        "within rounding": int((error.abs() * hours["published"] <= ROUNDING).sum()),
    }


def label_of(topology: str) -> str:
    return name_of("psgd" if topology == PSGD else topology)


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


# ---- the report ----


def title(parameters: str, kind: str) -> str:
    return f"all-reduce by {'trees' if kind == 'tree' else 'a ring'}, {parameters} parameters"


def percent(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:+.1f} %"  # without a negative zero


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, default=Path("configs/cost_model.toml"))
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    arguments = parser.parse_args()
    try:
        write(read(arguments.config), arguments.config, arguments.results)
    except ConfigError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


def write(given: Assumptions, path: Path, root: Path) -> None:
    measured = measurements(root)
    checked, links = held_out(measured)
    formulas = all_reduce_formulas(checked, links)

    source = given.measured
    at = measured[(measured["place"] == source.table)]
    chosen = at[(at["averaging"] == source.efficiency) & (at["elements"] == source.elements)]
    alpha = at.loc[at["averaging"] == source.alpha, "alpha_ms"] / 1e3
    if chosen.empty or alpha.empty or chosen["wire_ms"].isna().any():
        raise ConfigError(f"{path}: measured: no such rows with a wire limit in {source.table}")
    efficiency = float(chosen["ms"].iloc[0] / chosen["wire_ms"].iloc[0])
    alpha = float(alpha.iloc[0])
    call_alpha = links[source.table, int(chosen["ranks"].iloc[0])].alpha

    w, c = given.workload, given.cluster
    workload = Workload(float(w.parameters * w.bytes_per_parameter), w.samples, w.epochs)
    between = Link(alpha, efficiency * 8e-9 / c.gbit)
    stated = Cluster(c.gpus, c.batch, 1.0, between, Link(0.0, 1e-9 / c.nvlink_gbyte))
    published = tables.Published(given.published.table, published_numbers(path))
    hours = pd.DataFrame(
        [
            (name, int(n), float(value))
            for name, cells in published.cells.items()
            for n, value in cells.items()
        ],
        columns=["topology", "nodes", "published"],
    )
    targets = {(row.topology, row.nodes): row.published for row in hours.itertuples()}
    cell = (given.published.topology, given.published.nodes)
    if cell not in targets:
        raise ConfigError(f"{path}: published: no cell {cell[0]}, {cell[1]} nodes")

    def from_one_cell(cluster: Cluster) -> Cluster:
        return calibrated(cluster, workload, build(*cell), targets[cell])

    def from_all_cells(cluster: Cluster) -> Cluster:
        return fit_cluster(cluster, workload, targets)

    def slow_ring(n: int, message: float, link: Link) -> float:
        return ring_all_reduce(n, message, Link(link.alpha, formulas.attrs["slow"] * link.beta))

    slower = stated._replace(between=Link(call_alpha, between.beta))
    tree = stated._replace(all_reduce=ALL_REDUCES["tree"])
    clusters = {"predictive": from_one_cell(stated), "fitted": from_all_cells(stated)}
    variants = {
        "predictive": clusters["predictive"],
        "predictive, alpha of a whole one-peer call": from_one_cell(slower),
        "predictive, all-reduce as slow as on the virtual cluster": from_one_cell(
            stated._replace(all_reduce=slow_ring)
        ),
        "predictive, all-reduce by trees": from_one_cell(tree),
        "predictive, batch 64": from_one_cell(stated._replace(batch=64)),
        "predictive, batch 256": from_one_cell(stated._replace(batch=256)),
        "fitted": clusters["fitted"],
        "fitted, all-reduce by trees": from_all_cells(tree),
        "fitted, batch 64": from_all_cells(stated._replace(batch=64)),
        "fitted, batch 256": from_all_cells(stated._replace(batch=256)),
    }
    own = (hours["topology"] == cell[0]) & (hours["nodes"] == cell[1])  # gamma comes from it
    described = [
        describe(name, found, workload, hours if name.startswith("fitted") else hours[~own])
        for name, found in variants.items()
    ]
    for name, cluster in clusters.items():
        hours[name] = predicted_hours(cluster, workload, hours)
    cells = pd.DataFrame(
        {
            "topology": hours["topology"].map(label_of),
            "nodes": hours["nodes"],
            "published (h)": hours["published"].map("{:.1f}".format),
            "its rounding": (ROUNDING / hours["published"]).map(
                lambda v: f"\u00b1 {100 * v:.1f} %"
            ),
            "predictive (h)": hours["predictive"].map("{:.2f}".format),
            "error": errors(hours["predictive"], hours["published"]).map(percent),
            "fitted (h)": hours["fitted"].map("{:.2f}".format),
            "its error": errors(hours["fitted"], hours["published"]).map(percent),
        }
    )
    cells.loc[own, "error"] = "calibrated"
    node_hours_published = pd.DataFrame(
        [
            {"topology": label_of(name)}
            | {
                f"{n} nodes": f"{n * h:.1f}"
                for n, h in zip(at["nodes"], at["published"], strict=True)
            }
            for name, at in hours.groupby("topology", sort=False)
        ]
    )

    grid = beyond(clusters, workload, given.beyond, efficiency)
    maps = {
        (parameters, kind): speed_up(grid, parameters, kind)
        for parameters, kind in (("fitted", "ring"), ("predictive", "ring"), ("predictive", "tree"))
    }

    def shown(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.rename(columns=lambda gbit: f"{gbit:g} Gbit/s").map("{:.2f}".format)
        return frame.reset_index(names="nodes")

    frames = {
        "Hours of the paper's ImageNet table": cells,
        "Parameters and errors, and what they depend on": pd.DataFrame(described),
        "Published nodes x hours": node_hours_published,
        f"Hours of the static exponential graph, published: {tables.UNAVAILABLE}": pd.DataFrame(
            [
                {"prediction": name}
                | {
                    f"{n} nodes": f"{training_hours(found, workload, static_exponential(n)):.2f}"
                    for n in hours["nodes"].unique().tolist()
                }
                for name, found in clusters.items()
            ]
        ),
        "Our own measurements, predicted from the one-peer graph's alone: error": per_size(checked),
        "Links fitted to the one-peer graph's times": pd.DataFrame(
            [
                {
                    "place": place,
                    "ranks": n,
                    "alpha (ms)": f"{1e3 * link.alpha:.2f}",
                    "1/beta (Gbit/s)": f"{8e-9 / link.beta:.2f}",
                }
                for (place, n), link in links.items()
            ]
        ),
        "All-reduce of a million elements and more: mean error of formulas": formulas,
        **{
            f"Beyond: speed-up of one-peer over parallel SGD, {title(*key)}": shown(map_)
            for key, map_ in maps.items()
        },
        "Beyond: iteration seconds at the paper's bandwidth, fitted": at_bandwidth(grid, c.gbit),
    }
    folder = root / "cost_model"
    notes = notes_of(given, path, published, clusters, efficiency, alpha, maps, hours)
    tables.write(frames, notes, folder, "What averaging and training cost")
    replace_text(folder / "heatmap.csv", grid.to_csv(index=False, float_format="%.6g"))
    styles = {"predictive": "--", "fitted": "-"}
    figures.save(node_hours(hours, styles), folder / "figure_hours")
    titled = {title(*key): map_ for key, map_ in maps.items()}
    figures.save(speed_up_map(titled, given.beyond.nothing_gained), folder / "figure_heatmap")
    print(cells.to_string(index=False))
    print(frames["Parameters and errors, and what they depend on"].to_string(index=False))
    print(f"written to {folder}/: table.md, table.csv, heatmap.csv, figures")


def per_size(checked: pd.DataFrame) -> pd.DataFrame:
    """`held_out` as a row a place and averaging, a column a size: measured, predicted, error."""
    text = [
        f"{1e3 * row.measured:.3g} / {1e3 * row.predicted:.3g} ms, {round(100 * row.error):+d} %"
        for row in checked.itertuples()
    ]
    wide = checked.assign(text=text, size=checked["elements"]).pivot(
        index=["place", "ranks", "averaging"], columns="size", values="text"
    )
    wide = wide.rename(columns="{:,} elements".format).fillna("")
    order = pd.MultiIndex.from_frame(
        checked[["place", "ranks", "averaging"]].drop_duplicates(), names=wide.index.names
    )
    return wide.reindex(order).reset_index().rename(columns={"averaging": "measured / predicted"})


def at_bandwidth(grid: pd.DataFrame, gbit: float) -> pd.DataFrame:
    at = grid[(grid["parameters"] == "fitted") & (grid["gbit"] == gbit)].copy()
    if at.empty:
        return pd.DataFrame()
    at["column"] = at["topology"].map(label_of)
    reduces = at["all_reduce"] != ""
    at.loc[reduces, "column"] += ", " + at.loc[reduces, "all_reduce"]
    wide = at.pivot(index="nodes", columns="column", values="seconds")[at["column"].unique()]
    return wide.map("{:.3f}".format).reset_index(names="nodes")


def notes_of(given, path, published, clusters, efficiency, alpha, maps, hours) -> str:
    machine, fitted = provenance(), clusters["fitted"]
    reference = given.reference.images_per_second / given.reference.gpus
    found = 1 / clusters["predictive"].sample_seconds
    limit = given.beyond.nothing_gained
    little = "; ".join(
        f"{title(*key)}: {int((m < limit).to_numpy().sum())} of {m.size} cells"
        for key, m in maps.items()
    )
    most, fewest = hours["nodes"].max(), hours["nodes"].min()
    at_most = hours[hours["nodes"] == most]
    largest = ", ".join(
        f"{label_of(row.topology)} {percent(row.fitted / row.published - 1)}"
        for row in at_most.itertuples()
    )
    work = hours.assign(work=hours["nodes"] * hours["published"]).set_index(["topology", "nodes"])
    grown = ", ".join(
        f"{label_of(name)} {percent(work['work'][name, most] / work['work'][name, fewest] - 1)}"
        for name in at_most["topology"]
    )
    lines = [
        f"Made by `{machine['command']}` from `{path}`, `configs/published.toml` and "
        f"`results/bench_comm/*/table.csv`; {machine['cpu']}, {machine['cores']} cores, scipy "
        f"{machine['scipy']} (the machines of the measurements are named in their own tables).",
        f"Published: {published.caption}; {published.source}. Its rounding is half of its last "
        "digit.",
        "Iterations are epochs x images / (nodes x GPUs x batch). *predictive*: "
        f"{given.cluster.gbit:g} Gbit/s, a step takes {efficiency:.3f} of the wire's time "
        f"and a message {1e3 * alpha:.2f} ms more, both as measured, no overlap, gamma from one "
        "cell; all other cells are predicted. *fitted*: gamma, alpha and phi by relative least "
        "squares over all cells, one set of parameters for the table; the bandwidth is kept. "
        "Bandwidth, batch and NVLink are stand-ins, see the config.",
        f"The fit puts phi at {fitted.overlap:.2f}: the hours show no averaging hidden behind the "
        f"gradient. Its alpha, {1e3 * fitted.between.alpha:.1f} ms a message, is no latency of a "
        "network: it stands for whatever parallel SGD pays once a hop, several buckets of tensors "
        "or slow ranks. The hours tell only averaging per image: batch, phi and bandwidth cannot "
        "be told apart by them.",
        f"Gamma is no GPU's either: the calibrated cell means {found:.0f} images/s a GPU, where "
        f"BlueFog prints {reference:.0f} in its benchmark on such GPUs. The hours hold more than "
        "the gradient (reading images, evaluation: not known).",
        f"What the model cannot say: published nodes x hours grow from {fewest} to {most} nodes by "
        f"{grown}; the fit's errors at {most} nodes are {largest}. A ring's step costs the same at "
        "every n here and grows in the table. In the table parallel SGD and the ring take the same "
        "time at 4 nodes; here the ring sends 2 messages and parallel SGD 1.5. Waiting for slow "
        "neighbours would be one more term, which twelve rounded numbers of single runs do not "
        "carry.",
        "All-reduce on the virtual cluster: what it takes longer than the ring's formula grows "
        "with the time of a byte on the link, so it is not arithmetic (c, fitted at 1 Gbit/s, "
        "explains next to nothing at 100 Mbit/s and far too much in shared memory). A factor on "
        "beta, or whole messages as in recursive doubling, come nearest; at n = 4, the only size "
        "measured there, the two cannot be told apart. What they miss at 100 Mbit/s, one-peer's "
        "own fit misses, too. In shared memory at 4 and 8 ranks no formula holds. Below a million "
        "elements alpha counted 2 (n - 1) times is far too much: that of a one-peer call is mostly "
        "the call's, paid once.",
        "Beyond: extrapolation. Fitted alpha, from at most 32 nodes, is counted 2 (n - 1) times in "
        "a ring: parallel SGD at its worst. Libraries change to trees, whose latency grows with "
        f"log2 n: the fairer comparison at such sizes. Speed-up below {limit:g}, nothing gained: "
        f"{little}. One-peer sends one message an iteration, so by construction no topology here "
        "has a faster one: the question is by how much. The static graph's log2 n messages are "
        "more than an all-reduce's two from n = 8 on: where bandwidth counts, it is the slower.",
        "An iteration's time is not the time to an accuracy: one-peer averages exactly only over "
        "log2 n iterations, 6 at 64 nodes and 12 at 4,096, parallel SGD in each.",
    ]
    return "\n".join(f"- {line}" for line in lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
