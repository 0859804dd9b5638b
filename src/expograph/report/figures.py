"""Figures as pure functions: of the topologies alone, or of an experiment's curves.csv.

Each is as wide as a column or as the text of a two-column paper: `style.COLUMN`, `style.TEXT`.
"""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.collections import EllipseCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from expograph.analysis.consensus import consensus_errors
from expograph.analysis.transients import fitted
from expograph.config.facts import is_reference, over_exact
from expograph.graphs import theory
from expograph.graphs.spectral import averages_exactly, spectral_gap
from expograph.graphs.topology import Topology, build, ceil_log2
from expograph.report.style import (
    COLUMN,
    RC,
    TEXT,
    legend_below,
    line_style,
    new_figure,
    styled,
    training_style,
)

STATIC = ("ring", "star", "grid", "torus", "hypercube", "half_random", "static_exponential")
GAP = r"spectral gap $1-\rho$"


@styled
def gap_against_nodes(sizes: Sequence[int] = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)) -> Figure:
    """Spectral gap of the static graphs against n, and the static exponential one at every n."""
    figure, (left, right) = new_figure(2)
    for name in STATIC:
        of_static = [spectral_gap(build(name, n).at(0)) for n in sizes]
        left.loglog(sizes, of_static, marker=".", markersize=4, **line_style(name))
    left.set(xlabel="nodes $n$", ylabel=GAP, title="static graphs")
    left.set_xscale("log", base=2)
    left.legend()
    every = np.arange(2, 301)
    gaps = np.array([spectral_gap(build("static_exponential", int(n)).at(0)) for n in every])
    bound = [theory.static_exponential_gap(int(n)) for n in every]
    colour = line_style("static_exponential")["color"]
    even = every % 2 == 0
    right.plot(every, bound, color="black", linewidth=1, label=r"$2/(1+\lceil\log_2 n\rceil)$")
    right.plot(every[even], gaps[even], ".", markersize=3, color=colour, label="even $n$, computed")
    right.plot(
        every[~even], gaps[~even], "x", markersize=2.5, color="#d55e00", label="odd $n$, computed"
    )
    right.set(xlabel="nodes $n$", ylabel=GAP, title="static exponential graph")
    right.legend()
    return figure


@styled
def consensus_error(
    topologies: Iterable[str], nodes: Sequence[int] = (32, 33), steps: int = 30, dim: int = 100
) -> Figure:
    """|x(k) - x_bar| / |x(0) - x_bar| of pure averaging from N(0, 1) rows, a panel for each n."""
    figure, axes = new_figure(len(nodes))
    for ax, n in zip(axes, nodes, strict=True):
        for name in topologies:
            ax.semilogy(
                consensus_errors(build(name, n), steps, dim),
                marker=".",
                markersize=3,
                **line_style(name),
            )
        ax.set(xlabel="step", title=f"$n={n}$", ylim=(1e-17, 3))
        ax.set_ylabel("relative consensus error")
    axes[-1].legend()
    return figure


@styled
def draw_topology(topology: Topology, steps: int | None = None) -> Figure:
    """Who sends to whom: ranks on a circle, rank 0 at the top, then clockwise; a panel a step.

    An arrow leads from j to i where W(k)[i, j] is not zero; a head at both ends is two messages.

    Args:
        topology: any, also one that is not in `TOPOLOGIES`.
        steps: number of steps drawn, from step 0; None for one period, or 4 of a random one.
    """
    steps = steps or topology.period or UNENDING
    figure, axes = _panels(steps)
    axes = axes[:, 0]
    angle = np.pi / 2 - 2 * np.pi * np.arange(topology.n) / topology.n
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1)  # (n, 2)
    radius = min(0.06, 1 / topology.n)
    colour = line_style(topology.name)["color"]
    digits = len(str(topology.n - 1))
    every = 2 ** ceil_log2(math.ceil(topology.n * digits / 48))  # more do not fit
    numbered = range(0, topology.n - every + 1, every)
    width = 0.009 * min(1, max(0.3, 16 / topology.n))  # inches, of a line
    for k, ax in enumerate(axes):
        receivers, senders = topology.at(k).csr.nonzero()
        others = receivers != senders
        start, end = at[senders[others]], at[receivers[others]]
        way = end - start
        gap = 1.5 * radius * way / np.linalg.norm(way, axis=1, keepdims=True)
        start, way = start + gap, way - 2 * gap
        look = {"color": colour, "width": width, "headwidth": 6, "headlength": 7, "zorder": 2}
        to_scale = {"units": "inches", "angles": "xy", "scale_units": "xy", "scale": 1}
        ax.quiver(*start.T, *way.T, **look, **to_scale)
        dots = EllipseCollection(2 * radius, 2 * radius, 0, units="xy", offsets=at, color="black")
        dots.set_offset_transform(ax.transData)
        ax.add_collection(dots)
        for rank in numbered:
            ax.text(*(1.2 * at[rank]), rank, ha="center", va="center", fontsize=7)
        ax.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal")
        ax.set_axis_off()
        ax.set_title("every step" if topology.period == 1 else f"step {k}")
    return figure


