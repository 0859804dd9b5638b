"""The transient stage of a network: the gap to parallel SGD against the length of training."""

import numpy as np
from matplotlib.figure import Figure

from expograph.analysis.table_result import TableResult
from expograph.analysis.written import heading_of, name_of
from expograph.report import style

INSIDE = ("problem.partition", "nodes")  # what tells panels apart


@style.styled
def transient_stage(differences: TableResult, within: float) -> Figure:
    """A row of panels a partition, a panel a number of nodes, a line a topology.

    Args:
        differences: of a pivot table over steps; its cells are points below (negative) or above the
            reference with the half-width of their 95 % interval.
        within: the points where the transient stage ends, drawn as a band.
    """
    place = {key: differences.labels.index(key) for key in (*INSIDE, "topology")}
    partitions, sizes = (
        list(dict.fromkeys(row.labels[place[key]] for row in differences.rows)) for key in INSIDE
    )
    figure = style.new_grid(len(partitions), len(sizes))
    axes = np.array(figure.axes).reshape(len(partitions), len(sizes))
    for row in differences.rows:
        at = [row.labels[place[key]] for key in INSIDE]
        axis = axes[partitions.index(at[0]), sizes.index(at[1])]
        cells = zip(differences.columns, row.cells, strict=True)
        points = [(c.value, -cell.mean, cell.half_width or 0) for c, cell in cells if cell.mean]
        if points:
            x, y, reach = zip(*points, strict=True)
            line = style.line_style(row.labels[place["topology"]])
            marks = {"marker": "o", "markersize": 2.5, "capsize": 2, "elinewidth": 0.8}
            axis.errorbar(x, y, yerr=reach, **line | marks)
    for (i, j), axis in np.ndenumerate(axes):
        axis.axhspan(-within, within, color="0.9", zorder=0)
        axis.set(xscale="log", yscale="symlog", ylim=(-1, None))
        axis.set_yticks([0, 1, 3, 10], ["0", "1", "3", "10"])
        axis.set_title(f"{name_of(partitions[i])}, {sizes[j]} {heading_of('nodes')}")
        axis.set_xticks(steps := [c.value for c in differences.columns], [f"{k:,}" for k in steps])
        axis.minorticks_off()
        if i == len(partitions) - 1:
            axis.set_xlabel("steps of training")
        if j == 0:
            axis.set_ylabel("points below\nparallel SGD")
    style.legend_below(figure, axes[0, 0])
    return figure
