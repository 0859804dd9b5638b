"""Every paper-scale problem for 3 steps on two ranks: does it run, what does it need?

The real network and transforms of each config, its real batch and image size, on made-up data
in the real format.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from expograph import algorithms
from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.cluster.mpi_group import MpiGroup
from expograph.config import Run, load
from expograph.data import generated
from expograph.runs.assemble import assemble

RANKS, STEPS = 2, 3
LIMIT = 1800  # seconds one dry run may take
COLUMNS = (
    Column(name="parameters (millions)"),
    Column(name="one vector (MB)", format=".1f"),
    Column(name="sent a step, counted (MB)", format=".1f"),
    Column(name="sent a step, computed (MB)", format=".1f"),
    Column(name="peak memory of a rank (GiB)"),
    Column(name="seconds a step", format=".1f"),
)


class Needs(NamedTuple):
    """What one dry run needed.

    Attributes:
        config: the name of its file.
        run: the run.
        facts: what `as_rank` wrote.
    """

    config: str
    run: Run
    facts: Mapping[str, Any]

    @property
    def computed(self) -> int:
        """Bytes a step by arithmetic: one out-neighbor of two ranks, float32."""
        return 4 * self.facts["parameters"] * _vectors(self.run)


def shortened(run: Run) -> Run:
    """The run on two ranks of this machine; all that the network and its data are stays."""
    changes = {"nodes": RANKS, "local_size": 1, "device": "cpu", "record_every": 1}
    return Run.model_validate({**run.model_dump(), **changes, "evaluate_every": STEPS})


def chosen(paths: Iterable[Path]) -> list[tuple[Path, Run]]:
    """Of each config one run for every problem: on a sparse graph, with the largest message."""
    found: dict[str, tuple[Path, Run]] = {}
    for path in paths:
        for run in load(path).runs:
            key = run.problem.model_dump_json()
            heavier = key in found and _vectors(run) <= _vectors(found[key][1])
            if run.topology != "fully_connected" and run.engine != "embedded" and not heavier:
                found[key] = path, run
    return list(found.values())


def _vectors(run: Run) -> int:
    return algorithms.build(run.algorithm).vectors


def prepared(runs: Iterable[Run], root: Path) -> list[Run]:
    """Write the data that the runs ask for; a file of weights is replaced by a made-up one."""
    runs = list(runs)
    for name in {run.problem.dataset for run in runs}:
        generated.WRITERS[name](root)
    return [_with_weights(run, root / "weights.pth") for run in runs]


def _with_weights(run: Run, weights: Path) -> Run:
    if not getattr(run.problem, "backbone_weights", None):
        return run
    if not weights.exists():
        generated.backbone_weights(weights)
    problem = run.problem.model_copy(update={"backbone_weights": str(weights)})
    return run.model_copy(update={"problem": problem})


def as_rank(text: str, out: Path) -> None:
    """What each rank does: train three steps and evaluate; rank 0 writes what it needed as JSON."""
    run = Run.model_validate_json(text)
    started = time.perf_counter()
    with MpiGroup() as group:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // group.local_size))
        assembly = assemble(run, group)
        engine, problem, records = assembly.engine, assembly.problem, assembly.records()
        seen = [next(records) for _ in range(STEPS + 1)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB -> GiB
        peaks = engine.gather(torch.tensor([peak]))
        if group.rank == 0:
            last = seen[-1].values
            facts = {
                "parameters": problem.model.dim,
                "memory": float(peaks.max()),
                "bytes": last["bytes_sent_max"] / STEPS,
                "loss": last["train_loss"],
                "step": last["train_seconds"] / STEPS,
                "metrics": sorted(k for k in last if "averaged" in k or "map" in k),
                "seconds": time.perf_counter() - started,
            }
            out.write_text(json.dumps(facts), encoding="utf-8")


def dry_run(run: Run, root: Path, rank: Sequence[str]) -> dict[str, Any]:
    """Launch one; its facts, or why there are none under "error".

    Args:
        run: with its data under `root`.
        rank: the command of a rank, which gets the run as JSON and the file for `as_rank`.
    """
    out = root / "facts.json"
    out.unlink(missing_ok=True)
    bfrun = Path(sys.executable).with_name("bfrun")
    words = [bfrun, "-np", RANKS, *rank, shortened(run).model_dump_json(), out]
    environment = os.environ | {"EXPOGRAPH_DATA": str(root), "EXPOGRAPH_TIMEOUT": "900"}
    environment["PATH"] = f"{bfrun.parent}{os.pathsep}{environment['PATH']}"
    try:
        done = subprocess.run(
            list(map(str, words)),
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no end after {LIMIT} s"}
    if done.returncode or not out.exists():
        lines = [x for x in (done.stderr + done.stdout).splitlines() if x.strip()]
        cause = [x for x in lines if "job ended" in x] or lines[-1:]
        return {"error": cause[0] if cause else f"exit status {done.returncode}"}
    return json.loads(out.read_text(encoding="utf-8"))


def tables_of(measured: Iterable[Needs], made: Mapping[str, Any]) -> Tables:
    """What the dry runs needed, a row each."""
    rows = []
    for needs in measured:
        run, facts = needs.run, needs.facts
        problem = run.problem
        labels = (needs.config, problem.model, problem.dataset, problem.batch_size, run.algorithm)
        numbers = (
            facts["parameters"] / 1e6,
            4 * facts["parameters"] / 1e6,
            facts["bytes"] / 1e6,
            needs.computed / 1e6,
            facts["memory"],
            facts["step"],
        )
        rows.append(Row(labels=labels, cells=tuple(Cell(mean=number) for number in numbers)))
    return assembled(rows, made)


def assembled(rows: Iterable[Row], made: Mapping[str, Any]) -> Tables:
    """The table of these rows with its notes."""
    table = TableResult(
        id="needs",
        heading="What a step needs",
        labels=("config", "model", "data", "batch", "algorithm"),
        columns=COLUMNS,
        rows=tuple(rows),
    )
    return Tables(
        title="Dry run of the paper-scale configs",
        tables=(table,),
        notes=(
            f"`make dry-run`: {STEPS} steps and an evaluation under `bfrun -np {RANKS}`, one node "
            "a rank, made-up data in the real format, everything else as in the config.",
            "Computed: parameters x 4 bytes x vectors of the algorithm x 1 out-neighbor.",
            f"{made['cpu']}, {made['cores']} cores; commit {made['commit']}.",
        ),
        made=made,
    )
