"""Speed and memory of the embedded engine, as ratios within one run.

python scripts/bench.py              writes results/bench/: the table and its figure
python scripts/bench.py steps peers  these groups alone, shown and not written
"""

import argparse
import sys
from pathlib import Path

import torch
from rich.console import Console

from expograph.measure import gradient, memory, mixing, peers, ratios, speed, sweeps
from expograph.memory import keep_freed_memory
from expograph.report import figures, rendering
from expograph.report.ratios_figure import promises
from expograph.report.screen import Screen, show
from expograph.runs import results
from expograph.runs.provenance import provenance

MEASURE = {
    # first: a new process starts with the peak of this one
    "memory": (memory.of_steps, memory.of_a_million_nodes, sweeps.of_worker_memory),
    "arithmetic": (gradient.of_arithmetic,),
    "steps": (speed.of_steps,),
    "update": (mixing.of_update,),
    "averaging": (mixing.of_averaging,),
    "convex": (mixing.of_gradients,),
    "evaluation": (gradient.of_evaluation,),
    "peers": (peers.of_processes, peers.of_bluefog),
    "workers": (gradient.of_numbers,),
    "blocks": (gradient.of_blocks,),
    "threads": (sweeps.of_threads,),
    "sweeps": (sweeps.of_small_runs, sweeps.of_repeated_tables),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(MEASURE))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    arguments = parser.parse_args()
    if unknown := [group for group in arguments.groups if group not in MEASURE]:
        parser.error(f"unknown group {unknown[0]!r}: one of {', '.join(MEASURE)}")
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    groups = [group for group in MEASURE if group in (arguments.groups or MEASURE)]
    measured = [ratio for group in groups for measure in MEASURE[group] for ratio in measure()]
    tables = ratios.tables_of(measured, arguments.threads, provenance())
    if not arguments.groups:
        folder = arguments.results / "bench"
        rendering.write(tables, folder)
        figures.save(promises(tables["ratios"]), folder / "figure")
    show(Console(), [Screen(tables["ratios"])])
    return 0


if __name__ == "__main__":
    sys.exit(main())
