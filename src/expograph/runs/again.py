"""A finished run, trained once more and compared with what it left; nothing is written."""

import io
import math
from typing import Any, NamedTuple

import pandas as pd
import torch

from expograph.config import Run
from expograph.runs.assemble import records_of
from expograph.runs.lookup import Trace
from expograph.runs.outcome import Progress
from expograph.runs.store import ON_DISK
from expograph.runs.train import Diverged

TIMES = ("train_seconds",)  # metrics that are another every time


class Change(NamedTuple):
    """Where one metric of two trainings is furthest apart.

    Attributes:
        metric: its name.
        old, new: its values there; NaN where one has none.
        relative: |old - new| over the larger of |old| and |new|; infinite if one has none.
        step: where that is; None for the last record, whose numbers are kept whole.
    """

    metric: str
    old: float
    new: float
    relative: float
    step: int | None


class Training(NamedTuple):
    """What training gives: how it ended, the last record's metrics, and the curve as it is kept."""

    status: str
    final: dict[str, Any]
    curve: pd.DataFrame


def train_again(run: Run, threads: int, progress: Progress | None = None) -> Training:
    """Do a run of the embedded engine in this process, with so many threads."""
    before, rows, status = torch.get_num_threads(), [], "done"
    torch.set_num_threads(threads)
    try:
        for record in records_of(run):
            rows.append({"step": record.step, **record.values})
            if progress:
                progress(run, record.step)
    except Diverged:
        status = "diverged"
    finally:
        torch.set_num_threads(before)
    text = pd.DataFrame(rows).to_csv(index=False, float_format=ON_DISK)
    return Training(status, rows[-1], pd.read_csv(io.StringIO(text)))


def compare(trace: Trace, again: Training) -> list[Change]:
    """The largest relative difference of each metric, over the last record and the curve.

    Curves are kept to 8 digits, and of committed records some steps and metrics only: what is kept
    is compared.
    """
    found: dict[str, Change] = {}

    def note(metric: str, old: float | None, new: float | None, step: int | None) -> None:
        a, b = (math.nan if v is None or not math.isfinite(v) else float(v) for v in (old, new))
        change = Change(metric, a, b, _relative(a, b), step)
        if metric not in found or change.relative > found[metric].relative:
            found[metric] = change

    exact = trace.curve is not None  # a summary keeps 8 digits of the last record, too
    for metric in (m for m in dict.fromkeys((*trace.final, *again.final)) if m not in TIMES):
        old, new = trace.final.get(metric), again.final.get(metric)
        note(metric, old, new if exact or new is None else float(ON_DISK % new), None)
    if trace.curve is not None:
        curve = again.curve.set_index("step")
        for row in trace.curve.to_dict("records"):
            step = int(row.pop("step"))
            there = curve.loc[step] if step in curve.index else {}
            for metric in (m for m in row if m not in TIMES):
                note(metric, row[metric], there.get(metric), step)
    return list(found.values())


def _relative(old: float, new: float) -> float:
    if old == new or (math.isnan(old) and math.isnan(new)):
        return 0.0
    apart = abs(old - new) / max(abs(old), abs(new))
    return math.inf if math.isnan(apart) else apart
