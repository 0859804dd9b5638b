"""The tables of accuracy against seconds: time to a target, seconds a step, real trainings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from expograph.analysis.cost_model.model import Link, mean_step_seconds
from expograph.analysis.statistics import mean_interval
from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.analysis.wall_clock import (
    BASE_RATE,
    BELOW,
    METRIC,
    Contender,
    Curve,
    Emulated,
    Measured,
    composed,
    evaluated_of,
    spent_to,
    targets,
)
from expograph.analysis.written import name_of
from expograph.cluster.testbed import bytes_per_second
from expograph.graphs.topology import build


def tables_of(
    measured: Measured,
    time: Emulated,
    every: Sequence[Contender],
    curves: Mapping[str, pd.DataFrame],
    made: Mapping[str, Any],
) -> Tables:
    """Time to accuracy, seconds a step, and real trainings against composed ones.

    Args:
        time: where `measured.compute` comes from.
        every: the contenders.
        curves: `results.curves` of the embedded runs, by key.
        made: provenance.
    """
    found = composed(measured, every, curves)
    tables = [_to_accuracy(found), _steps(measured, time, every), _real(measured, every, curves)]
    shares = [*(s.late for s in measured.steps), *(s.late for s in measured.real)]
    late = max(shares, default=0.0)
    return Tables(
        title=f"Accuracy against seconds, {measured.hosts} hosts, links of {measured.rate}/s",
        tables=tuple(table for table in tables if table.rows),
        notes=(
            f"Network namespaces of one machine joined by links of {measured.rate}/s, a rank a "
            f"host; {name_of(measured.model)}, {measured.elements:,} float32 parameters, trained "
            f"on {measured.dataset}.",
            f"A rank's gradient takes {1e3 * measured.compute:.1f} ms: it is computed, and then "
            f"waited for, because {measured.hosts} ranks share {made['cores']} cores. The number: "
            f"in the cost model fitted to the published hours computing takes {time.ratio:.2f} "
            "times as long as one message between servers (results/cost_model, on assumed batch "
            f"and bandwidth), and one message of this network takes {1e3 * time.message:.1f} ms "
            "by the one-peer link of the virtual cluster at 1 Gbit/s. It is the same at every "
            f"rate. At most {100 * late:.2f} % of a contender's gradients took longer than that.",
            "Seconds a step: the median of blocks of steps, the contenders' blocks interleaved in "
            "random order; Horovod's, whose thread never rests, in jobs of their own between the "
            "others'. Evaluation is not timed.",
            "Megabytes are of the averaging alone; an all-reduce counts as a ring's, 2 (n - 1) / n "
            "models.",
            "Accuracy (%) is that of embedded runs after as many steps (the mean over seeds, ± the "
            "half-width of its 95 % t-interval; a step's time adds none), of the averaged model. "
            "Targets are "
            f"{', '.join(f'{b:g}' for b in BELOW)} points below parallel SGD's final accuracy.",
            f"{made['cpu']}, {made['cores']} cores, torch {made['torch']}.",
        ),
        made={"rate": measured.rate, "hosts": measured.hosts, **made},
    )


def _to_accuracy(curves: Sequence[Curve]) -> TableResult:
    goals = targets(curves)
    columns = (
        *(
            Column(name=f"s to {goal:g} %", key="target", value=goal, format=".0f")
            for goal in goals
        ),
        *(Column(name=f"MB to {goal:g} %", format=".0f") for goal in goals),
        Column(name="s in all", format=".0f"),
        Column(name="final accuracy (%)"),
    )
    rows = []
    for curve in curves:
        cells = [_cell_to(goal, curve.seconds, curve.accuracy) for goal in goals]
        cells += [_cell_to(goal, curve.sent / 1e6, curve.accuracy) for goal in goals]
        final = mean_interval(curve.accuracy[:, -1])
        cells += [Cell(mean=float(curve.seconds[-1])), Cell(**final._asdict())]
        rows.append(Row(labels=(curve.label,), cells=tuple(cells)))
    return TableResult(
        id="to_accuracy",
        heading="Seconds to an accuracy, and megabytes that a rank sends until then",
        labels=("training",),
        columns=columns,
        rows=tuple(rows),
    )


def _cell_to(goal: float, spent: np.ndarray, accuracy: np.ndarray) -> Cell:
    """What is spent, (T,), until each seed's accuracy, (seeds, T), has reached the goal."""
    found = np.array([spent_to(goal, spent, seed) for seed in accuracy])
    missed = int(np.isnan(found).sum())
    if missed:
        return Cell(text=f"not reached by {missed} of {len(found)} seeds")
    return Cell(**mean_interval(found)._asdict())


