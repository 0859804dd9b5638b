"""From measured seconds of averaging steps to tables, with what the alpha-beta model predicts.

alpha and beta are fitted to plain messages (every rank to the next) of the same rounds; the
predictions use nothing else.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from expograph.analysis.cost_model.fit import fit
from expograph.analysis.cost_model.model import Link, mean_step_seconds
from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.graphs.topology import Topology, build
from expograph.measure.communication import (
    BARE,
    CONTENDERS,
    EACH,
    EACH_QUEUED,
    FLAT,
    MESSAGE,
    STEP,
)

ONE_PEER = "one-peer exponential"
TIMES = tuple(Column(name=name, format=".3g") for name in ("ms", "predicted_ms", "wire_ms"))
NOTES = (
    "ms: the median of interleaved rounds. predicted_ms: by the alpha-beta model, fitted to plain "
    "messages of the same rounds. wire_ms: the bytes of the busiest link at its rate.",
)


def tables_of(
    measured: Sequence[Mapping[str, Any]],
    rate: float | None,
    where: str,
    made: Mapping[str, Any],
) -> Tables:
    """Everything that is shown of a measurement, and what is promised of it.

    Args:
        measured: what `communication.worker` wrote, one for each number of ranks.
        rate: bytes a second that a link carries, if it is known.
        where: the network, in words.
        made: provenance.
    """
    times, tensors, links = [], [], []
    for at_n in measured:
        n = at_n["ranks"]
        link = link_of(at_n)
        times += times_at(at_n, link, rate)
        tensors += [
            _row((n, f"ResNet-20, {label}"), 1e3 * seconds)
            for label, seconds in at_n["tensors"].items()
        ]
        links.append(_row((n,), 1e3 * link.alpha, link.gbit))
    return assembled(times, tensors, links, where, made)


def assembled(
    times: Sequence[Row],
    tensors: Sequence[Row],
    links: Sequence[Row],
    where: str,
    made: Mapping[str, Any],
) -> Tables:
    """The tables of these rows, with the ratios that are promised."""
    all_times = TableResult(
        id="times",
        heading="Milliseconds of a step",
        labels=("ranks", "elements", "averaging"),
        columns=TIMES,
        rows=tuple(times),
    )
    all_tensors = TableResult(
        id="tensors",
        heading="ResNet-20's 65 tensors, one-peer exponential",
        labels=("ranks", "averaging"),
        columns=TIMES[:1],
        rows=tuple(tensors),
    )
    fitted = TableResult(
        id="links",
        heading="Fitted to plain messages",
        labels=("ranks",),
        columns=(Column(name="alpha_ms"), Column(name="gbit")),
        rows=tuple(links),
    )
    machine = f"{where}; {made['cpu']}, {made['cores']} cores, torch {made['torch']}."
    return Tables(
        title="Time of one averaging step",
        tables=(ratios_of(all_times, all_tensors), all_times, all_tensors, fitted),
        notes=(machine, *NOTES),
        made={"where": where, **made},
    )


def link_of(at_n: Mapping[str, Any]) -> Link:
    """alpha and beta of the plain messages of one number of ranks."""
    sizes = np.array([int(size) for size in at_n["seconds"]])
    return fit(4 * sizes, np.array([by[MESSAGE] for by in at_n["seconds"].values()]))


def times_at(at_n: Mapping[str, Any], link: Link, rate: float | None) -> list[Row]:
    """A row a size and contender of one number of ranks."""
    n, rows = at_n["ranks"], []
    for size, by_label in at_n["seconds"].items():
        elements = int(size)
        for label, (_, name) in CONTENDERS.items():
            topology = build(name, n)
            predicted = 1e3 * mean_step_seconds(topology, 4 * elements, link)
            wire = None if rate is None else 1e3 * wire_seconds(topology, elements, rate)
            rows.append(_row((n, elements, label), 1e3 * by_label[label], predicted, wire))
        for label, seconds in at_n["pairs"][size].items():
            rows.append(_row((n, elements, label), 1e3 * seconds, None, None))
        predicted = 1e3 * (link.alpha + link.beta * 4 * elements)
        rows.append(_row((n, elements, MESSAGE), 1e3 * by_label[MESSAGE], predicted, None))
    return rows


def wire_seconds(topology: Topology, elements: int, rate: float) -> float:
    """The least time in which the busiest link can carry a step, at `rate` bytes a second."""
    return mean_step_seconds(topology, 4 * elements, Link(0.0, 1 / rate))


def _row(labels: tuple, *values: float | None) -> Row:
    return Row(labels=labels, cells=tuple(Cell(mean=value) for value in values))


def ratios_of(times: TableResult, tensors: TableResult) -> TableResult:
    """The ratios that are promised, each with its target."""
    ms = {(r["ranks"], r["elements"], r["averaging"]): r["ms"] for r in times.means()}
    wire = {(r["ranks"], r["elements"], r["averaging"]): r["wire_ms"] for r in times.means()}
    parts = {(r["ranks"], r["averaging"]): r["ms"] for r in tensors.means()}
    rows: list[Row] = []

    def add(n: int, elements: int | None, ratio: str, value: float, target: str = "") -> None:
        cells = (Cell(mean=value), Cell(text=target))
        rows.append(Row(labels=(n, elements, ratio), cells=cells))

    for n in dict.fromkeys(n for n, *_ in ms):
        for size in sorted({size for m, size, _ in ms if m == n and size >= 100_000}):
            add(n, size, "step / bare call", ms[n, size, STEP] / ms[n, size, BARE], "<= 1.05")
            one_peer, limit = ms[n, size, ONE_PEER], wire[n, size, ONE_PEER]
            if size >= 1_000_000 and limit is not None:
                add(n, size, "one-peer / wire limit", one_peer / limit, "<= 1.15")
                for other, target in (
                    ("BlueFog allreduce", ">= 2.5"),
                    ("Horovod allreduce", ""),
                    ("static exponential", ""),
                ):
                    add(n, size, f"{other} / one-peer", ms[n, size, other] / one_peer, target)
        flat = parts[n, f"ResNet-20, {FLAT}"]
        for label, target in ((EACH, ">= 3"), (EACH_QUEUED, "")):
            value = parts[n, f"ResNet-20, {label}"] / flat
            add(n, None, f"ResNet-20: {label} / {FLAT}", value, target)
    return TableResult(
        id="ratios",
        heading="Ratios that are promised",
        labels=("ranks", "elements", "measured"),
        columns=(Column(name="value"), Column(name="target")),
        rows=tuple(rows),
    )
