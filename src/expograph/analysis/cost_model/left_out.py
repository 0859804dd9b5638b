"""How well the published hours are predicted by models that have not seen them.

A model is fitted to some cells of the table and predicts the others: each cell from the eleven
others (leave one out), the largest number of nodes from all smaller ones, or all from one cell. Two
null models are judged in the same way; a cost model that does not beat them explains nothing:

    no communication      hours = c / nodes, whatever the topology
    a constant a row      hours = c_topology / nodes
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from expograph.analysis.cost_model.fit import fit_cluster
from expograph.analysis.cost_model.model import Cluster, Workload, training_hours
from expograph.analysis.written import name_of
from expograph.graphs.topology import build

Cells = Mapping[tuple[str, int], float]  # (topology, nodes) -> hours
Predict = Callable[[str, int], float]  # topology, nodes -> hours
Fit = Callable[[Cells], Predict]
LEFT_OUT, LARGEST = "each cell from all others", "{} nodes from {} and fewer"


class Judged(NamedTuple):
    """A model and what it predicted.

    Attributes:
        model, protocol: which, and from what, in words.
        errors: relative, of the predicted cells: topology, nodes, published, predicted (hours),
            error.
    """

    model: str
    protocol: str
    errors: pd.DataFrame


def of_cluster(cluster: Cluster, workload: Workload) -> Fit:
    """The cost model: gamma, alpha and phi of `cluster` are fitted, the rest is kept."""

    def fitted(cells: Cells) -> Predict:
        found = fit_cluster(cluster, workload, cells)
        return lambda topology, nodes: training_hours(found, workload, build(topology, nodes))

    return fitted


def no_communication(cells: Cells) -> Predict:
    """hours = c / nodes, c by relative least squares."""
    work = _nearest([nodes * hours for (_, nodes), hours in cells.items()])
    return lambda topology, nodes: work / nodes


def a_constant_a_row(cells: Cells) -> Predict:
    """hours = c_topology / nodes, each c by relative least squares over its row."""
    by_row: dict[str, list[float]] = {}
    for (topology, nodes), hours in cells.items():
        by_row.setdefault(topology, []).append(nodes * hours)
    work = {topology: _nearest(values) for topology, values in by_row.items()}
    return lambda topology, nodes: work[topology] / nodes


NULL_MODELS: dict[str, Fit] = {
    "no communication": no_communication,
    "one constant a row": a_constant_a_row,
}


def _nearest(work: list[float]) -> float:
    """c with the least sum of (c / w - 1)^2 over the nodes x hours w."""
    inverse = 1 / np.asarray(work)
    return float(inverse.sum() / (inverse @ inverse))


def leave_one_out(model: str, fit: Fit, hours: Cells) -> Judged:
    """Each cell predicted by a fit to all others."""
    predicted = {cell: fit({c: h for c, h in hours.items() if c != cell})(*cell) for cell in hours}
    return Judged(model, LEFT_OUT, _errors(hours, predicted))


def largest_from_smaller(model: str, fit: Fit, hours: Cells) -> Judged:
    """The cells of most nodes predicted by a fit to all others."""
    sizes = sorted({nodes for _, nodes in hours})
    predict = fit({cell: h for cell, h in hours.items() if cell[1] < sizes[-1]})
    predicted = {cell: predict(*cell) for cell in hours if cell[1] == sizes[-1]}
    return Judged(model, LARGEST.format(*sizes[:-3:-1]), _errors(hours, predicted))


def from_one_cell(model: str, fit: Fit, hours: Cells, cell: tuple[str, int]) -> Judged:
    """All cells but one predicted by a fit to that one."""
    predict = fit({cell: hours[cell]})
    predicted = {other: predict(*other) for other in hours if other != cell}
    name, nodes = name_of(cell[0]), cell[1]
    return Judged(model, f"all from {name}, {nodes} nodes", _errors(hours, predicted))


def _errors(hours: Cells, predicted: Cells) -> pd.DataFrame:
    rows = [(*cell, hours[cell], p, p / hours[cell] - 1) for cell, p in predicted.items()]
    return pd.DataFrame(rows, columns=["topology", "nodes", "published", "predicted", "error"])


class Rested(NamedTuple):
    """The fit to some of the rows: what alpha rests on.

    Attributes:
        without: the topology whose row was left out; None for the fit to all.
        cluster: its parameters.
        error: root mean square of the relative errors of the cells that it is fitted to.
        without_alpha: the same where alpha is 0 and only gamma and phi are fitted.
    """

    without: str | None
    cluster: Cluster
    error: float
    without_alpha: float

    @property
    def determined(self) -> bool:
        """Whether the hours say anything of alpha: without it they are fitted less well."""
        return self.without_alpha > 1.001 * self.error


def without_rows(cluster: Cluster, workload: Workload, hours: Cells) -> list[Rested]:
    """The fit to all cells, and the fits without each topology's row."""
    found = []
    for left in (None, *dict.fromkeys(topology for topology, _ in hours)):
        kept = {cell: h for cell, h in hours.items() if cell[0] != left}
        fits = [fit_cluster(cluster, workload, kept, alpha) for alpha in (None, 0.0)]
        errors = [
            np.sqrt(
                np.mean(
                    np.square(
                        [training_hours(c, workload, build(*at)) / h - 1 for at, h in kept.items()]
                    )
                )
            )
            for c in fits
        ]
        found.append(Rested(left, fits[0], *map(float, errors)))
    return found


def at_bounds(cluster: Cluster) -> list[str]:
    """Which of the three fitted parameters sit on a bound of the fit, by their letters."""
    small = 1e-6
    bounds = {
        "alpha": cluster.between.alpha < small * cluster.batch * cluster.sample_seconds,
        "phi": min(cluster.overlap, 1 - cluster.overlap) < small,
    }
    return [name for name, reached in bounds.items() if reached]