def _steps(measured: Measured, time: Emulated, every: Sequence[Contender]) -> TableResult:
    # of a link, only a byte's time grows as its rate falls
    slower = bytes_per_second(BASE_RATE) / bytes_per_second(measured.rate)
    link = Link(time.link.alpha, slower * time.link.beta)
    columns = (
        Column(name="s a step", format=".4f"),
        Column(name="of it sending", format=".4f"),
        Column(name="predicted", format=".4f"),
        Column(name="times one-peer's", format=".3f"),
        Column(name="blocks", format=".0f"),
        Column(name="late (%)", format=".2f"),
    )
    rows = []
    for contender in every:
        seconds = measured.step_seconds(contender.label)
        if not len(seconds):
            continue
        low, middle, high = map(float, np.percentile(seconds, [25, 50, 75]))
        averaging = mean_step_seconds(
            build(contender.topology, measured.hosts), 4 * measured.elements, link
        )
        fastest = measured.step(name_of("one_peer_exponential"))
        late = [s.late for s in measured.steps if s.label == contender.label]
        cells = (
            Cell(mean=middle, low=low, high=high, count=len(seconds)),
            Cell(mean=middle - measured.compute),
            Cell(mean=measured.compute + averaging),
            Cell(mean=None if np.isnan(fastest) else middle / fastest),
            Cell(mean=len(seconds)),
            Cell(mean=100 * max(late)),
        )
        rows.append(Row(labels=(contender.label,), cells=cells))
    return TableResult(
        id="steps",
        heading="Seconds a step: median and quartiles of blocks, and what the cost model predicts",
        labels=("training",),
        columns=columns,
        rows=tuple(rows),
    )


def _real(
    measured: Measured, every: Sequence[Contender], curves: Mapping[str, pd.DataFrame]
) -> TableResult:
    columns = (
        Column(name="s in all", format=".1f"),
        Column(name="composed", format=".1f"),
        Column(name="difference (%)", format="+z.1f"),
        Column(name="largest on the way (%)", format="+z.1f"),
        Column(name="final accuracy (%)"),
        Column(name="embedded run's"),
        Column(name="mean |difference| on the way (points)"),
        Column(name="late (%)", format=".2f"),
    )
    by_label = {contender.label: contender for contender in every}
    rows = []
    for real in sorted(measured.real, key=lambda r: (list(by_label).index(r.label), r.seed)):
        predicted = measured.step(real.label) * np.array(real.steps)
        apart = np.array(real.seconds) / predicted - 1
        cells = [Cell(mean=real.seconds[-1])]
        if np.isnan(predicted).any():
            cells += [Cell(), Cell(), Cell()]
        else:
            largest = apart[np.abs(apart).argmax()]
            cells += [Cell(mean=float(v)) for v in (predicted[-1], 100 * apart[-1], 100 * largest)]
        cells.append(Cell(mean=real.accuracy[-1]))
        curve = curves.get(by_label[real.label].runs[real.seed].key)
        if curve is None:
            cells += [Cell(), Cell()]
        else:
            own = evaluated_of(curve).set_index("step")[METRIC]
            both = own.index.intersection(real.steps)
            at = pd.Series(real.accuracy, index=real.steps)
            cells += [
                Cell(mean=float(own.iloc[-1])),
                Cell(mean=float((at[both] - own[both]).abs().mean())),
            ]
        cells.append(Cell(mean=100 * real.late))
        rows.append(Row(labels=(real.label, real.seed), cells=tuple(cells)))
    return TableResult(
        id="real",
        heading="Trainings that were done on the network, against steps x seconds a step",
        labels=("training", "seed"),
        columns=columns,
        rows=tuple(rows),
    )
