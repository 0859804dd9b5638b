"""List the topologies, or draw one: who sends to whom, its mixing matrices and what they imply.

examples:
  expograph topology list --nodes 16
  expograph topology show one_peer_exponential --nodes 16
  expograph topology show grid --nodes 12 --steps 1
  expograph topology show static_exponential --nodes 16 --output graph.pdf

--output FILE.{png,svg,pdf} writes the graph, and FILE_matrices the matrices and their products.
"""

import argparse
from pathlib import Path

import numpy as np
import plotext
from rich.console import Console
from rich.table import Table
from rich.text import Text

from expograph.config import ConfigError
from expograph.graphs.spectral import contraction, is_symmetric, spectral_gap, window_of
from expograph.graphs.topology import TOPOLOGIES, Topology, build, ceil_log2
from expograph.report import figures
from expograph.report.figures import UNENDING
from expograph.report.graphs import sent_in_words
from expograph.report.style import name_of

WIDEST = 64  # ranks that a terminal has room for
SHADES = "·░▒▓█"  # zero, then by powers of two


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("action", choices=["list", "show"])
    parser.add_argument("name", nargs="?", choices=TOPOLOGIES, metavar="NAME", help="as in `list`")
    parser.add_argument("--nodes", type=int, default=16, help="default: 16")
    parser.add_argument("--steps", type=int, help="steps shown (default: a period)")
    parser.add_argument("--seed", type=int, default=0, help="of the random ones")
    parser.add_argument("--output", type=Path, metavar="FILE", help="png, svg or pdf")


def run(arguments: argparse.Namespace) -> int:
    """Print or write it."""
    if arguments.nodes < 1:
        raise ConfigError(f"--nodes {arguments.nodes}: needs at least 1")
    if arguments.steps is not None and arguments.steps < 1:
        raise ConfigError(f"--steps {arguments.steps}: needs at least 1")
    console = Console()
    if arguments.action == "list":
        console.print(overview(arguments.nodes, arguments.seed))
        return 0
    if arguments.name is None:
        raise ConfigError("topology show: which? `expograph topology list` names them")
    topology = build(arguments.name, arguments.nodes, arguments.seed)
    if arguments.output:
        for path in draw(topology, arguments.steps, arguments.output):
            console.print(path)
        return 0
    for line in facts(topology):
        console.print(line, highlight=False)
    if topology.n > WIDEST:
        console.print(f"more than {WIDEST} ranks do not fit here: --output FILE.pdf draws them")
        return 0
    steps = arguments.steps or topology.period or UNENDING
    for k in range(steps):
        console.print()
        show_step(console, topology, k)
    return 0


def overview(n: int, seed: int) -> Table:
    """A line a topology: messages a step, spectral gap, whether a period averages exactly."""
    table = Table(box=None, title=f"over {n} ranks", title_justify="left")
    for column in ("topology", "period", "messages a step", "1 - rho", "exact average after"):
        table.add_column(column, no_wrap=column in ("topology", "1 - rho"))  # whole on 80 columns
    for name in TOPOLOGIES:
        topology = build(name, n, seed)
        period = "random" if topology.period is None else str(topology.period)
        gap = f"{spectral_gap(topology.at(0)):.4f}" if topology.period == 1 else "time-varying"
        table.add_row(name, period, messages(topology), gap, exactness(topology))
    return table


def facts(topology: Topology) -> list[str]:
    """What is worth knowing of a topology, in lines."""
    n, period = topology.n, topology.period
    kind = {None: "a fresh random graph each step", 1: "the same graph every step"}.get(
        period, f"{period} graphs in turn"
    )
    W = topology.at(0)
    lines = [
        f"{name_of(topology.name)} over {n} ranks: {kind}",
        f"messages a step, busiest rank: {messages(topology)}; "
        f"{'symmetric' if is_symmetric(W) else 'directed'}",
        f"averages exactly: {exactness(topology)}",
    ]
    if period == 1:
        lines.insert(2, f"spectral gap 1 - rho = {spectral_gap(W):.6g}")
    else:
        tau = period or max(1, ceil_log2(n))
        norm = contraction(window_of(topology, 0, tau))
        lines.insert(2, f"norm of W({tau - 1})...W(0) - J = {norm:.6g}")
    return lines


def messages(topology: Topology) -> str:
    """Models that the busiest rank sends a step, mean over a period or the steps shown."""
    return sent_in_words(window_of(topology, 0, topology.period or UNENDING))


def exactness(topology: Topology) -> str:
    """After how many steps from step 0 the product is J, if it is within two periods."""
    tau = topology.period or max(1, ceil_log2(topology.n))
    for steps in range(1, 2 * tau + 1):
        if contraction(window_of(topology, 0, steps)) < 1e-12:
            return f"{steps} step{'s' * (steps > 1)}"
    return "never" if topology.period else f"not in {2 * tau} steps"


def show_step(console: Console, topology: Topology, k: int) -> None:
    """The graph of step k beside its matrix, or above it where the terminal is narrow."""
    title = "every step" if topology.period == 1 else f"step {k}"
    drawing, shown = circle(topology, k), matrix(topology, k)
    console.print(Text(f"{title}: who sends to whom, and W (rows receive)", "bold"))
    both = Table.grid(padding=(0, 3))
    if console.width >= 50 + 2 * topology.n:
        both.add_row(drawing, shown)
    else:
        both.add_row(drawing)
        both.add_row(shown)
    console.print(both)
    console.print(receivers_line(topology, k), highlight=False)


def circle(topology: Topology, k: int) -> Text:
    """Ranks on a circle, rank 0 at the top, then clockwise; a line is a message one way or both."""
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


def draw(topology: Topology, steps: int | None, output: Path) -> list[Path]:
    """Write the graph and the matrices to files; their paths."""
    if output.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--output {output}: the name must end in .png, .svg or .pdf")
    if not output.parent.is_dir():
        raise ConfigError(f"--output {output}: no folder {output.parent}")
    paths = [output, output.with_stem(f"{output.stem}_matrices")]
    for path, figure in zip(paths, (figures.draw_topology, figures.matrices), strict=True):
        figure(topology, steps).savefig(path)
    return paths
