"""Small runs, one after the other in one process, for hours: memory and open files stay flat."""

import shutil
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
import torch

from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.config import Run
from expograph.measure.chaos import EMBEDDED, runs_of
from expograph.runs import store
from expograph.runs.runner import execute

SHORT = 20  # the runs have so many times fewer steps than those that `chaos` kills
WARM_UP = 0.1  # of the runs: allocators fill their pools
GROWTH = 1.05  # of memory, from the runs after the warm-up to the last tenth: more is a leak


class Sample(NamedTuple):
    """This process after a run.

    Attributes:
        seconds: since the first run began.
        memory: bytes that are resident.
        files: descriptors that are open.
    """

    seconds: float
    memory: int
    files: int


def kinds() -> Iterator[Run]:
    """Small runs without end: every kind of state, another seed each."""
    for seed, run in zip(count(), cycle(runs_of(EMBEDDED)), strict=False):
        short = {"steps": max(4, run.steps // SHORT), "record_every": 2, "evaluate_every": None}
        yield Run.model_validate({**run.model_dump(), **short, "seed": seed})


def soak(seconds: float, root: Path) -> Iterator[Sample]:
    """Do runs for so many seconds; what they leave under `root` is removed at once."""
    torch.set_num_threads(1)
    here, began = psutil.Process(), time.monotonic()
    for run in kinds():
        execute(run, root)
        shutil.rmtree(store.runs_folder(root))
        sample = Sample(time.monotonic() - began, here.memory_info().rss, here.num_fds())
        yield sample
        if sample.seconds >= seconds:
            return


def has_grown(samples: Sequence[Sample]) -> bool:
    """Whether memory or open files grew after the warm-up."""
    early, late = _ends(samples)
    return late.memory > GROWTH * early.memory or late.files > early.files


def table_of(samples: Sequence[Sample]) -> TableResult:
    """How many runs, and what the process had at both ends."""
    numbers: dict[str, Any] = {"runs": len(samples), "hours": samples[-1].seconds / 3600}
    for name, end in zip(("early", "late"), _ends(samples), strict=True):
        numbers[f"memory, {name} (MB)"] = end.memory / 1e6
        numbers[f"open files, {name}"] = end.files
    formats = [".0f", ".2f", ".1f", ".0f", ".1f", ".0f"]
    columns = zip(numbers, formats, strict=True)
    return TableResult(
        id="soak",
        heading="Small runs in one process",
        labels=("engine",),
        columns=tuple(Column(name=name, format=form) for name, form in columns),
        rows=(Row(labels=("embedded",), cells=tuple(Cell(mean=v) for v in numbers.values())),),
    )


def _ends(samples: Sequence[Sample]) -> tuple[Sample, Sample]:
    """The medians of a tenth of the samples after the warm-up, and of the last tenth."""
    size = max(1, len(samples) // 10)
    first = int(WARM_UP * len(samples))
    early, late = (
        Sample(*map(median, zip(*part, strict=True)))
        for part in (samples[first : first + size], samples[-size:])
    )
    return early, late
