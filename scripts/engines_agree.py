"""Do the engines give the same parameters? Every algorithm on every topology, on each engine.

    python scripts/engines_agree.py                      # 4, 6 and 8 ranks, writes results/engines/
    python scripts/engines_agree.py --ranks 4 --quick    # a part, and nothing is written

Each combination trains 100 steps from the same config and seed on the embedded engine and as a
real MPI job on BlueFog, mpi4py and, where it averages exactly, Horovod; some also with the ranks
in servers of two. Compared are the final parameters of every worker: |x - x_embedded| /
|x_embedded|, the largest over the workers, and the bytes counted. Exit status 1 if any is above
the tolerance.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import torch

from expograph import algorithms, engines
from expograph.algorithms import ALGORITHMS
from expograph.cluster.job import Job
from expograph.config import Run
from expograph.files import replace_text
from expograph.graphs.topology import TOPOLOGIES
from expograph.runs import results
from expograph.runs.assemble import assemble
from expograph.runs.provenance import provenance

STEPS, QUICK_STEPS = 100, 20
ON_SERVERS = ("static_exponential", "one_peer_exponential")
QUICK = "random_match"  # what --quick trains with every algorithm
TOLERANCE = 1e-5
PROBLEM = {"kind": "classification", "dataset": "digits", "batch_size": 8, "partition": "label"}


def combinations(n: int, seed: int, model: str, quick: bool = False) -> list[Run]:
    """A run of every algorithm on every topology that it is defined for, and some on servers."""
    chosen = [
        (name, topology, 1)
        for name in ALGORITHMS
        for topology in (("fully_connected",) if algorithms.build(name).exact else TOPOLOGIES)
        if not quick or topology == QUICK or name in ("psgd", "dmsgd")
    ]
    if n >= 4 and n % 2 == 0:
        chosen += [("psgd", "fully_connected", 2)]
        chosen += itertools.product(("dmsgd", "vanilla_dmsgd"), ON_SERVERS, (2,))
    return [
        Run.model_validate(
            {
                "problem": {**PROBLEM, "model": model, "weight_decay": 1e-3},
                "topology": topology,
                "nodes": n // local_size,
                "local_size": local_size,
                "algorithm": name,
                "steps": QUICK_STEPS if quick else STEPS,
                "lr": 0.02,
                "beta": 0.9 if algorithms.build(name).momentum else 0.0,
                "seed": seed,
                "record_every": STEPS,
            }
        )
        for name, topology, local_size in chosen
    ]


def final_models(run: Run, job: Job) -> tuple[torch.Tensor, int]:
    """(n, d) parameters after training, on every rank, and bytes sent by all ranks together."""
    assembly = assemble(run, job)
    *_, last = assembly.records()
    engine = assembly.engine
    return engine.gather(last.x), int(engine.gather(engine.sent).sum())


def worker(seed: int, model: str, quick: bool, out: Path) -> None:
    """One rank of the comparison; rank 0 writes a line a combination and engine."""
    torch.set_num_threads(1)
    rows = []
    with Job() as job:
        for run in combinations(job.size, seed, model, quick):
            models = {}
            names = [name for name in engines.ENGINES if name != "horovod" or is_exact(run)]
            for name in names:
                if name != "embedded" or job.rank == 0:
                    on_engine = Run.model_validate({**run.model_dump(), "engine": name})
                    models[name] = final_models(on_engine, job)
            if job.rank == 0:
                reference, counted = models.pop("embedded")
                for name, (x, sent) in models.items():
                    error = ((x - reference).norm(dim=1) / reference.norm(dim=1)).max()
                    what = (run.algorithm, run.topology, run.ranks, run.local_size, name)
                    rows.append((*what, float(error), sent, counted))
    if rows:
        columns = ["algorithm", "topology", "ranks", "local_size", "engine", "difference"]
        columns += ["bytes", "bytes_embedded"]
        pd.DataFrame(rows, columns=columns).to_csv(out, index=False, float_format="%.3g")


def is_exact(run: Run) -> bool:
    return run.topology == "fully_connected"


def write(found: pd.DataFrame, folder: Path, seed: int, model: str) -> None:
    """agree.csv, all combinations; agree.md, the worst over the topologies."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / "agree.csv", found.to_csv(index=False))
    worst = found.pivot_table(
        index="algorithm", columns=["engine", "ranks"], values="difference", aggfunc="max"
    ).reindex(list(ALGORITHMS))
    worst.columns = [f"{engine}, {n} ranks" for engine, n in worst.columns]
    table = worst.map(lambda v: "" if pd.isna(v) else f"{v:.1e}").reset_index()
    machine = provenance()
    text = (
        "# The engines agree\n\n"
        f"Largest |x - x_embedded| / |x_embedded| over the workers and the "
        f"{found['topology'].nunique()} topologies after {STEPS} steps of the {model} model "
        f"(float32) on digits sorted by label, seed {seed}; {len(found)} comparisons, tolerance "
        f"{TOLERANCE:g}. "
        "Horovod averages exactly: fully_connected only. On servers of two ranks: parallel SGD, "
        "DmSGD and vanilla DmSGD on the exponential graphs. Every combination is in agree.csv.\n\n"
        f"{table.to_markdown(index=False, disable_numparse=True)}\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, torch {machine['torch']}; "
        "`make engines-agree`\n"
    )
    replace_text(folder / "agree.md", text)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 6, 8])
    parser.add_argument(
        "--model",
        default="linear",
        help="default: linear; in a network ReLUs that flip multiply the engines' roundings",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    parser.add_argument("--quick", action="store_true", help="fewer combinations and steps")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.seed, arguments.model, arguments.quick, arguments.worker)
        return 0
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for n in arguments.ranks:
            out = Path(folder, f"{n}.csv")
            command = ["bfrun", "-np", str(n), sys.executable, __file__, "--worker", str(out)]
            command += ["--seed", str(arguments.seed), "--model", arguments.model]
            command += [*(["--quick"] if arguments.quick else [])]
            count = len(combinations(n, 0, arguments.model, arguments.quick))
            print(f"{n} ranks: {count} combinations ...", flush=True)
            status = subprocess.run(command).returncode
            if status:
                return status
            found.append(pd.read_csv(out))
            print(f"{n} ranks: worst difference {found[-1]['difference'].max():.1e}", flush=True)
    every = pd.concat(found, ignore_index=True)
    if not arguments.quick:
        write(every, arguments.results / "engines", arguments.seed, arguments.model)
    return int(every["difference"].max() > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
