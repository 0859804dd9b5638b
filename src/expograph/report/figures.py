"""Figures as pure functions: of the topologies alone, or of an experiment's curves.csv."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from expograph import theory
from expograph.engines.embedded import Embedded
from expograph.report.style import RC, line_style, name_of, new_figure
from expograph.report.tables import fitted, transient_exponent
from expograph.spectral import spectral_gap
from expograph.topology import build

STATIC = ("ring", "star", "grid", "torus", "hypercube", "half_random", "static_exponential")


def gap_against_nodes(sizes: Sequence[int] = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)) -> Figure:
    """Spectral gap of the static graphs against n, and the static exponential one at every n."""
    figure, (left, right) = new_figure(2)
    for name in STATIC:
        gaps = [spectral_gap(build(name, n).at(0)) for n in sizes]
        left.loglog(sizes, gaps, marker=".", **line_style(name))
    left.set(xlabel="nodes n", ylabel="spectral gap 1 - rho", xscale="log", title="static graphs")
    left.set_xscale("log", base=2)
    left.legend(fontsize=6.5, frameon=False)
    every = np.arange(2, 301)
    gaps = np.array([spectral_gap(build("static_exponential", int(n)).at(0)) for n in every])
    bound = [theory.static_exponential_gap(int(n)) for n in every]
    colour = line_style("static_exponential")["color"]
    even = every % 2 == 0
    right.plot(every, bound, color="black", linewidth=1, label="2 / (1 + ceil(log2 n))")
    right.plot(every[even], gaps[even], ".", markersize=3, color=colour, label="even n, computed")
    right.plot(
        every[~even], gaps[~even], "x", markersize=3, color="#d55e00", label="odd n, computed"
    )
    right.set(xlabel="nodes n", ylabel="spectral gap 1 - rho", title="static exponential graph")
    right.legend(fontsize=6.5, frameon=False)
    return figure


def consensus_error(
    topologies: Iterable[str], nodes: Sequence[int] = (32, 33), steps: int = 30, dim: int = 100
) -> Figure:
    """|x(k) - x_bar| / |x(0) - x_bar| of pure averaging from N(0, 1) rows, a panel for each n."""
    figure, axes = new_figure(len(nodes))
    for ax, n in zip(axes, nodes, strict=True):
        start = torch.from_numpy(np.random.default_rng(0).standard_normal((n, dim)))
        for name in topologies:
            engine, x, errors = Embedded(build(name, n)), start.clone(), []
            for k in range(steps + 1):
                errors.append(float((x - x.mean(dim=0)).norm()))
                x = engine.mixer(k)(x)
            shown = np.maximum(np.array(errors) / errors[0], 1e-16)
            ax.semilogy(shown, marker=".", markersize=3, **line_style(name))
        ax.set(xlabel="step", title=f"n = {n}", ylim=(1e-17, 3))
        ax.set_ylabel("relative consensus error")
    axes[-1].legend(fontsize=6.5, frameon=False)
    return figure


def training_curves(curves: pd.DataFrame, metric: str, ylabel: str) -> Figure:
    """Mean over seeds of `metric` against step with its 95 % band; a panel for each n.

    Args:
        curves: `results.mean_curves` of an experiment: topology, algorithm, nodes, step and
            `<metric>` with `<metric>_half_width`.
    """
    sizes = sorted(curves["nodes"].unique())
    figure, axes = new_figure(len(sizes))
    for ax, n in zip(axes, sizes, strict=True):
        at_n = curves[(curves["nodes"] == n) & curves[metric].notna() & (curves["step"] > 0)]
        for topology, group in at_n.groupby("topology", sort=False):
            style = _style(topology)
            ax.plot(group["step"], group[metric], **style)
            band = group[f"{metric}_half_width"].fillna(0)
            low, high = group[metric] - band, group[metric] + band
            ax.fill_between(group["step"], low, high, color=style["color"], alpha=0.12, lw=0)
        # bands of few seeds reach beyond what is possible: the lines set the limits
        low, high = at_n[metric].min(), at_n[metric].max()
        margin = 0.15 * (high - low)
        ax.set(xlabel="step", title=f"{n} nodes", ylim=(low - margin, high + margin))
    axes[0].set_ylabel(ylabel)
    _legend_below(figure, axes[0])
    return figure


def relative_errors(curves: pd.DataFrame, metric: str, factor: float) -> Figure:
    """Seed-averaged error of each topology over that of parallel SGD; a panel for each n.

    The transient iterations end where a line stays below `factor`, which is drawn.
    """
    sizes = sorted(curves["nodes"].unique())
    figure, axes = new_figure(len(sizes))
    for ax, n in zip(axes, sizes, strict=True):
        at_n = curves[(curves["nodes"] == n) & (curves["step"] > 0)]
        reference = at_n[at_n["algorithm"] == "psgd"].set_index("step")[metric]
        for topology, group in at_n[at_n["algorithm"] != "psgd"].groupby("topology", sort=False):
            ratio = group.set_index("step")[metric] / reference
            ax.loglog(ratio, **_style(topology))
        ax.axhline(factor, color="black", linestyle="--", linewidth=1, label=f"{factor:g}")
        ax.set(xlabel="step", title=f"{n} nodes")
    axes[0].set_ylabel("error / error of parallel SGD")
    _legend_below(figure, axes[0])
    return figure


def transient_growth(measured: pd.DataFrame, factor: float) -> Figure:
    """Transient iterations against n on logarithmic axes, with their fitted exponents.

    Args:
        measured: `tables.transients` of an experiment; bars are its bootstrap intervals.
        factor: of its definition, for the axis.
    """
    figure, (ax,) = new_figure()
    for topology, group in measured.groupby("topology", sort=False):
        used, style = fitted(group), line_style(topology)
        if used.empty:
            continue
        slope = transient_exponent(group)
        style["label"] += f": n^{slope.exponent:.1f}" if slope else ""
        ends = used[["low", "high"]].fillna({"low": 0}).clip(lower=1)
        reach = used["transient"] - ends["low"], ends["high"] - used["transient"]
        reach = [np.nan_to_num(r.clip(lower=0)) for r in reach]
        style |= {"marker": "o", "markersize": 3, "capsize": 2, "elinewidth": 0.8}
        ax.errorbar(used["nodes"], used["transient"], yerr=reach, **style)
    ax.set(xscale="log", yscale="log", xlabel="nodes n")
    ax.set_xscale("log", base=2)
    ax.set_ylabel(f"steps until within {factor:g} x parallel SGD")
    ax.legend(fontsize=6.5, frameon=False)
    return figure


def _style(topology: str) -> dict:
    style = line_style(topology)
    if topology == "fully_connected":
        style["label"] = name_of("psgd")
    return style


def _legend_below(figure: Figure, ax) -> None:
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=6,
        fontsize=7,
        frameon=False,
    )


def save(figure: Figure, path: Path) -> None:
    """Write path.png and path.svg, without dates: equal data gives equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    undated = {"png": {"Software": None}, "svg": {"Date": None}}
    for kind, metadata in undated.items():
        temporary = path.with_name(f".{path.name}.tmp")
        with matplotlib.rc_context(RC):
            figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)
        temporary.replace(path.with_suffix(f".{kind}"))
