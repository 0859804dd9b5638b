"""Every paper-scale problem for 3 steps under `bfrun -np 2`: does it run, what does it need?

    python scripts/dry_run.py [CONFIG.toml ...]       default: all that are for a cluster

The real network and transforms of each config, its real batch and image size, on made-up data
in the real format (written to a temporary folder). Writes results/dry_run/: memory, bytes a step
against arithmetic, seconds. Exit status: 0 all ran and sent what arithmetic says, 1 not, 2 bad
input.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import torch

from expograph import engines, problems
from expograph.algorithms import ALGORITHMS
from expograph.cluster import job as jobs
from expograph.config import ConfigError, Run, experiments, load
from expograph.data import generated
from expograph.graphs.topology import build
from expograph.report import tables
from expograph.report.style import name_of
from expograph.runs import results
from expograph.runs.provenance import provenance
from expograph.runs.train import train

RANKS, STEPS = 2, 3
LIMIT = 1800  # seconds one dry run may take


def shortened(run: Run) -> Run:
    """The run on two ranks of this machine; all that the network and its data are stays."""
    changes = {"nodes": RANKS, "local_size": 1, "device": "cpu", "record_every": 1}
    return Run.model_validate({**run.model_dump(), **changes, "evaluate_every": STEPS})


def chosen(paths: list[Path]) -> list[tuple[Path, Run]]:
    """Of each config one run for every problem: on a sparse graph, with the largest message."""
    found: dict[str, tuple[Path, Run]] = {}
    for path in paths:
        for run in load(path).runs:
            key = run.problem.model_dump_json()
            heavier = key in found and (
                ALGORITHMS[run.algorithm].vectors <= ALGORITHMS[found[key][1].algorithm].vectors
            )
            if run.topology != "fully_connected" and run.engine != "embedded" and not heavier:
                found[key] = path, run
    return list(found.values())


def as_rank(text: str, out: Path) -> int:
    """What each rank does: train three steps and evaluate; rank 0 writes what it saw."""
    run = Run.model_validate_json(text)
    started = time.perf_counter()
    with jobs.Job() as job:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // job.local_size))
        engine = engines.build(run.engine, build(run.topology, run.nodes, run.seed), job)
        problem = problems.build(run, engine.ranks)
        records = train(run, problem, engine)
        seen = [next(records) for _ in range(STEPS + 1)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB -> GiB
        peaks = engine.gather(torch.tensor([peak]))
        if job.rank == 0:
            facts = {
                "parameters": problem.model.dim,
                "memory": float(peaks.max()),
                "bytes": seen[-1].values["bytes_sent_max"] / STEPS,
                "loss": seen[-1].values["train_loss"],
                "step": seen[-1].values["train_seconds"] / STEPS,
                "metrics": sorted(k for k in seen[-1].values if "averaged" in k or "map" in k),
                "seconds": time.perf_counter() - started,
            }
            out.write_text(json.dumps(facts))
    return 0


def dry_run(run: Run, root: Path) -> dict:
    """Launch one; its facts, or why there are none under "error"."""
    out = root / "facts.json"
    out.unlink(missing_ok=True)
    bfrun = Path(sys.executable).with_name("bfrun")
    short = shortened(run).model_dump_json()
    words = [bfrun, "-np", RANKS, sys.executable, __file__, "--rank", short, out]
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
        told = [x for x in lines if "job ended" in x] or lines[-1:]
        return {"error": told[0] if told else f"exit status {done.returncode}"}
    return json.loads(out.read_text())


def prepare(runs: list[Run], root: Path) -> list[Run]:
    """Write the data that the runs ask for; a file of weights is replaced by a made-up one."""
    for name in {run.problem.dataset for run in runs}:
        print(f"writing data in the format of {name}", flush=True)
        generated.WRITERS[name](root)
    prepared = []
    for run in runs:
        if getattr(run.problem, "backbone_weights", None):
            weights = root / "weights.pth"
            if not weights.exists():
                generated.backbone_weights(weights)
            problem = run.problem.model_copy(update={"backbone_weights": str(weights)})
            run = run.model_copy(update={"problem": problem})
        prepared.append(run)
    return prepared


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="*", type=Path)
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    arguments = parser.parse_args()
    if arguments.rank:
        return as_rank(arguments.rank[0], Path(arguments.rank[1]))
    try:
        every = [e.path for e in experiments("configs") if e.scale == "paper"]
        pairs = chosen(arguments.configs or every)
        if not pairs:
            raise ConfigError(f"{arguments.configs[0]}: no runs for a cluster in it")
        if not Path(sys.executable).with_name("bfrun").exists():
            raise ConfigError("no bfrun: `make cluster-env` installs it")
    except ConfigError as e:
        print(e, file=sys.stderr)
        return 2
    rows, bad = [], 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        runs = prepare([run for _, run in pairs], root)
        for (path, _), run in zip(pairs, runs, strict=True):
            facts = dry_run(run, root)
            label = f"{path}: {run.problem.model} on {run.problem.dataset}, {run.algorithm}"
            if "error" in facts:
                print(f"{label}: FAILED: {facts['error']}", file=sys.stderr, flush=True)
                bad += 1
                continue
            # one out-neighbor of two ranks; float32
            computed = 4 * facts["parameters"] * ALGORITHMS[run.algorithm].vectors
            bad += facts["bytes"] != computed
            print(
                f"{label}: {facts['step']:.1f} s a step, {facts['memory']:.1f} GiB, "
                f"{facts['bytes'] / 1e6:.1f} MB sent a step, {computed / 1e6:.1f} computed",
                flush=True,
            )
            rows.append(
                {
                    "config": path.name,
                    "model": name_of(run.problem.model),
                    "data": run.problem.dataset,
                    "batch": run.problem.batch_size,
                    "algorithm": name_of(run.algorithm),
                    "parameters (millions)": f"{facts['parameters'] / 1e6:.2f}",
                    "one vector (MB)": f"{4 * facts['parameters'] / 1e6:.1f}",
                    "sent a step, counted (MB)": f"{facts['bytes'] / 1e6:.1f}",
                    "sent a step, computed (MB)": f"{computed / 1e6:.1f}",
                    "peak memory of a rank (GiB)": f"{facts['memory']:.2f}",
                    "seconds a step": f"{facts['step']:.1f}",
                }
            )
    made = provenance()
    notes = (
        f"- `make dry-run`: {STEPS} steps and an evaluation under `bfrun -np {RANKS}`, one node a "
        "rank, made-up data in the real format, everything else as in the config.\n"
        "- Computed: parameters x 4 bytes x vectors of the algorithm x 1 out-neighbor.\n"
        f"- {made['cpu']}, {made['cores']} cores; commit {made['commit']}.\n"
    )
    title = "Dry run of the paper-scale configs"
    if rows and not arguments.configs:
        tables.write({title: pd.DataFrame(rows)}, notes, arguments.results / "dry_run", title)
    print(f"{len(rows)} of {len(pairs)} ran")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
