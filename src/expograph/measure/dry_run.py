"""Every paper-scale problem for 3 steps on a few ranks: does it run, what does it need?

The real network and transforms of each config, its real batch and image size, on made-up data
in the real format. A config of at most FEW nodes runs on its own number of ranks, and so over its
own graph; larger ones on two.
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
from expograph.engines.embedded import Embedded
from expograph.graphs.topology import build
from expograph.runs.assemble import assemble

FEW, STEPS = 4, 3
SHORT = 1000  # numbers of the vectors by which messages are counted
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
    def computed(self) -> float:
        """Bytes a step of the busiest rank by arithmetic: parameters x 4 x vectors x messages."""
        return 4 * self.facts["parameters"] * _vectors_sent(self.run)

    @property
    def hours(self) -> float | None:
        """Of the whole training at this pace; None where its ranks are not the config's."""
        own = ranks_of(self.run) == self.run.ranks
        return self.facts["step"] * self.run.steps / 3600 if own else None


def ranks_of(run: Run) -> int:
    """As many as the config has, where these are few; else two."""
    return run.ranks if run.local_size == 1 and run.ranks <= FEW else 2


def shortened(run: Run) -> Run:
    """The run on so many ranks of this machine; all that the network and its data are stays."""
    changes = {"nodes": ranks_of(run), "local_size": 1, "device": "cpu", "record_every": 1}
    return Run.model_validate({**run.model_dump(), **changes, "evaluate_every": STEPS})


def chosen(paths: Iterable[Path], every_graph: bool = False) -> list[tuple[Path, Run]]:
    """Of each config one run for every problem: on a sparse graph, with the most to send.

    Args:
        every_graph: one for every problem and topology.
    """
    found: dict[tuple[str, str], tuple[Path, Run]] = {}
    for path in paths:
        for run in load(path).runs:
            key = (run.problem.model_dump_json(), run.topology if every_graph else "")
            heavier = key in found and _vectors_sent(run) <= _vectors_sent(found[key][1])
            if run.topology != "fully_connected" and run.engine != "embedded" and not heavier:
                found[key] = path, run
    return list(found.values())


def _vectors_sent(run: Run) -> float:
    """Model-sized vectors that the busiest rank sends a step, on average over the dry run's steps.

    Counted with short vectors on the embedded engine.
    """
    n = ranks_of(run)
    rule, engine = algorithms.build(run.algorithm), Embedded(build(run.topology, n, run.seed))
    state = rule.init(torch.ones(n, SHORT))
    for k in range(STEPS):
        state = rule.step(state, torch.sin, engine.mixer(k // rule.every), 0.1, 0.0)
    return float(engine.sent.max()) / (4 * SHORT * STEPS)


def prepared(runs: Iterable[Run], root: Path) -> list[Run]:
    """Write the data that the runs ask for; a file of weights is replaced by a made-up one."""
    runs = list(runs)
    for name in {run.value("problem.dataset") for run in runs}:
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
    generated.believe(out.parent)  # where `prepared` has written the data
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
                "parameters": len(problem.initial()[0]),
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
    words = [bfrun, "-np", ranks_of(run), *rank, shortened(run).model_dump_json(), out]
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
        network = (run.value(f"problem.{key}") for key in ("model", "dataset", "batch_size"))
        labels = (needs.config, *network, run.algorithm)
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
            f"`make dry-run`: {STEPS} steps and an evaluation under bfrun, a node a rank, made-up "
            f"data in the real format, everything else as in the config. Configs of at most {FEW} "
            "nodes run on all of them, others on two.",
            "Computed: parameters x 4 bytes x vectors of the algorithm x messages of the busiest "
            "rank.",
            f"{made['cpu']}, {made['cores']} cores; commit {made['commit']}.",
        ),
        made=made,
    )
