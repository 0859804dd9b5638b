"""A step of a topology in characters: its graph on a circle, and its matrix."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from expograph.graphs.schedule import Topology

SHADES = "·░▒▓█"  # zero, then by powers of two


def step(console: Console, topology: Topology, k: int) -> list[Any]:
    """The graph of step k beside its matrix, or above it where the terminal is narrow."""
    title = "every step" if topology.period == 1 else f"step {k}"
    drawing, weights = circle(topology, k), matrix(topology, k)
    both = Table.grid(padding=(0, 3))
    if console.width >= 50 + 2 * topology.n:
        both.add_row(drawing, weights)
    else:
        both.add_row(drawing)
        both.add_row(weights)
    heading = Text(f"{title}: who sends to whom, and W (rows receive)", "bold")
    return [heading, both, receivers_line(topology, k)]


def circle(topology: Topology, k: int) -> Text:
    """Ranks on a circle, rank 0 at the top, then clockwise; a line is a message one way or both."""
    import plotext

    n = topology.n
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    x, y = np.cos(angle), np.sin(angle)
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(46, 23)
    plotext.frame(False)
    plotext.xticks([])
    plotext.yticks([])
    plotext.xlim(-1.2, 1.2)
    plotext.ylim(-1.2, 1.2)
    receivers, senders = topology.at(k).csr.nonzero()
    for i, j in zip(receivers, senders, strict=True):
        if i != j:
            plotext.plot([x[j], x[i]], [y[j], y[i]], marker="braille")
    for rank in range(n):
        plotext.text(str(rank), 1.1 * x[rank], 1.1 * y[rank], alignment="center")
    return Text.from_ansi(plotext.build())


def matrix(topology: Topology, k: int) -> Text:
    """W(k), a row a line, darker where the weight is larger."""
    W = topology.at(k).dense()
    levels = np.zeros(W.shape, dtype=int)
    levels[W > 0] = np.clip(4 + np.ceil(np.log2(W[W > 0])), 1, 4).astype(int)
    wide = 2 if topology.n <= 32 else 1
    return Text("\n".join("".join(SHADES[v] * wide for v in row) for row in levels))


def receivers_line(topology: Topology, k: int) -> Text:
    """In words: to whom rank 0 sends, and with what weight it is used."""
    column = topology.at(k).csr.tocsc()[:, [0]].tocoo()
    sent = [f"{i} (weight {w:.4g})" for i, w in zip(column.row, column.data, strict=True) if i]
    shades = ", ".join(f"{s} to 1/{2 ** (3 - i)}" for i, s in enumerate(SHADES[1:]))
    return Text(f"rank 0 sends to {', '.join(sent) or 'nobody'}; weights: {shades}")
