"""List the topologies, or draw one: who sends to whom, its mixing matrices and what they imply.

examples:
  expograph topology list --nodes 16
  expograph topology list --nodes 16 --json
  expograph topology show one_peer_exponential --nodes 16
  expograph topology show 'one_peer_exponential(order=permutation)' --nodes 8
  expograph topology show grid --nodes 12 --steps 1
  expograph topology show static_exponential --nodes 16 --output graph.pdf

--output FILE.{png,svg,pdf} writes the graph, and FILE_matrices the matrices and their products.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from expograph.graphs import topology as topologies
from expograph.graphs.mixing import Mixing
from expograph.graphs.spectral import (
    averages_exactly,
    contraction,
    is_symmetric,
    spectral_gap,
    window_of,
)
from expograph.graphs.topology import Topology, build, canonical, ceil_log2
from expograph.names import parse

WIDEST = 64  # ranks that a terminal has room for
MOST_NODES = 2**20
MOST_WEIGHTS = 2**24  # nonzeros of the matrices of a period: a minute's work, and 1 GB
ROUNDS = 8  # of a random schedule, in which it must average exactly to be called exact
RANDOM_STEPS = 4  # shown of a schedule without a period
SHADES = "·░▒▓█"  # zero, then by powers of two


class _Spellings(tuple):
    """Names offered by completion; `canonical` decides what is accepted, with a better message."""

    def __contains__(self, name: object) -> bool:
        return True


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("action", choices=["list", "show"])
    parser.add_argument(
        "name",
        nargs="?",
        choices=_Spellings(topologies.names()),
        metavar="NAME",
        help="as in `list`",
    )
    parser.add_argument("--nodes", type=int, default=16, help="default: 16")
    parser.add_argument("--steps", type=int, help="steps shown (default: a period)")
    parser.add_argument("--seed", type=int, default=0, help="of the random ones")
    parser.add_argument("--json", action="store_true", help="list as a JSON array")
    parser.add_argument("--output", type=Path, metavar="FILE", help="png, svg or pdf")


def run(arguments: argparse.Namespace) -> int:
    """Print or write it."""
    check(arguments)
    n, seed = arguments.nodes, arguments.seed
    if arguments.action == "list":
        listed = [made(name, n, seed) for name in topologies.names()]
        if arguments.json:
            text = "[\n" + ",\n".join(json.dumps(as_data(t)) for t in listed) + "\n]\n"
        else:
            text = printed(Console(), [overview(listed)])
    else:
        topology = made(arguments.name, n, seed)
        if arguments.output:
            lines = draw(topology, arguments.steps, arguments.output)
        else:
            lines = shown(topology, arguments.steps, Console())
        text = printed(Console(), lines)
    sys.stdout.write(text)
    sys.stdout.flush()  # a reader that has gone is noticed here
    return 0


def refused(message: str) -> Exception:
    """A ConfigError; configs are imported for it alone, half as long as all the rest takes."""
    from expograph.config import ConfigError

    return ConfigError(message)


def check(arguments: argparse.Namespace) -> None:
    """Refuse options that cannot be.

    Raises:
        ConfigError: in one line.
    """
    if not 1 <= arguments.nodes <= MOST_NODES:
        allowed = "needs at least 1" if arguments.nodes < 1 else f"at most {MOST_NODES:,}"
        raise refused(f"--nodes {arguments.nodes}: {allowed}")
    if arguments.steps is not None and arguments.steps < 1:
        raise refused(f"--steps {arguments.steps}: needs at least 1")
    if not 0 <= arguments.seed < 2**32:
        raise refused(f"--seed {arguments.seed}: needs at least 0 and less than 2^32")
    if arguments.action == "show" and arguments.name is None:
        raise refused("topology show: which? `expograph topology list` names them")
    if arguments.action == "show" and arguments.json:
        raise refused("--json: `expograph topology list` has it")


def made(name: str, n: int, seed: int) -> Topology:
    """The topology, if its matrices are not too large to be looked at.

    Raises:
        ConfigError: in one line, for a name that is not known or a graph that is too large.
    """
    try:
        topology = build(canonical(name), n, seed)
    except ValueError as e:
        raise refused(str(e)) from None
    weights = rounds(topology) * topology.at(0).entries
    if weights > MOST_WEIGHTS:
        raise refused(
            f"--nodes {n}: {topology.name} has {weights:,} weights, at most {MOST_WEIGHTS:,}"
        )
    return topology


def printed(console: Console, parts: Sequence[Any]) -> str:
    """What `console` makes of `parts`, each on lines of its own."""
    with console.capture() as captured:
        for part in parts:
            console.print(part, highlight=False)
    return captured.get()


def as_data(topology: Topology) -> dict[str, Any]:
    """A topology's facts, for `--json`.

    name, parameters, period (null: none), degree (the most ranks that one sends to in a step),
    messages (models that the busiest rank sends a step) and exact (one period averages exactly).
    """
    name, given = parse(topology.name)
    window = looked_at(topology)
    return {
        "name": topology.name,
        "parameters": topologies.parameters()[name] | given,
        "period": topology.period,
        "degree": int(max(W.out_degrees.max() for W in window)),
        "messages": messages(window),
        "exact": is_exact(topology),
    }


def overview(listed: Sequence[Topology]) -> Table:
    """A line a topology: messages a step, spectral gap, whether a period averages exactly."""
    title = f"over {listed[0].n} ranks"
    # whole on 80 columns
    table = Table(box=None, title=title, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("topology", "period", "messages\na step", "1 - rho", "exact after\n(steps)"):
        table.add_column(heading, no_wrap=True)
    for topology in listed:
        period = "random" if topology.period is None else str(topology.period)
        gap = gap_in_words(topology) if topology.period == 1 else "time-varying"
        sent = in_words(messages(looked_at(topology)))
        steps = exact_after(topology)
        exact = f"not in {2 * rounds(topology)}" if topology.period is None else "never"
        table.add_row(topology.name, period, sent, gap, str(steps) if steps else exact)
    return table


def shown(topology: Topology, steps: int | None, console: Console) -> list[Any]:
    """Facts, then each step's graph beside its matrix, as far as a terminal has room."""
    parts: list[Any] = facts(topology)
    if topology.n > WIDEST:
        return [*parts, f"more than {WIDEST} ranks do not fit here: --output FILE.pdf draws them"]
    for k in range(steps or topology.period or RANDOM_STEPS):
        parts += ["", *step(console, topology, k)]
    return parts