@styled
def matrices(topology: Topology, steps: int | None = None) -> Figure:
    """The mixing matrices W(k) of the first steps, and below each the product W(k) ... W(0).

    Rows are receivers. Zeros are white, the colours logarithmic; a product that averages exactly
    is marked "= J".

    Args:
        topology: any, also one that is not in `TOPOLOGIES`.
        steps: number of steps drawn, from step 0; None for one period, or 4 of a random one.
    """
    n, steps = topology.n, steps or topology.period or UNENDING
    figure, axes = _panels(steps, stacked=2)
    scale = {"norm": LogNorm(1 / (2 * n), 1), "cmap": "cividis_r"}
    product = np.eye(n)
    for k, pair in enumerate(axes):
        W = topology.at(k)
        product = W.csr @ product
        factors = [f"W({k})", "\u22ef" * (k > 1), "W(0)" * (k > 0)]
        exact = " = J" * averages_exactly(topology, 0, k + 1)
        titles = f"W({k})", "".join(factors) + exact
        for ax, shown, title in zip(pair, (W.dense(), product), titles, strict=True):
            image = ax.imshow(np.ma.masked_less(shown, 1e-12), **scale)
            ax.set(xticks=[], yticks=[], title=title)
            ax.grid(False)
            ax.spines[:].set_visible(True)
    bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30, extend="min")
    ticks = [*(2**t for t in range(ceil_log2(n)) if 2**t < 0.75 * n), n]
    bar.set_ticks([1 / t for t in ticks], labels=[f"1/{t}" if t > 1 else "1" for t in ticks])
    bar.minorticks_off()
    return figure


UNENDING = 4  # steps drawn of a schedule without a period
A_ROW = 6  # panels side by side at most


