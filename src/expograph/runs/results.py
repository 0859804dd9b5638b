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

from expograph.analysis.statistics import mean_interval
from expograph.config import Run
from expograph.config.facts import FINAL
from expograph.runs.train import Record

ROOT = Path("results")
ALWAYS_TOLD = ["algorithm", "topology", "nodes"]  # of a curve, even where all runs agree


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
    replaced = target.with_name(f".{run.key}.{os.getpid()}.old.tmp")
    if target.exists():
        target.rename(replaced)
    try:
        temporary.rename(target)
    except OSError:
        if not load(run, root):  # else another sweep has just finished the same run
            raise
        shutil.rmtree(temporary)
    shutil.rmtree(replaced, ignore_errors=True)
    return target


def discard_leftovers(root: Path = ROOT) -> None:
    """Remove the temporary folders of processes that were killed while writing."""
    for path in (root / "runs").glob(".*.tmp"):
        try:
            os.kill(int(path.name.split(".")[2]), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except PermissionError:  # it lives, and is another user's
            continue


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
        row["decay_steps"] = str(run.decay_steps)
        if content:
            row["status"] = content["status"]
            known = content["problem"]
            row |= {name: known[name] for name in ("zeta2", "sigma2") if name in known}
            if content["status"] == "done":  # its lr is the last step's: final_lr
                row |= {FINAL + k if k in row else k: v for k, v in content["final"].items()}
            row |= {k: content["provenance"][k] for k in ("commit", "code")}
        rows.append(row)
    frame = pd.DataFrame(rows)
    for metric in {"error_workers", "error_averaged"} & set(frame):
        frame[f"{metric}_over_psgd"] = _over_psgd(frame, metric)
    return frame


def _over_psgd(summary: pd.DataFrame, metric: str) -> pd.Series:
    """`metric` of each run over that of the parallel SGD run that is like it in all else."""
    heads = set(Run.model_fields) - {"algorithm", "topology", "engine"}
    alike = [c for c in summary if c.split(".")[0] in heads]
    parallel = summary.loc[summary["algorithm"] == "psgd", [*alike, metric]]
    parallel = parallel.drop_duplicates(alike)  # of several engines, which agree, any
    reference = summary[alike].merge(parallel, how="left", on=alike)[metric]
    return summary[metric] / reference.to_numpy()


def curves(runs: Iterable[Run], root: Path = ROOT) -> dict[str, pd.DataFrame]:
    """The recorded metrics of every run that is done, by key."""
    return {
        run.key: curve(run, root) for run in runs if (load(run, root) or {}).get("status") == "done"
    }


def curve(run: Run, root: Path = ROOT) -> pd.DataFrame:
    """The recorded metrics of a finished run: step, and a column a metric."""
    return pd.read_csv(folder(run, root) / "metrics.csv")


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
        mean, `<metric>_half_width` of the 95 % interval (NaN for one seed) and `<metric>_count`.
    """
    done = summary[summary["key"].isin(by_key)]
    told = [*ALWAYS_TOLD, *(k for k in varying(summary) if k not in ALWAYS_TOLD)]
    frames = []
    for setting, group in done.groupby(told, sort=False, dropna=False):
        stacked = pd.concat([by_key[key] for key in group["key"]])
        present = [m for m in metrics if m in stacked]
        steps = stacked.loc[stacked[present].notna().any(axis=1), "step"].unique()
        stacked = stacked[stacked["step"].isin(_thinned(steps, points))]
        rows = []
        for step, at in stacked.groupby("step"):
            row: dict[str, Any] = {**dict(zip(told, setting, strict=True)), "step": step}
            for metric in present:
                values = at[metric].dropna().to_numpy()
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
    """Every run's own curves, thinned to about 20 records each and to about `rows` in all.

    Args:
        by_key: `curves` of the runs.
        metrics: the columns wanted; those a run did not record are left out.
    Returns:
        One row a (run, step): key, step, and the metrics.
    """
    points = max(2, min(20, rows // max(1, len(by_key))))
    frames = [pd.DataFrame(columns=["key", "step"])]
    for key, recorded in by_key.items():
        present = [m for m in metrics if m in recorded]
        picked = [_thinned(recorded.loc[recorded[m].notna(), "step"], points) for m in present]
        kept = recorded[recorded["step"].isin(np.concatenate([[], *picked]))]
        frames.append(kept[["step", *present]].assign(key=key))
    together = pd.concat(frames[1:] or frames, ignore_index=True)
    return together[["key", "step", *(m for m in metrics if m in together)]]


def _thinned(steps: Sequence[int] | pd.Series, points: int) -> np.ndarray:
    """At most `points` of the steps, denser at the start, as logarithmic axes want them."""
    steps = np.asarray(steps)
    picked = np.unique(np.geomspace(1, max(1, len(steps)), points).round().astype(int)) - 1
    return steps[picked[: len(steps)]]


def varying(summary: pd.DataFrame) -> list[str]:
    """The config keys, seed left out, in which the runs of a summary differ."""
    heads = set(Run.model_fields) - {"seed"}
    keys = [c for c in summary if c.split(".")[0] in heads]
    return [k for k in keys if summary[k].nunique(dropna=False) > 1]


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"problem": {"model": m}} -> {"problem.model": m}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
