"""Draws the pictures of the documentation, docs/pictures/*.svg, from the package itself.

    python docs/draw.py [FOLDER]

Every matrix, step and error is computed, none is drawn by hand. The same libraries give the same
files to the byte, which `tests/test_docs.py` holds the committed ones against.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

import expograph as eg
from expograph.algorithms import build
from expograph.graphs.expected import Quadratic, expected_error
from expograph.graphs.mixing import Mixing
from expograph.report.graphs import positions
from expograph.report.style import COLOURS, RC, line_style, styled

FOLDER = Path(__file__).parent / "pictures"
INK, FAINT, PAPER = "#1f2430", "#c9ced6", "#ffffff"
SENT, KEPT = COLOURS["one_peer_exponential"], COLOURS["static_exponential"]
WORKERS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def mixing_matrix() -> Figure:
    """A graph, and the matrix that says the same: row i is what rank i takes in."""
    n, rank = 8, 3
    W = eg.topology("static_exponential", n).at(0)
    figure = Figure(figsize=(6.75, 3.1), layout="constrained")
    graph, matrix = figure.subplots(1, 2)
    _graph(graph, "static_exponential", W, strong=rank)
    graph.set_title(f"rank {rank} listens to ranks 1, 2 and 7")
    _matrix(matrix, W.dense(), numbers=True)
    matrix.add_patch(Rectangle((-0.5, rank - 0.5), n, 1, fill=False, ec=INK, lw=1.6))
    matrix.set_title(f"W: the weights of rank {rank} are row {rank}")
    matrix.set_xlabel("sender j")
    matrix.set_ylabel("receiver i")
    return figure


def schedule() -> Figure:
    """The one-peer exponential graph over 8 ranks: its three steps, and their products."""
    n = 8
    schedule = eg.topology("one_peer_exponential", n)
    figure = Figure(figsize=(6.75, 4.5), layout="constrained")
    axes = figure.subplots(2, schedule.period)
    product = np.eye(n)
    for k in range(schedule.period):
        W = schedule.at(k)
        product = W.dense() @ product
        _graph(axes[0, k], schedule.name, W)
        axes[0, k].set_title(f"step {k}: from the rank {2**k} before")
        _matrix(axes[1, k], product)
        factors = " ".join(f"W({j})" for j in range(k, -1, -1))
        axes[1, k].set_title(f"{factors}: weights 1/{round(1 / product.max())}")
    axes[1, 0].set_ylabel("what a rank holds\nafter the step")
    return figure


def adapt_then_combine() -> Figure:
    """One step of four workers in the plane, split into its two halves."""
    minima = torch.tensor([[-1.5, 0.9], [1.5, 1.2], [1.3, -1.1], [-1.1, -1.0]], dtype=torch.float64)
    start = torch.tensor([[-0.5, 2.1], [0.5, 2.1], [0.5, 1.7], [-0.5, 1.7]], dtype=torch.float64)
    W = torch.from_numpy(eg.topology("one_peer_exponential", 4).at(0).dense())
    between = []

    def mix(x: torch.Tensor) -> torch.Tensor:
        between.append(x)
        return W @ x

    rule = build("dsgd_atc")
    after = rule.model(rule.step(rule.init(start), lambda x: x - minima, mix, 0.55, 0.0))
    halves = (
        ("adapt: a step down your own loss", start, between[0]),
        ("combine: the average with one peer", between[0], after),
    )
    figure = Figure(figsize=(6.75, 3.2), layout="constrained")
    for ax, (title, before, moved) in zip(figure.subplots(1, 2, sharey=True), halves, strict=True):
        ax.set(title=title, xlim=(-2, 2), ylim=(-1.6, 2.5), aspect="equal", xticks=[], yticks=[])
        ax.grid(False)
        ax.spines[:].set_visible(False)
        for i, colour in enumerate(WORKERS):
            for radius in (0.35, 0.7):
                ax.add_patch(Circle(minima[i].tolist(), radius, fill=False, ec=colour, alpha=0.3))
            ax.plot(*minima[i], marker="+", color=colour, ms=7)
            ax.plot(*before[i], marker="o", color=colour, ms=5, mfc=PAPER)
            ax.plot(*moved[i], marker="o", color=colour, ms=5)
            _arrow(ax, before[i].tolist(), moved[i].tolist(), colour, shrink=3)
        ax.plot(*moved.mean(0), marker="x", color=INK, ms=6, mew=1.6)
    figure.supxlabel(
        "open: before, filled: after; + in circles: a worker's own minimum; x: the workers' mean",
        fontsize=7,
    )
    return figure


def transient_stage() -> Figure:
    """The exact expected error of three graphs against parallel SGD's, and where they meet."""
    n, factor, steps = 32, 1.5, 15_000
    problem = Quadratic(sigma2=1.0, initial2=1.0)
    sizes = 0.3 / (1 + np.arange(steps) / 100) ** 0.75
    k = np.arange(1, steps + 1)
    figure = Figure(figsize=(5.2, 3.3), layout="constrained")
    ax = figure.subplots()
    for name in ("ring", "one_peer_exponential", "static_exponential"):
        error = expected_error(eg.topology(name, n), problem, sizes)
        workers, mean = error.workers[1:], error.mean[1:]
        ax.plot(k, workers, **line_style(name))
        far = np.flatnonzero(workers > factor * mean)
        end = far[-1] + 1 if len(far) else 0
        if 0 < end < steps:
            ax.plot(k[end], workers[end], "o", color=COLOURS[name], ms=5)
            words = f"step {int(k[end]):,}"
            place = {"xytext": (-5, -14), "textcoords": "offset points", "fontsize": 7}
            place["bbox"] = {"fc": PAPER, "ec": "none", "pad": 0.6, "alpha": 0.85}
            ax.annotate(words, (k[end], workers[end]), color=COLOURS[name], ha="right", **place)
    ax.plot(k, mean, color=INK, ls="--", label="parallel SGD")
    ax.set(xscale="log", yscale="log", xlabel="step", xlim=(10, steps), ylim=(1e-4, 1e-1))
    ax.set_ylabel("squared distance to the minimum,\nmean over the workers")
    ax.set_title(f"{n} workers; dots: from here on within {factor} times parallel SGD's error")
    ax.legend()
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "mixing-matrix": mixing_matrix,
    "schedule": schedule,
    "adapt-then-combine": adapt_then_combine,
    "transient-stage": transient_stage,
}


