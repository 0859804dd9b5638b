"""Transient iterations predicted from a config alone, and set beside what was measured of it.

The prediction is that of the exact expected error (`graphs.expected`) with the run's own step
sizes, recorded steps and blocks of steps; nothing is fitted. Least squares has features N(0, I):
its Hessians are taken for I, and the sampling of the features counts in the heterogeneity only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from expograph.analysis.statistics import transient_steps
from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.analysis.transients import MEASURED
from expograph.config import Experiment, LeastSquares, Run
from expograph.config.facts import is_reference
from expograph.graphs.expected import Quadratic, expected_error
from expograph.graphs.topology import Topology, build, is_random
from expograph.own import is_own
from expograph.runs.assemble import step_size_of
from expograph.runs.thinning import blocks, recorded_steps

AGREEMENT = "agreement"  # id of the table of how near predictions come
NOT_MEASURED = "not measured yet"
RULES = ("dsgd_atc", "vanilla_dmsgd")  # whose expected error is used
PREDICTED, COMPARED, INSIDE = "predicted", "blocks apart", "in the measured interval"


class Prediction(NamedTuple):
    """What is predicted of runs that differ in their seeds only.

    Attributes:
        steps: first recorded step of each block, (B,).
        transient: one of them, 0 for none, or None if it lies beyond the last step.
    """

    steps: np.ndarray
    transient: int | None


def quadratic_of(run: Run) -> Quadratic | None:
    """A run's problem in expectation over its data; None if it is no least squares.

    Worker i's gradient at x* is A_i (x* - w_i) and what label noise adds, with A_i = 1/m sum a a^T
    of m samples: E A_i^2 = (1 + (d + 1) / m) I. With shared data all workers have one minimiser.
    """
    p = run.problem
    if not isinstance(p, LeastSquares):
        return None
    spread = p.heterogeneity**2
    labels = 0.0 if p.shared_data else p.label_noise**2 / p.samples
    return Quadratic(
        sigma2=p.dim * p.noise**2,
        zeta2=p.dim * (spread * (1 + (p.dim + 1) / p.samples) + labels),
        initial2=p.dim * (1 + spread / run.ranks),
    )


def predict(runs: Sequence[Run], factor: float) -> Prediction | None:
    """The transient iterations of runs alike in all but the seed; None where there is no theory.

    The error of a random topology is averaged over the runs' own draws of it.

    Raises:
        ValueError: for more ranks than `expected_error` takes.
    """
    run = runs[0]
    problem = quadratic_of(run)
    if problem is None or run.algorithm not in RULES or is_own(run.topology):
        return None
    step_size = step_size_of(run)
    step_sizes = [step_size(k) for k in range(run.steps)]
    drawn = runs if is_random(run.topology) else runs[:1]
    found = [
        expected_error(_schedule(one), problem, step_sizes, run.beta, run.algorithm)
        for one in drawn
    ]
    recorded = recorded_steps(run.steps, run.evaluate_every or run.steps)
    recorded = recorded[recorded > 0]
    curve = np.mean([error.workers[recorded] for error in found], axis=0)
    steps, (curve, reference) = blocks(recorded, np.stack([curve, found[0].mean[recorded]]))
    return Prediction(steps, transient_steps(steps, curve, reference, factor))


def _schedule(run: Run) -> Topology:
    return build(run.topology, run.nodes, run.seed, run.local_size)


def table_of(experiment: Experiment, measured: TableResult | None) -> TableResult:
    """A row for each setting of an experiment with transients: predicted, measured, messages.

    Args:
        experiment: its table's kind is "transients".
        measured: what `transients.measure` gave of its runs, if they were done.
    """
    table = experiment.required_table
    keys = [*(key for key in table.rows if key != "nodes"), "nodes"]
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in experiment.runs:
        if not is_reference(run.algorithm, run.topology):
            groups.setdefault(tuple(run.value(key) for key in keys), []).append(run)
    there = _cells(measured, keys)
    rows = [
        Row(labels=labels, cells=_cells_of(runs, table.factor, there.get(labels)))
        for labels, runs in groups.items()
    ]
    return TableResult(
        id=experiment.name,
        heading=f"{table.title} ({experiment.path.name})",
        labels=tuple(keys),
        columns=(
            Column(name=PREDICTED, format=".0f"),
            Column(name="measured", format=".0f"),
            Column(name=COMPARED, format="+.0f"),
            Column(name=INSIDE),
            Column(name="messages a step", format=".3g"),
            Column(name="messages until then, predicted", format=".0f"),
        ),
        rows=tuple(rows),
    )


def _cells(measured: TableResult | None, keys: Sequence[str]) -> Mapping[tuple[Any, ...], Cell]:
    """The measured cells by the values of `keys`."""
    found: dict[tuple[Any, ...], Cell] = {}
    if measured is None:
        return found
    for row in measured.rows:
        labels = dict(zip(measured.labels, row.labels, strict=True))
        found[tuple(labels[key] for key in keys)] = row.cells[0]
    return found


def _cells_of(runs: list[Run], factor: float, measured: Cell | None) -> tuple[Cell, ...]:
    prediction = predict(runs, factor)
    if prediction is None:
        absent = Cell(text="no prediction")
        return (absent, measured or Cell(text=NOT_MEASURED), *(Cell(),) * 4)
    steps, found = prediction
    end = runs[0].steps
    sent = busiest(_schedule(runs[0]))
    predicted = Cell(mean=found, beyond=end if found is None else None)
    messages = Cell() if found is None else Cell(mean=sent * found)
    if measured is None or measured.text:
        between = (measured or Cell(text=NOT_MEASURED), Cell(), Cell())
    else:
        apart = _place(steps, found) - _place(steps, measured.mean)
        inside = "yes" if _inside(found, measured) else "no"
        between = (measured, Cell(mean=apart), Cell(text=inside))
    return (predicted, *between, Cell(mean=sent), messages)


def busiest(topology: Topology) -> float:
    """Messages that the busiest rank sends a step, mean over a period."""
    steps = range(topology.period or 1)
    return float(np.mean([topology.at(k).messages.max() for k in steps]))


def _place(steps: np.ndarray, transient: float | None) -> int:
    """Number of the block that a transient begins with; one past the last for one beyond it."""
    return len(steps) if transient is None else int(np.searchsorted(steps[1:], transient, "right"))


def _inside(found: int | None, measured: Cell) -> bool:
    low, high = (np.inf if end is None else end for end in (measured.low, measured.high))
    return low <= (np.inf if found is None else found) <= high


def agreement(tables: Iterable[TableResult]) -> TableResult:
    """How many predictions come how near to what was measured: a row an experiment.

    Settings without a measured transient (it is 0, or beyond the last step) are not counted.
    """
    counted: dict[str, Callable[[list[float]], int]] = {
        "measured": len,
        "same block": lambda apart: sum(a == 0 for a in apart),
        "within 1 block": lambda apart: sum(abs(a) <= 1 for a in apart),
        "within 2 blocks": lambda apart: sum(abs(a) <= 2 for a in apart),
    }
    rows = []
    for table in tables:
        numbers = [dict(zip(_names(table), row.cells, strict=True)) for row in table.rows]
        there = [one for one in numbers if one[COMPARED].mean is not None and one["measured"].mean]
        apart = [one[COMPARED].number for one in there]
        inside = sum(one[INSIDE].text == "yes" for one in there)
        predicted = sum(one[PREDICTED].text is None for one in numbers)
        counts = [predicted, *(count(apart) for count in counted.values()), inside]
        cells = tuple(Cell(mean=count) for count in counts)
        rows.append(Row(labels=(table.id,), cells=cells))
    names = [PREDICTED, *counted, INSIDE]
    return TableResult(
        id=AGREEMENT,
        heading="Transient iterations: predictions against measurements",
        labels=("experiment",),
        columns=tuple(Column(name=name, format=".0f") for name in names),
        rows=tuple(rows),
    )


def _names(table: TableResult) -> list[str]:
    return [column.name for column in table.columns]


def first_made(
    tables: Iterable[TableResult], earlier: Tables | None, now: Mapping[str, Any]
) -> dict[str, Any]:
    """Of each table, by which commit its predictions were first made as they are.

    Args:
        tables: of predictions.
        earlier: what stood in their place; a table whose predictions are the same keeps its maker.
        now: the maker of what is new or has changed.
    """
    before = dict(earlier.made.get("predicted", {})) if earlier else {}
    made = {}
    for table in tables:
        kept = earlier and table.id in earlier and _predictions(earlier[table.id])
        same = kept == _predictions(table) and table.id in before
        made[table.id] = before[table.id] if same else dict(now)
    return made


def _predictions(table: TableResult) -> list[tuple]:
    at = _names(table).index(PREDICTED)
    return [(row.labels, row.cells[at]) for row in table.rows]


def measured_of(tables: Tables | None) -> TableResult | None:
    """The table of measured transients among an experiment's tables, if it has been run."""
    return tables[MEASURED] if tables and MEASURED in tables else None
