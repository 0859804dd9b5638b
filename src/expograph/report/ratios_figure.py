"""The figure of what `make bench` measured: each promised ratio in units of what is promised."""

from matplotlib.figure import Figure

from expograph.analysis.table_result import Cell, TableResult
from expograph.measure.ratios import bound_of
from expograph.report import style

KEPT, MISSED = style.COLOURS["static_exponential"], style.COLOURS["ring"]
LINE = 0.15  # inches


@style.styled
def promises(table: TableResult) -> Figure:
    """A line a ratio that has a target: how much better than the target, quartiles as a bar.

    Args:
        table: "ratios" of `measure.ratios`.
    """
    rows = [(row, target) for row in table.rows if (target := row.cells[1].text)]
    figure, (axis,) = style.new_figure(height=LINE * len(rows) + 0.7)
    figure.set_figwidth(style.TEXT)
    for y, (row, target) in enumerate(rows):
        low, middle, high = (_better(end, target) for end in _ends(row.cells[0]))
        colour = KEPT if middle >= 1 else MISSED
        axis.plot([low, high], [y, y], color=colour, lw=1.2)
        axis.plot(middle, y, "o" if middle >= 1 else "X", ms=4, color=colour)
    axis.axvline(1, color="black", lw=0.8)
    names = [f"{_name(*row.labels)}   {target}" for row, target in rows]
    axis.set_yticks(range(len(rows)), names, fontsize=5.5)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axis.set_xlabel("times as good as promised")
    return figure


def _name(group: str, measured: str) -> str:
    return measured if group in measured else f"{group}: {measured}"


def _ends(cell: Cell) -> tuple[float, float, float]:
    middle = float(cell.number)
    return (
        middle if cell.low is None else cell.low,
        middle,
        middle if cell.high is None else cell.high,
    )


def _better(value: float, target: str) -> float:
    sign, bound = bound_of(target)
    return bound / value if sign == "<=" else value / bound
