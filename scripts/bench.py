"""Speed and memory of the embedded engine, as ratios within one run.

python scripts/bench.py              writes results/bench/: table.json and its renderings
"""

import argparse
import sys
from pathlib import Path

import torch
from rich.console import Console

from expograph.measure import memory, mixing, ratios, speed
from expograph.memory import keep_freed_memory
from expograph.report import rendering
from expograph.report.screen import Screen, show
from expograph.runs import results
from expograph.runs.provenance import provenance


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    arguments = parser.parse_args()
    of_memory = memory.of_steps() + memory.of_a_million_nodes()  # before this process grows
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    of_mixing = mixing.of_averaging() + mixing.of_update() + mixing.of_gradients()
    measured = [*of_mixing, *speed.of_steps(), *of_memory]
    tables = ratios.tables_of(measured, arguments.threads, provenance())
    rendering.write(tables, arguments.results / "bench")
    show(Console(), [Screen(tables["ratios"])])
    return 0


if __name__ == "__main__":
    sys.exit(main())
