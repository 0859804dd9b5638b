"""The figure of what `make bench-comm` and `make testbed` measured."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from expograph.analysis.table_result import TableResult
from expograph.measure.communication import CONTENDERS
from expograph.report import style


@style.styled
def step_times(times: TableResult, where: str) -> Figure:
    """Measured (lines) and predicted (crosses) time against the size of the message.

    Args:
        times: the table "times" of `measure.communication_table`; a panel a number of ranks.
        where: the network in words; what stands behind its last comma goes into the titles.
    """
    frame = pd.DataFrame(times.means())
    ranks = sorted(frame["ranks"].unique())
    figure, axes = style.new_figure(len(ranks), height=2.9)
    for axis, n in zip(axes, ranks, strict=True):
        at = frame[frame["ranks"] == n].sort_values("elements")
        for label, (engine, topology) in CONTENDERS.items():
            if engine == "mpi":
                continue
            rows, colour = at[at["averaging"] == label], style.COLOURS[topology]
            dashes = ":" if engine == "horovod" else "-"
            line: dict[str, Any] = {"color": colour, "linestyle": dashes}
            axis.plot(rows["elements"], rows["ms"], marker="o", ms=3, label=label, **line)
            axis.plot(rows["elements"], rows["predicted_ms"], "x", ms=5, color=colour)
        rows = at[at["averaging"] == "one-peer exponential"]
        if rows["wire_ms"].notna().any():
            axis.plot(rows["elements"], rows["wire_ms"], "--", color="#777777", lw=1, label="wire")
        axis.plot([], [], "xk", ms=5, label="predicted")
        place = where.split(", ")[-1]  # what matters of it in a narrow panel
        axis.set(title=f"{n} ranks, {place}", xlabel="float32 elements", ylabel="ms a step")
        axis.set(xscale="log", yscale="log")
    style.legend_below(figure, axes[0])
    return figure
