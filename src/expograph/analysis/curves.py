"""Curves to look at: averaged over seeds, or of single runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from expograph.analysis.statistics import mean_interval
from expograph.runs.records import POINTS, POINTS_A_METRIC
from expograph.runs.results import varying
from expograph.runs.thinning import recorded_steps, thinned

ALWAYS_TOLD = ["algorithm", "topology", "nodes"]  # of a curve, even where all runs agree


def mean_curves(
    summary: pd.DataFrame, by_key: dict[str, pd.DataFrame], metrics: Sequence[str]
) -> pd.DataFrame:
    """Curves averaged over seeds: about `POINTS` records each, and `POINTS_A_METRIC` of a metric.

    Args:
        summary: `results.summary` of the same runs; runs that differ in the seed only are averaged.
        by_key: `results.curves` of the same runs.
        metrics: the columns wanted; those a run did not record are left out.
    Returns:
        One row a (setting, step): what tells the settings apart, step, and for each metric its
        mean, `<metric>_half_width` of the 95 % interval (NaN for one seed) and `<metric>_count`.
    """
    done = summary[summary["key"].isin(by_key)]
    told = [*ALWAYS_TOLD, *(k for k in varying(summary) if k not in ALWAYS_TOLD)]
    frames = []
    for setting, group in done.groupby(told, sort=False, dropna=False):
        steps, every = group["steps"].iloc[0], group["record_every"].iloc[0]
        stacked = pd.concat([by_key[key] for key in group["key"]])
        shown = [thinned(recorded_steps(steps, every), POINTS)]
        for metric in (m for m in metrics if m in stacked):  # evaluations are rarer than records
            there = np.unique(stacked.loc[stacked[metric].notna(), "step"])
            shown.append(thinned(there, POINTS_A_METRIC))
        stacked = stacked[stacked["step"].isin(np.concatenate(shown))]
        columns = {m: stacked[m].to_numpy() for m in metrics if m in stacked}
        at = stacked["step"].to_numpy()
        rows = []
        for step in np.unique(at):
            row: dict[str, Any] = {**dict(zip(told, setting, strict=True)), "step": step}
            here = np.flatnonzero(at == step)
            for metric, column in columns.items():
                values = column[here]
                values = values[~np.isnan(values)]
                if len(values):
                    found = mean_interval(values)
                    row[metric], row[f"{metric}_half_width"] = found.mean, found.half_width
                    row[f"{metric}_count"] = found.count
            rows.append(row)
        frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def single_curves(
    by_key: dict[str, pd.DataFrame], metrics: Sequence[str], rows: int = 2500
) -> pd.DataFrame:
    """Every run's own curves, about 20 records each and about `rows` in all.

    Args:
        by_key: `results.curves` of the runs.
        metrics: the columns wanted; those a run did not record are left out.
    Returns:
        One row a (run, step): key, step, and the metrics.
    """
    points = max(2, min(POINTS_A_METRIC, rows // max(1, len(by_key))))
    frames = [pd.DataFrame(columns=["key", "step"])]
    for key, curve in by_key.items():
        present = [m for m in metrics if m in curve]
        picked = [_spread(curve.loc[curve[m].notna(), "step"].to_numpy(), points) for m in present]
        kept = curve[curve["step"].isin(np.concatenate([[], *picked]))]
        frames.append(kept[["step", *present]].assign(key=key))
    together = pd.concat(frames[1:] or frames, ignore_index=True)
    return together[["key", "step", *(m for m in metrics if m in together)]]


def _spread(steps: np.ndarray, points: int) -> np.ndarray:
    """At most `points` of the steps of a record, which are denser at the start already."""
    return steps[np.unique(np.linspace(0, len(steps) - 1, points).round().astype(int))]
