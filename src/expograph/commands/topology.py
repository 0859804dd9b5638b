"""List the topologies, or draw one: who sends to whom, its mixing matrices and what they imply.

examples:
  expograph topology list --nodes 16
  expograph topology list --nodes 16 --json
  expograph topology show one_peer_exponential --nodes 16
  expograph topology show 'one_peer_exponential(order=permutation)' --nodes 8
  expograph topology show grid --nodes 12 --steps 1
  expograph topology show my_module:my_graph --nodes 8
  expograph topology show static_exponential --nodes 16 --output graph.pdf

--output FILE.{png,svg,pdf} writes the graph, and FILE_matrices the matrices and their products.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from expograph import own
from expograph.graphs import ceca
from expograph.graphs import topology as topologies
from expograph.graphs.convert import register
from expograph.graphs.overview import (
    RANDOM_STEPS,
    Overview,
    of_two_models,
    overview,
    rounds,
)
from expograph.graphs.spectral import contraction, is_symmetric, window_of
from expograph.graphs.topology import Topology, build, canonical
from expograph.names import parse
from expograph.report import terminal

WIDEST = 64  # ranks that a terminal has room for
MOST_NODES = 2**20
MOST_WEIGHTS = 2**24  # nonzeros of the matrices of a period: a minute's work, and 1 GB
LEGEND = (
    "sent: models that the busiest rank sends a step; gap: 1 - rho of a static graph;",
    "S/n, H/n: what noise and unlike data leave between ranks, the less the better;",
    "exact: steps after which all ranks have the exact average",
)


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
        choices=_Spellings((*topologies.names(), *ceca.NAMES)),
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
        listed = {name: looked_up(name, n, seed) for name in (*topologies.names(), *ceca.NAMES)}
        if arguments.json:
            rows = [json.dumps(as_data(name, n, known)) for name, known in listed.items()]
            text = "[\n" + ",\n".join(rows) + "\n]\n"
        else:
            text = printed(Console(), listing(n, listed))
    elif arguments.name in ceca.NAMES:
        text = printed(Console(), two_models(arguments.name, n))
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
    if arguments.name in ceca.NAMES and arguments.output:
        raise refused(f"--output: {arguments.name} has two models a rank and no matrix to draw")
    if arguments.action == "show" and arguments.json:
        raise refused("--json: `expograph topology list` has it")


def made(name: str, n: int, seed: int) -> Topology:
    """The topology, if its matrices are not too large to be looked at.

    Raises:
        ConfigError: in one line, for a name that is not known or a graph that is too large.
    """
    try:
        topology = build(register(name) if own.is_own(name) else canonical(name), n, seed)
    except topologies.Undefined as e:
        raise refused(f"{name} over {n} ranks: {e}") from None
    except ValueError as e:
        raise refused(str(e)) from None
    weights = rounds(topology) * topology.at(0).entries
    if weights > MOST_WEIGHTS:
        raise refused(
            f"--nodes {n}: {topology.name} has {weights:,} weights, at most {MOST_WEIGHTS:,}"
        )
    return topology


def looked_up(name: str, n: int, seed: int) -> Overview | str:
    """The facts of a topology, or why it is not defined over n ranks.

    Raises:
        ConfigError: in one line, for a graph that is too large.
    """
    try:
        if name in ceca.NAMES:
            return of_two_models(n, ceca.NAMES[name])
        build(name, n, seed)
    except topologies.Undefined as e:
        return str(e)
    return overview(made(name, n, seed))


def printed(console: Console, parts: Sequence[Any]) -> str:
    """What `console` makes of `parts`, each on lines of its own."""
    with console.capture() as captured:
        for part in parts:
            console.print(part, highlight=False)
    return captured.get()


def as_data(text: str, n: int, known: Overview | str) -> dict[str, Any]:
    """A topology's facts, for `--json`.

    name, parameters, `undefined` (why there is no such graph over n ranks, or null), and all facts
    of `Overview`, null where it is not defined.
    """
    name, given = parse(text)
    facts = dict.fromkeys(Overview._fields) if isinstance(known, str) else known._asdict()
    return {
        "name": text,
        "parameters": topologies.parameters().get(name, {}) | given,
        "undefined": known if isinstance(known, str) else None,
        **facts,
    }


def listing(n: int, listed: dict[str, Overview | str]) -> list[Any]:
    """A line a topology, then why the others are not defined over n ranks."""
    title = f"over {n} ranks"
    # whole on 80 columns
    table = Table(box=None, title=title, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("topology", "period", "sent", "gap", "S/n", "H/n", "exact"):
        table.add_column(heading, no_wrap=True)
    for text, known in listed.items():
        if isinstance(known, str):
            continue
        period = "random" if known.period is None else str(known.period)
        never = "" if known.period is None else "never"
        shares = [None if value is None else value / n for value in (known.S, known.H)]
        cells = [_short(value) for value in (known.gap, *shares)]
        exact = str(known.exact_after) if known.exact_after else never
        table.add_row(text, period, in_words(known.messages), *cells, exact)
    undefined = {text: known for text, known in listed.items() if isinstance(known, str)}
    lines = [f"not over {n} ranks:", *(f"  {text}: {why}" for text, why in undefined.items())]
    return [table, "", *LEGEND, *(["", *lines] if undefined else [])]


def _short(value: float | None) -> str:
    """Three digits in at most seven characters; nothing for None."""
    if value is None:
        return ""
    return f"{value:.3f}" if 1e-3 <= value < 100 or not value else f"{value:.1e}"


def two_models(name: str, n: int) -> list[str]:
    """CECA in lines: its rounds, and what rank 0 hears in each.

    Raises:
        ConfigError: in one line, for a number of ranks that it is not defined over.
    """
    try:
        found = ceca.rounds(n, ceca.NAMES[name])
    except topologies.Undefined as e:
        raise refused(f"{name} over {n} ranks: {e}") from None
    lines = [
        f"{name} over {n} ranks: {len(found)} rounds in turn, two models a rank, x and x_hat",
        f"messages a step, busiest rank: 1; averages exactly: {len(found)} steps",
        "a rule of its own, no mixing matrix: without gap, S and H",
    ]
    for k, one in enumerate(found):
        sent = "x_hat" if one.hat else "x"
        lines.append(
            f"step {k}: rank 0 hears {sent} of rank {one.heard[0]}, which counts {one.x:.4g} in "
            f"its x and {one.x_hat:.4g} in its x_hat"
        )
    return lines


def shown(topology: Topology, steps: int | None, console: Console) -> list[Any]:
    """Facts, then each step's graph beside its matrix, as far as a terminal has room."""
    parts: list[Any] = facts(topology)
    if topology.n > WIDEST:
        return [*parts, f"more than {WIDEST} ranks do not fit here: --output FILE.pdf draws them"]
    for k in range(steps or topology.period or RANDOM_STEPS):
        parts += ["", *terminal.step(console, topology, k)]
    return parts


