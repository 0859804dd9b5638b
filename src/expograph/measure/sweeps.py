"""Sweeps: what many small runs cost beside their training, and what it costs to do none again."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from expograph.config import Run, load
from expograph.measure.memory import in_fresh_process
from expograph.measure.ratios import Ratio
from expograph.measure.timing import interleaved
from expograph.memory import keep_freed_memory
from expograph.runs import store
from expograph.runs.cores import cores
from expograph.runs.runner import execute

GROUP = "sweeps"
SMALL = """
name = "small"
[run]
topology = "one_peer_exponential"
nodes = 16
algorithm = "dsgd_atc"
steps = {steps}
record_every = {every}
lr = 0.05
problem = {{ kind = "least_squares", samples = 50, noise = 1.0 }}
[[sweep]]
seed = {seeds}
"""
LONG = """
name = "long"
[run]
topology = "one_peer_exponential"
nodes = 32
algorithm = "dsgd_atc"
steps = {steps}
record_every = {steps}
lr = 0.05
problem = {{ kind = "classification", dataset = "fashion_mnist", model = "{model}" }}
[[sweep]]
seed = {seeds}
"""
TABLES = [f"configs/{name}.toml" for name in ("table1", "table2", "table3")]
# of the results
UNREAD = ("runs", "figures", "report", "custom", "mine", "tensorboard", "running")


def of_small_runs(count: int = 300, steps: int = 5000) -> list[Ratio]:
    """A sweep of least squares on 16 nodes: its time over its training's, which the cores share."""
    with tempfile.TemporaryDirectory() as folder:
        runs = _small(Path(folder), count, steps)
        start = time.perf_counter()
        run_alone("-m", "expograph", "sweep", f"{folder}/small.toml", "--results", folder)
        seconds = time.perf_counter() - start
        files = (Path(folder) / "runs" / run.key / "run.json" for run in runs)
        trained = sum(json.loads(file.read_text())["final"]["train_seconds"] for file in files)
    what = f"{count} runs of {trained / count:.2f} s: time / (training / cores)"
    ratio = seconds * min(cores(), count) / trained
    return [Ratio(group=GROUP, measured=what, value=ratio, target="<= 1.1")]


def of_threads(steps: int = 150, rounds: int = 3) -> list[Ratio]:
    """Two runs one after the other, all cores for each, against both at once, a core each."""
    found = []
    for model, name in {"mlp": "MLP", "cnn": "small CNN"}.items():
        times = interleaved(
            rounds,
            after=partial(_long, model, steps, jobs=1),
            beside=partial(_long, model, steps, jobs=2),
            warm_up=0,
        )
        what = f"{name}, n = 32, two runs of {steps} steps: one after the other / side by side"
        found.append(times.ratio(GROUP, what, "after", "beside", target=">= 1"))
    return found


def _long(model: str, steps: int, jobs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.toml"
        path.write_text(LONG.format(model=model, steps=steps, seeds=[0, 1]))
        there = ["--results", folder, "--jobs", str(jobs)]
        run_alone("-m", "expograph", "sweep", str(path), *there)


def of_repeated_tables(results: Path = store.ROOT) -> list[Ratio]:
    """`make reproduce-table` with every run finished and every figure drawn, on a copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "results"
        shutil.copytree(results, copy, ignore=shutil.ignore_patterns(*UNREAD))
        there = ["--results", str(copy)]
        run_alone("-m", "expograph", "figure", *there)
        start = time.perf_counter()
        run_alone("scripts/fetch_data.py")
        run_alone("-m", "expograph", "sweep", *TABLES, "--continue", "--keep-stale", *there)
        run_alone("-m", "expograph", "figure", *there)
        seconds = time.perf_counter() - start
    what = "reproduce-table with everything finished, seconds"
    return [Ratio(group=GROUP, measured=what, value=seconds, target="<= 5")]


def of_worker_memory(count: int = 300, early: int = 30, steps: int = 500) -> list[Ratio]:
    """The peak of a process that does one run after the other, late and early."""
    with tempfile.TemporaryDirectory() as folder:
        runs = _small(Path(folder), count, steps)
        peaks, _ = in_fresh_process(_peaks, runs, Path(folder))
    what = f"peak memory of a process after {count} runs / after {early}"
    ratio = peaks[-1] / peaks[early - 1]
    return [Ratio(group=GROUP, measured=what, value=ratio, target="<= 1.02")]


def _small(folder: Path, count: int, steps: int) -> Sequence[Run]:
    """So many small runs, whose config lies in the folder as small.toml."""
    path = folder / "small.toml"
    seeds = list(range(count))
    path.write_text(SMALL.format(steps=steps, every=max(1, steps // 10), seeds=seeds))
    return load(path).runs


def _peaks(runs: Sequence[Run], root: Path) -> list[int]:
    """Do runs as a sweep's process does; the peak of resident memory after each, in KiB."""
    keep_freed_memory()
    os.environ.pop(store.RUNS, None)
    found = []
    for run in runs:
        execute(run, root)
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return found


def run_alone(*words: str) -> None:
    """A command of this Python, with no runs but those of the results it is given."""
    bare = {name: value for name, value in os.environ.items() if name != store.RUNS}
    subprocess.run([sys.executable, *words], env=bare, stdout=subprocess.DEVNULL, check=True)
