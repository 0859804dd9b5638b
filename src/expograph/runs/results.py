"""Results as frames: of the runs folder, and where a run is not there, of committed records."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from expograph.config import Run
from expograph.config.facts import FINAL, is_reference, over_exact
from expograph.runs import records, store
from expograph.runs.records import RunRecord, Transients
from expograph.runs.store import ROOT, Finished
from expograph.runs.thinning import BlockMeans

__all__ = ["ROOT", "curves", "errors_of", "find", "flatten", "for_table", "summary", "varying"]


def find(runs: Iterable[Run], root: Path = ROOT, name: str | None = None) -> dict[str, RunRecord]:
    """The records of the runs that are finished, by key, in the runs' order.

    Args:
        runs: of an experiment; transient iterations compare them with each other.
        root: the results.
        name: the experiment's folder under the results, whose committed records stand for runs
            that the runs folder has not; None for the runs folder alone.
    Raises:
        DamagedFile: if the committed records are needed and damaged.
    """
    runs = list(runs)
    found = records.of_runs(runs, root, Transients.of(runs))
    if name is not None and len(found) < len({run.key for run in runs}):
        found = records.read(root / name / records.FILE) | found
    return {run.key: found[run.key] for run in runs if run.key in found}


def for_table(
    runs: Iterable[Run], root: Path, name: str, recorded: Iterable[Run]
) -> dict[str, RunRecord]:
    """What a table is written from: the runs folder, and committed records that were accepted.

    Args:
        runs, root, name: as of `find`.
        recorded: the runs of which the committed record counts.
    """
    accepted = {run.key for run in recorded}
    committed = records.read(root / name / records.FILE) if accepted else {}
    found = find(runs, root) | {key: committed[key] for key in accepted & committed.keys()}
    return {run.key: found[run.key] for run in runs if run.key in found}


def summary(
    runs: Iterable[Run],
    root: Path = ROOT,
    name: str | None = None,
    found: Mapping[str, RunRecord | Finished] | None = None,
) -> pd.DataFrame:
    """One row a run, in order: its config flattened, its status and its final metrics.

    A run that is not there has status "missing"; one that diverged has no final accuracy.

    Args:
        runs, root, name: as of `find`.
        found: what `find` gave, if the caller has it.
    """
    runs = list(runs)
    found = _finals(runs, root, name) if found is None else found
    rows = []
    for run in runs:
        record = found.get(run.key)
        row = {"key": run.key, "status": "missing", **flatten(run.model_dump())}
        row["decay_steps"] = str(run.decay_steps)
        if record:
            row["status"] = record.status
            known = record.problem
            row |= {name: known[name] for name in ("zeta2", "sigma2") if name in known}
            if record.status == "done":  # its lr is the last step's: final_lr
                row |= {FINAL + k if k in row else k: v for k, v in record.final.items()}
            row |= {k: record.provenance.get(k) for k in ("commit", "code")}
        rows.append(row)
    frame = pd.DataFrame(rows)
    for metric in [m for m in ("error_averaged", "error_workers") if m in frame]:
        frame[f"{metric}_over_psgd"] = _over_psgd(frame, metric)
    return frame


def _finals(runs: list[Run], root: Path, name: str | None) -> dict[str, RunRecord | Finished]:
    """What `find` gives, without reading curves."""
    own = {run.key: kept for run in runs if (kept := store.load(run, root))}
    if name is None or len(own) == len({run.key for run in runs}):
        return {**own}
    return {**records.read(root / name / records.FILE), **own}


def _over_psgd(summary: pd.DataFrame, metric: str) -> pd.Series:
    """`metric` of each run over that of its reference, the run that is like it in all else.

    The reference of an algorithm is itself over exact averaging, parallel SGD for most.
    """
    heads = set(Run.model_fields) - {"algorithm", "topology", "engine"}
    alike = ["algorithm", *(c for c in summary if c.split(".")[0] in heads)]
    pairs = zip(summary["algorithm"], summary["topology"], strict=True)
    exact = summary.loc[[is_reference(*pair) for pair in pairs], [*alike, metric]]
    exact = exact.drop_duplicates(alike)  # of several engines, which agree, any
    wanted = summary[alike].assign(algorithm=summary["algorithm"].map(over_exact))
    return summary[metric] / wanted.merge(exact, how="left", on=alike)[metric].to_numpy()


def curves(
    runs: Iterable[Run], root: Path = ROOT, name: str | None = None
) -> dict[str, pd.DataFrame]:
    """The metrics of every run that is done, by key: step, and a column a metric; thinned."""
    found = find(runs, root, name)
    return {key: record.frame() for key, record in found.items() if record.status == "done"}


def errors_of(found: Mapping[str, RunRecord]) -> dict[str, dict[str, BlockMeans]]:
    """Errors of the runs that are done, as transient iterations need them: key -> metric."""
    return {
        key: {metric: blocks.means_of() for metric, blocks in record.blocks.items()}
        for key, record in found.items()
        if record.status == "done"
    }


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
