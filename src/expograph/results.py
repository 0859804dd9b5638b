"""Runs on disk: one folder a run, written at once or not at all, found again by its key.

    results/runs/<key>/run.json      resolved config, status, final metrics, provenance
    results/runs/<key>/metrics.csv   one row a record, one column a metric

`status` is "done", or "diverged" when a loss stopped being finite: that is a result too.
"""

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from expograph.config import Run
from expograph.statistics import mean_interval
from expograph.train import Record

ROOT = Path("results")
SETTING = ["problem", "algorithm", "topology", "nodes"]  # what curves of one experiment differ in


def folder(run: Run, root: Path = ROOT) -> Path:
    """Where the run's two files are, or will be."""
    return root / "runs" / run.key


def save(run: Run, records: Iterable[Record], facts: dict[str, Any], root: Path = ROOT) -> Path:
    """Write a finished run: both files into a temporary folder, which is then renamed.

    Args:
        run: the run.
        records: what `train` yielded.
        facts: everything else for run.json: status, problem facts, seconds, provenance.
    Returns:
        The run's folder; an older result in its place is replaced.
    """
    target = folder(run, root)
    temporary = target.with_name(f".{run.key}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    rows = [{"step": record.step, **record.values} for record in records]
    pd.DataFrame(rows).to_csv(temporary / "metrics.csv", index=False, float_format="%.8g")
    content = {"key": run.key, **facts, "run": run.model_dump(), "final": rows[-1]}
    (temporary / "run.json").write_text(json.dumps(content, indent=1) + "\n")
    shutil.rmtree(target, ignore_errors=True)
    try:
        temporary.rename(target)
    except OSError:  # another sweep has just finished the same run
        shutil.rmtree(temporary)
    return target


def load(run: Run, root: Path = ROOT) -> dict[str, Any] | None:
    """The run's run.json, or None if the run is not finished or its record is unreadable."""
    path = folder(run, root) / "run.json"
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content if content.get("key") == run.key else None


def summary(runs: Iterable[Run], root: Path = ROOT) -> pd.DataFrame:
    """One row a run, in order: its config flattened, its status and its final metrics.

    A run that is not there has status "missing"; one that diverged has no final accuracy.
    """
    rows = []
    for run in runs:
        content = load(run, root)
        row = {"key": run.key, "status": "missing", **flatten(run.model_dump())}
        row["problem"] = getattr(run.problem, "model", run.problem.kind)
        if content:
            row["status"] = content["status"]
            known = content["problem"]
            row |= {name: known[name] for name in ("zeta2", "sigma2") if name in known}
            if content["status"] == "done":
                row |= content["final"]
            row |= {k: content["provenance"][k] for k in ("commit", "code")}
        rows.append(row)
    return pd.DataFrame(rows)


def curves(runs: Iterable[Run], root: Path = ROOT) -> dict[str, pd.DataFrame]:
    """The recorded metrics of every run that is done, by key."""
    return {
        run.key: pd.read_csv(folder(run, root) / "metrics.csv")
        for run in runs
        if (load(run, root) or {}).get("status") == "done"
    }


def mean_curves(
    summary: pd.DataFrame,
    by_key: dict[str, pd.DataFrame],
    metrics: Sequence[str],
    points: int = 60,
) -> pd.DataFrame:
    """Curves averaged over seeds, thinned to at most `points` records each.

    Args:
        summary: `summary` of the same runs; runs that differ in the seed only are averaged.
        by_key: `curves` of the same runs.
        metrics: the columns wanted; those a run did not record are left out.
    Returns:
        One row a (setting, step): what tells the settings apart, step, and for each metric its
        mean and `<metric>_half_width` of the 95 % interval (NaN for one seed).
    """
    done = summary[summary["key"].isin(by_key)]
    frames = []
    for setting, group in done.groupby(SETTING, sort=False):
        stacked = pd.concat([by_key[key] for key in group["key"]])
        present = [m for m in metrics if m in stacked]
        steps = stacked.loc[stacked[present].notna().all(axis=1), "step"].unique()
        picked = np.unique(np.geomspace(1, len(steps), points).round().astype(int)) - 1
        stacked = stacked[stacked["step"].isin(steps[picked])]
        rows = []
        for step, at in stacked.groupby("step"):
            row: dict[str, Any] = {**dict(zip(SETTING, setting, strict=True)), "step": step}
            for metric in present:
                found = mean_interval(at[metric].to_numpy())
                row[metric], row[f"{metric}_half_width"] = found.mean, found.half_width
            rows.append(row)
        frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"problem": {"model": m}} -> {"problem.model": m}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
