"""Figures of the cost model: hours against the published ones, and who is faster beyond them."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from expograph.report.style import legend_below, line_style, name_of, new_figure, styled

ROUNDING = 0.05  # hours: the published ones have one decimal
MARKERS = "s^v"  # of predictions by other models
LEVELS = (1.2, 1.5, 2, 5, 10, 20, 50)
OUTLINE = [withStroke(linewidth=2.2, foreground="black")]  # white lines on yellow cells


@styled
def node_hours(
    cells: pd.DataFrame, predictions: Mapping[str, str], others: Mapping[str, pd.DataFrame]
) -> Figure:
    """Nodes times hours, published and predicted, against nodes; a panel for each topology.

    Perfect scaling is a horizontal line, so that what a topology costs is its rise.

    Args:
        cells: a row a cell: topology, nodes, published (hours) and a column a prediction (hours).
        predictions: column -> line style.
        others: name -> frame with topology, nodes and predicted (hours) of some cells: grey
            symbols.
    """
    topologies = list(cells["topology"].drop_duplicates())
    figure, axes = new_figure(len(topologies), height=2.7)
    for ax, topology in zip(axes, topologies, strict=True):
        at = cells[cells["topology"] == topology].sort_values("nodes")
        nodes, colour = at["nodes"], line_style(topology)["color"]
        bars = {"yerr": ROUNDING * nodes, "capsize": 3, "elinewidth": 0.9, "label": "published"}
        ax.errorbar(nodes, nodes * at["published"], fmt="o", ms=5, color=colour, **bars)
        for column, dashes in predictions.items():
            line: dict[str, Any] = {"color": colour, "linestyle": dashes, "label": column}
            ax.plot(nodes, nodes * at[column], marker="x", ms=4, lw=1.2, **line)
        for marker, (name, frame) in zip(MARKERS, others.items(), strict=False):
            own = frame[frame["topology"] == topology].sort_values("nodes")
            look: dict[str, Any] = {"color": "#777777", "ms": 4, "mfc": "none", "lw": 0}
            ax.plot(
                *(own["nodes"], own["nodes"] * own["predicted"]), label=name, marker=marker, **look
            )
        ax.set_xscale("log", base=2)
        ax.set_xticks(nodes, [str(n) for n in nodes])
        ax.minorticks_off()
        title = "psgd" if topology == "fully_connected" else topology
        ax.set(xlabel="nodes (8 GPUs each)", title=name_of(title))
    top = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(40, top)
    axes[0].set_ylabel("node-hours of 90 epochs")
    legend_below(figure, axes[0])
    return figure


@styled
def speed_up_map(speed_up: Mapping[str, pd.DataFrame], nothing_gained: float) -> Figure:
    """How many times faster an iteration of the one-peer graph is than parallel SGD's.

    Args:
        speed_up: panel's title -> frame with a row for each number of nodes and a column for each
            bandwidth in Gbit/s, the same rows in all.
        nothing_gained: cells below it are hatched.
    """
    figure, axes = new_figure(len(speed_up), height=3)
    top = max(frame.to_numpy().max() for frame in speed_up.values())
    for ax, (title, frame) in zip(axes, speed_up.items(), strict=True):
        values = frame.to_numpy()
        x, y = np.arange(values.shape[1]), np.arange(values.shape[0])
        mesh = ax.pcolormesh(x, y, values, norm=LogNorm(1, top), cmap="cividis")
        _contours(ax, values)
        for (i, j), value in np.ndenumerate(values):
            dark = np.log(max(value, 1)) < 0.6 * np.log(top)
            number = f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
            ax.text(j, i, number, ha="center", va="center", fontsize=7, color="wk"[not dark])
            if value < nothing_gained:
                ax.add_patch(_hatched((j - 0.5, i - 0.5)))
        ax.set_xticks(x, [f"{g:g}" for g in frame.columns], rotation=90)
        ax.set_yticks(y, [f"{n:,}" for n in frame.index] if ax is axes[0] else [])
        ax.grid(False)
        ax.set_title(textwrap.fill(title, 24))
    axes[0].set_ylabel("nodes")
    middle = axes[len(axes) // 2]  # a supxlabel would lie on the legend
    middle.set_xlabel("bandwidth between servers (Gbit/s)")
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, aspect=25)
    ticks = [t for t in (1, *LEVELS) if t <= top]
    bar.set_ticks(ticks, labels=[f"{t:g}" for t in ticks])
    bar.minorticks_off()
    bar.set_label("time of an iteration:\nparallel SGD's over one-peer's")
    key = _hatched((0, 0))
    key.set(facecolor="#00224e", fill=True, label=f"below {nothing_gained:g}: nothing gained")
    lines = Line2D([], [], color="white", linewidth=1.3, path_effects=OUTLINE)
    lines.set_label("borders of the steps of the colour bar")
    figure.legend(handles=[key, lines], loc="outside lower center", ncols=2)
    return figure


def _contours(ax, values: np.ndarray) -> None:
    """Level lines along the borders of the cells, where they cross no number."""
    fine = 50
    levels = [level for level in LEVELS if values.min() < level < values.max()]
    if levels:
        rows, columns = (np.arange(fine * k) / fine - 0.5 + 0.5 / fine for k in values.shape)
        repeated = np.repeat(np.repeat(values, fine, axis=0), fine, axis=1)
        lines = ax.contour(columns, rows, repeated, levels=levels, colors="white", linewidths=1.3)
        lines.set_path_effects(OUTLINE)


def _hatched(corner: tuple[float, float]) -> Rectangle:
    look: dict[str, Any] = {"hatch": "///", "edgecolor": "#ffffff70", "linewidth": 0, "fill": False}
    return Rectangle(corner, 1, 1, **look)
