"""Looks of topologies, shared by every figure and page."""

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from expograph.analysis.written import name_of
from expograph.looks import look_of

# Okabe & Ito's palette, told apart by every kind of colour vision; one colour a topology.
COLOURS = {
    "fully_connected": "#000000",
    "ring": "#d55e00",
    "star": "#999999",
    "grid": "#cc79a7",
    "torus": "#e69f00",
    "hypercube": "#8a6d3b",
    "half_random": "#56b4e9",
    "random_match": "#f0c929",
    "static_exponential": "#0072b2",
    "one_peer_exponential": "#009e73",
    "one_peer_exponential(order=permutation)": "#5ec9a8",
    "one_peer_exponential(order=uniform)": "#b05f9a",
    "one_peer_hypercube": "#7a4fa3",
    "directed_exponential": "#00775a",
    "bipartite_exponential": "#3fb6c6",
    "bipartite_exponential(rule=qgm)": "#8fd3dc",
    "k_peer_exponential": "#2e8b3d",
    "null_cascade": "#7cb518",
    "hyper_hypercube": "#5a4fcf",
    "hyper_cuboid": "#9a86e8",
    "simple_base": "#c2569b",
    "base": "#8e1b5e",
    "de_bruijn": "#a0522d",
    "d_equistatic": "#1f4e9c",
    "u_equistatic": "#6f9bd8",
    "od_equidyn": "#e07b5a",
    "ou_equidyn": "#b3452b",
    "inner_outer_exponential": "#6b7a3a",
    "alternating_exp_ring": "#a3a847",
    "uniform_gossip": "#555555",
    "directed_random": "#777777",
}
OTHER = "#882255"  # a topology of the user's own
COLUMN, TEXT = 3.25, 6.75  # inches: the widths of a two-column paper, as ICML's style file sets it
# Type that is 7 to 8 points where a figure is set at its own size.
RC = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "figure.dpi": 100,  # on a screen; files: `figures.save`
    "pdf.fonttype": 42,  # TrueType, embedded: publishers refuse matplotlib's default, Type 3
    "svg.fonttype": "path",  # looks the same where our font is not installed; PDF keeps text
    "svg.hashsalt": "expograph",  # else element ids, and so the file, differ each time
}
THICK = {"fully_connected", "static_exponential", "one_peer_exponential"}
DASHES = {  # what colours that are near to each other are also told apart by; a full line else
    "fully_connected": "--",
    "static_exponential": "-.",
    "simple_base": "-.",
    "base": "--",
    "hyper_cuboid": "--",
    "de_bruijn": ":",
    "null_cascade": "--",
    "k_peer_exponential": "-.",
    "directed_exponential": ":",
    "bipartite_exponential(rule=qgm)": "--",
    "u_equistatic": "--",
    "od_equidyn": ":",
    "ou_equidyn": "-.",
    "alternating_exp_ring": "--",
    "uniform_gossip": ":",
}


def line_style(topology: str) -> dict:
    """Keyword arguments for a topology's line in any plot; one not of ours gets `OTHER`."""
    return {
        "color": COLOURS.get(topology) or look_of(topology).colour or OTHER,
        "linestyle": DASHES.get(topology, "-"),
        "linewidth": 1.5 if topology in THICK else 1.0,
        "label": name_of(topology),
    }


def training_style(topology: str) -> dict:
    """The same where a model is trained: what runs over all ranks is parallel SGD."""
    named = {"label": name_of("psgd")} if topology == "fully_connected" else {}
    return line_style(topology) | named


styled = matplotlib.rc_context(RC)  # decorates what draws: text made after the axes obeys, too


@styled
def new_figure(columns: int = 1, height: float = 2.3) -> tuple[Figure, list[Axes]]:
    """A figure with `columns` panels side by side, without global state.

    One panel is as wide as a column of a paper (`COLUMN`), more are as wide as its text (`TEXT`);
    `height` is in inches.
    """
    figure = Figure(figsize=(COLUMN if columns == 1 else TEXT, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


@styled
def new_grid(rows: int, columns: int, height: float = 1.8) -> Figure:
    """A figure as wide as a paper's text with panels in rows and columns, `height` inches a row."""
    figure = Figure(figsize=(TEXT, height * rows + 0.4), layout="constrained")
    figure.subplots(rows, columns, squeeze=False, sharex=True, sharey="row")
    return figure


def legend_below(figure: Figure, ax: Axes) -> None:
    """A legend of the lines of `ax` below all panels, in as many columns as the width allows."""
    columns = 4 if figure.get_figwidth() == TEXT else 2
    with matplotlib.rc_context(RC):
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=columns)