def facts(topology: Topology) -> list[str]:
    """What is worth knowing of a topology, in lines."""
    n, period, known = topology.n, topology.period, overview(topology)
    kind = {None: "a fresh random graph each step", 1: "the same graph every step"}.get(
        period, f"{period} graphs in turn"
    )
    if period == 1:
        shrinks = f"spectral gap 1 - rho = {known.gap:.6g}"
    else:
        tau = rounds(topology)
        norm = contraction(window_of(topology, 0, tau))
        shrinks = f"norm of W({tau - 1})...W(0) - J = {norm:.6g}"
    lines = [
        f"{topology.name} over {n} ranks: {kind}",
        f"messages a step, busiest rank: {in_words(known.messages)}; "
        f"{'symmetric' if is_symmetric(topology.at(0)) else 'directed'}",
        shrinks,
        f"averages exactly: {exactness(topology, known)}",
    ]
    if known.S is not None and known.H is not None:
        lines.append(f"S/n = {known.S / n:.3g}, H/n = {known.H / n:.3g}")
    if not topology.at(0).row_stochastic:
        lines.append("column stochastic only: for push-sum rules")
    return lines


def in_words(number: float) -> str:
    """With two digits where they say something."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def exactness(topology: Topology, known: Overview) -> str:
    """After how many steps the product is J, in words."""
    if steps := known.exact_after:
        return f"{steps} step{'s' * (steps > 1)}"
    return "never" if topology.period else f"not in {2 * rounds(topology)} steps"


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