def facts(topology: Topology) -> list[str]:
    """What is worth knowing of a topology, in lines."""
    n, period = topology.n, topology.period
    kind = {None: "a fresh random graph each step", 1: "the same graph every step"}.get(
        period, f"{period} graphs in turn"
    )
    W = topology.at(0)
    lines = [
        f"{topology.name} over {n} ranks: {kind}",
        f"messages a step, busiest rank: {in_words(messages(looked_at(topology)))}; "
        f"{'symmetric' if is_symmetric(W) else 'directed'}",
        f"averages exactly: {exactness(topology)}",
    ]
    if period == 1:
        lines.insert(2, f"spectral gap 1 - rho = {spectral_gap(W):.6g}")
    else:
        tau = rounds(topology)
        norm = contraction(window_of(topology, 0, tau))
        lines.insert(2, f"norm of W({tau - 1})...W(0) - J = {norm:.6g}")
    return lines


def rounds(topology: Topology) -> int:
    """Steps of a period; of a random schedule ceil(log2 n), which is as many as can suffice."""
    return topology.period or max(1, ceil_log2(topology.n))


def looked_at(topology: Topology) -> list[Mixing]:
    """The matrices of a period, or the first ones of a random schedule."""
    return window_of(topology, 0, topology.period or RANDOM_STEPS)


def messages(window: Sequence[Mixing]) -> float:
    """Models that the busiest rank sends a step, mean over the window, as the engines count."""
    return float(np.mean([W.messages for W in window], axis=0).max())


def gap_in_words(topology: Topology) -> str:
    """1 - rho of a static graph, with digits that say something."""
    gap = spectral_gap(topology.at(0))
    return f"{gap:.4f}" if gap >= 1e-3 else f"{gap:.1e}"


def in_words(number: float) -> str:
    """With two digits where they say something."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def exact_after(topology: Topology) -> int | None:
    """After how many steps from step 0 the product is J, if it is within two periods."""
    within = range(1, 2 * rounds(topology) + 1)
    return next((steps for steps in within if averages_exactly(topology, 0, steps)), None)


def exactness(topology: Topology) -> str:
    """`exact_after` in words."""
    if steps := exact_after(topology):
        return f"{steps} step{'s' * (steps > 1)}"
    return "never" if topology.period else f"not in {2 * rounds(topology)} steps"


def is_exact(topology: Topology) -> bool:
    """Whether one period averages exactly; of a random schedule every one of its first rounds."""
    steps = rounds(topology)
    starts = [0] if topology.period else range(0, ROUNDS * steps, steps)
    return all(averages_exactly(topology, start, steps) for start in starts)


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


def draw(topology: Topology, steps: int | None, output: Path) -> list[str]:
    """Write the graph and the matrices to files; their paths.

    Raises:
        ConfigError: in one line, for a file that cannot be or matrices too large to be drawn.
    """
    if output.suffix not in (".png", ".svg", ".pdf"):
        raise refused(f"--output {output}: the name must end in .png, .svg or .pdf")
    if not output.parent.is_dir():
        raise refused(f"--output {output}: no folder {output.parent}")
    if output.is_dir():
        raise refused(f"--output {output}: is a folder")
    entries = topology.n**2 * (steps or topology.period or RANDOM_STEPS)
    if entries > MOST_WEIGHTS:
        raise refused(
            f"--output: {entries:,} matrix entries (steps times nodes squared), "
            f"at most {MOST_WEIGHTS:,} are drawn"
        )
    from expograph.report import figures  # imports matplotlib and torch

    paths = [output, output.with_stem(f"{output.stem}_matrices")]
    for path, figure in zip(paths, (figures.draw_topology, figures.matrices), strict=True):
        try:
            figure(topology, steps).savefig(path)
        except OSError as e:
            raise refused(f"--output {path}: {e.strerror or e}") from None
    return list(map(str, paths))
