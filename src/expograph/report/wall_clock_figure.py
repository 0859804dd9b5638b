"""The figure of accuracy against seconds, measured on the virtual cluster."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from expograph.analysis.statistics import mean_interval
from expograph.analysis.wall_clock import HOROVOD, Curve, Measured
from expograph.report import style


@style.styled
def accuracy_against_seconds(
    curves: Sequence[Curve], measured: Measured, topologies: dict[str, str]
) -> Figure:
    """Left: composed curves with 95 % bands, real trainings as dots. Right: seconds of a step.

    Args:
        curves: `wall_clock.composed`.
        measured: steps and real trainings of the same contenders.
        topologies: label -> topology, for colours.
    """
    figure, (left, right) = style.new_figure(2, height=3)
    for curve in curves:
        look = _look(curve.label, curve.topology)
        means = [mean_interval(column) for column in curve.accuracy.T]
        middle = np.array([m.mean for m in means])
        half = np.array([m.half_width or 0 for m in means])
        left.plot(curve.seconds, middle, label=curve.label, **look)
        left.fill_between(
            curve.seconds, middle - half, middle + half, color=look["color"], alpha=0.15, lw=0
        )
    for real in measured.real:
        dots = {"ms": 2.5, "lw": 0, "color": _look(real.label, topologies[real.label])["color"]}
        left.plot(real.seconds, real.accuracy, marker="o", mfc="none", mew=0.6, **dots)
    if measured.real:
        left.plot([], [], "ok", ms=2.5, mfc="none", mew=0.6, label="real trainings")
    if curves:
        top = max(curve.accuracy.mean(axis=0).max() for curve in curves)
        left.set_ylim(top - 15, top + 1)
    left.set(xlabel="seconds of training", ylabel="test accuracy (%)")
    labels = [label for label in topologies if len(measured.step_seconds(label))]
    for y, label in enumerate(reversed(labels)):
        sending = measured.step(label) - measured.compute
        colour = _look(label, topologies[label])["color"]
        right.barh(y, 1e3 * measured.compute, color="#cccccc")
        right.barh(y, 1e3 * sending, left=1e3 * measured.compute, color=colour)
    right.set_yticks(range(len(labels)), list(reversed(labels)))
    right.grid(False, axis="y")
    right.set(xlabel="ms a step: computing (grey), sending")
    title = f"{measured.hosts} hosts, {measured.rate}/s"
    left.set_title(title)
    style.legend_below(figure, left)
    return figure


def _look(label: str, topology: str) -> dict:
    look = style.line_style(topology)
    return {
        "color": look["color"],
        "linewidth": look["linewidth"],
        "linestyle": ":" if label == HOROVOD else look["linestyle"],
    }