def _panels(count: int, stacked: int = 1) -> tuple[Figure, np.ndarray]:
    """Square panels (count, stacked): the first index goes to the right, wrapped at `A_ROW`."""
    blocks = math.ceil(count / A_ROW)
    columns = math.ceil(count / blocks)
    width = COLUMN if columns < 3 else TEXT
    rows = blocks * stacked
    height = rows * min(width / columns + 0.1, 2.3)
    figure = Figure((width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).reshape(blocks, stacked, columns)
    axes = grid.swapaxes(1, 2).reshape(-1, stacked)
    for ax in axes[count:].ravel():
        ax.remove()
    return figure, axes[:count]


@styled
def training_curves(curves: pd.DataFrame, metric: str, ylabel: str, log: bool = False) -> Figure:
    """Mean over seeds of `metric` against step with its 95 % band; a panel for each n.

    Args:
        curves: `results.mean_curves` of an experiment: topology, algorithm, nodes, step and
            `<metric>`, and `<metric>_half_width` unless there is but one seed.
        log: logarithmic axis of the metric, without the bands: many would reach below zero.
    """
    sizes = sorted(curves["nodes"].unique())
    figure, axes = new_figure(len(sizes), height=2.6)
    for ax, n in zip(axes, sizes, strict=True):
        at_n = curves[(curves["nodes"] == n) & curves[metric].notna() & (curves["step"] > 0)]
        for topology, group in at_n.groupby("topology", sort=False):
            style = training_style(topology)
            # a line of one point would show nothing
            ax.plot(group["step"], group[metric], marker="." * (len(group) == 1), **style)
            if f"{metric}_half_width" in group and not log:
                band = group[f"{metric}_half_width"].fillna(0)
                low, high = group[metric] - band, group[metric] + band
                ax.fill_between(group["step"], low, high, color=style["color"], alpha=0.12, lw=0)
        # bands of few seeds reach beyond what is possible: the lines set the limits
        low, high = at_n[metric].min(), at_n[metric].max()
        margin = 0.15 * (high - low)
        limits = (low / 1.5, high * 1.5) if log else (low - margin, high + margin)
        scale = "log" if log else "linear"
        ax.set(xlabel="step", title=f"{n} nodes", yscale=scale, ylim=limits)
    axes[0].set_ylabel(textwrap.fill(ylabel, 24))
    legend_below(figure, max(axes, key=lambda ax: len(ax.lines)))
    return figure


@styled
def relative_errors(curves: pd.DataFrame, metric: str, factor: float) -> Figure:
    """Seed-averaged error of each topology over that of its reference; a panel for each n.

    The transient iterations end where a line stays below `factor`, which is drawn.
    """
    sizes = sorted(curves["nodes"].unique())
    figure, axes = new_figure(len(sizes), height=2.6)
    for ax, n in zip(axes, sizes, strict=True):
        at_n = curves[(curves["nodes"] == n) & (curves["step"] > 0)]
        pairs = zip(at_n["algorithm"], at_n["topology"], strict=True)
        exact = pd.Series([is_reference(*pair) for pair in pairs], index=at_n.index)
        references = dict(iter(at_n[exact].groupby("algorithm")))
        for (topology, name), group in at_n[~exact].groupby(["topology", "algorithm"], sort=False):
            if over_exact(name) in references:
                reference = references[over_exact(name)].set_index("step")[metric]
                ax.loglog(group.set_index("step")[metric] / reference, **training_style(topology))
        ax.axhline(factor, color="black", linestyle="--", linewidth=1, label=f"{factor:g}")
        ax.set(xlabel="step", title=f"{n} nodes")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_locator(NullLocator())
    axes[0].set_ylabel("error /\nerror of parallel SGD")
    legend_below(figure, axes[0])
    return figure


@styled
def transient_growth(
    measured: pd.DataFrame, exponents: Mapping[str, float], factor: float
) -> Figure:
    """Transient iterations against n on logarithmic axes, with their fitted exponents.

    Args:
        measured: `transients.frame` of an experiment; bars are its bootstrap intervals.
        exponents: topology -> its fitted exponent, of those that have one.
        factor: of its definition, for the axis.
    """
    figure, (ax,) = new_figure(height=3)
    for topology, group in measured.groupby("topology", sort=False):
        used, style = fitted(group), line_style(topology)
        if used.empty:
            continue
        if topology in exponents:
            style["label"] += f": $n^{{{exponents[topology]:.1f}}}$"
        ends = used[["low", "high"]].fillna({"low": 0}).clip(lower=1)
        below, above = used["transient"] - ends["low"], ends["high"] - used["transient"]
        reach = [np.nan_to_num(r.clip(lower=0)) for r in (below, above)]
        style |= {"marker": "o", "markersize": 3, "capsize": 2, "elinewidth": 0.8}
        ax.errorbar(used["nodes"], used["transient"], yerr=reach, **style)
    ax.set(xscale="log", yscale="log", xlabel="nodes $n$")
    ax.set_xscale("log", base=2)
    ax.set_ylabel(f"steps until within\n{factor:g} x parallel SGD")
    legend_below(figure, ax)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write path.png, path.svg and path.pdf at the figure's own size.

    No dates and no random ids: equal data gives equal bytes. The PDF embeds TrueType fonts.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    for kind, metadata in undated.items():
        temporary = path.with_name(f".{path.name}.tmp")
        with matplotlib.rc_context(RC):
            figure.savefig(temporary, format=kind, dpi=200, metadata=metadata)
        temporary.replace(path.with_suffix(f".{kind}"))
