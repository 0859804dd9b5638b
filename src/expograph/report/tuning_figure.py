"""The curves of a tuning: the metric on held-out images against the step size."""

from matplotlib.figure import Figure

from expograph.analysis.table_result import TableResult
from expograph.analysis.written import heading_of, name_of
from expograph.report import style

LINES = ("algorithm", "topology")


@style.styled
def tuning_curves(table: TableResult) -> Figure:
    """A panel for each value of the other keys, a line an algorithm and topology; * the best.

    Args:
        table: the pivot table of a tuning: a column a step size.
    """
    others = [i for i, key in enumerate(table.labels) if key not in LINES]
    lines = [i for i, key in enumerate(table.labels) if key in LINES]
    panels = list(dict.fromkeys(tuple(row.labels[i] for i in others) for row in table.rows))
    # a topology's own colour where that tells the lines apart
    topologies = [
        str(dict(zip(table.labels, row.labels, strict=True)).get("topology")) for row in table.rows
    ]
    every_line = {tuple(row.labels[i] for i in lines) for row in table.rows}
    by_topology = len(set(topologies)) == len(every_line)
    figure, axes = style.new_figure(len(panels), height=2.6)
    for axis, panel in zip(axes, panels, strict=True):
        for row, topology in zip(table.rows, topologies, strict=True):
            if tuple(row.labels[i] for i in others) != panel:
                continue
            cells = zip(table.columns, row.cells, strict=True)
            points = sorted((c.value, cell.mean) for c, cell in cells if cell.mean is not None)
            if not points:
                continue
            colour = {"color": style.line_style(topology)["color"]} if by_topology else {}
            label = ", ".join(name_of(row.labels[i]) for i in lines)
            (line,) = axis.plot(*zip(*points, strict=True), marker="o", ms=2.5, lw=1, **colour)
            line.set_label(label)
            best = max(points, key=lambda point: point[1])
            axis.plot(*best, marker="*", ms=8, color=line.get_color())
        named = zip(
            (table.labels[i] for i in others), zip(*panels, strict=True), panel, strict=True
        )
        told = [(key, value) for key, all_of, value in named if len(set(all_of)) > 1]
        axis.set_title(", ".join(f"{heading_of(key)} {name_of(value)}" for key, value in told))
        axis.set(xscale="log", xlabel="step size lr")
        grid = [column.value for column in table.columns]
        axis.set_xticks(grid, [f"{lr:g}".removeprefix("0") for lr in grid])
        axis.minorticks_off()
    axes[0].set_ylabel("accuracy on held-out images (%)")
    fullest = max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[1]))
    style.legend_below(figure, fullest)
    return figure