def _graph(ax: Axes, name: str, W: Mixing, strong: int | None = None) -> None:
    """Ranks on a circle and their messages; if `strong`, those into one rank alone stand out."""
    place = positions(name, W.n)
    ax.set(xlim=(-1.25, 1.25), ylim=(-1.2, 1.2), aspect="equal")
    ax.axis("off")
    for i in range(W.n):
        for j in W.sources(i):
            faint = strong not in (None, i)
            _arrow(ax, place[j], place[i], FAINT if faint else SENT, shrink=9, zorder=1 + ~faint)
    for i, (x, y) in enumerate(place):
        chosen = strong == i
        ax.add_patch(Circle((x, y), 0.13, fc=KEPT if chosen else PAPER, ec=INK, lw=0.9, zorder=4))
        colour = PAPER if chosen else INK
        ax.text(x, y, str(i), ha="center", va="center", fontsize=7.5, color=colour, zorder=5)


def _arrow(ax: Axes, start, end, colour: str, shrink: float, zorder: float = 2) -> None:
    style = {"arrowstyle": "-|>", "mutation_scale": 8, "lw": 1.1, "color": colour}
    bend = "arc3,rad=0.08"
    ends = {"shrinkA": shrink, "shrinkB": shrink, "connectionstyle": bend, "zorder": zorder}
    ax.add_patch(FancyArrowPatch(start, end, **style, **ends))


def _matrix(ax: Axes, W: np.ndarray, numbers: bool = False) -> None:
    n = len(W)
    ax.imshow(np.where(W > 0, W, np.nan), cmap="BuGn", vmin=-0.15, vmax=0.7)
    ax.set(xticks=range(n), yticks=range(n))
    ax.set_xticks(np.arange(n + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(n + 1) - 0.5, minor=True)
    ax.grid(False)
    ax.grid(which="minor", color=FAINT, lw=0.5, alpha=1)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    if numbers:
        for i, j in zip(*np.nonzero(W), strict=True):
            ax.text(j, i, f"1/{round(1 / W[i, j])}", ha="center", va="center", fontsize=7)


@styled
def draw(folder: Path = FOLDER) -> list[Path]:
    """Write every picture into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, picture in PICTURES.items():
        path = folder / f"{name}.svg"
        figure = picture()
        figure.savefig(path, facecolor=PAPER, metadata={"Date": None, "Creator": None})
        written.append(path)
    return written


if __name__ == "__main__":
    assert RC["svg.hashsalt"], "without a salt the files differ each time"
    print(*draw(*map(Path, sys.argv[1:])), sep="\n")
