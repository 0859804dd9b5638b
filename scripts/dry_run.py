"""Every paper-scale problem for 3 steps under bfrun: does it run, what does it need?

    python scripts/dry_run.py [CONFIG.toml ...]       default: all that are for a cluster

What runs: `expograph.measure.dry_run`; configs that are named, on each of their graphs. Without
names it writes results/dry_run/: memory, bytes a step against
arithmetic, seconds. Exit status: 0 all ran and sent what arithmetic says, 1 not, 2 bad input.
"""

import argparse
import math
import sys
import tempfile
from pathlib import Path

from expograph.config import ConfigError, experiments
from expograph.measure.dry_run import Needs, as_rank, chosen, dry_run, prepared, ranks_of, tables_of
from expograph.report import rendering
from expograph.runs import results
from expograph.runs.provenance import provenance


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="*", type=Path)
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    arguments = parser.parse_args()
    if arguments.rank:
        as_rank(arguments.rank[0], Path(arguments.rank[1]))
        return 0
    try:
        every = [e.path for e in experiments("configs") if e.scale == "paper"]
        pairs = chosen(arguments.configs or every, every_graph=bool(arguments.configs))
        if not pairs:
            raise ConfigError(f"{arguments.configs[0]}: no runs for a cluster in it")
        if not Path(sys.executable).with_name("bfrun").exists():
            raise ConfigError("no bfrun: `make cluster-env` installs it")
    except ConfigError as e:
        print(e, file=sys.stderr)
        return 2
    measured, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        print("writing data in the formats of the data sets", flush=True)
        runs = prepared([run for _, run in pairs], root)
        for (path, _), run in zip(pairs, runs, strict=True):
            facts = dry_run(run, root, [sys.executable, __file__, "--rank"])
            label = (
                f"{path}: {run.problem.model} on {run.problem.dataset}, {run.algorithm} on "
                f"{run.topology}, {ranks_of(run)} ranks"
            )
            if "error" in facts:
                print(f"{label}: FAILED: {facts['error']}", file=sys.stderr, flush=True)
                wrong += 1
                continue
            measured.append(needs := Needs(path.name, run, facts))
            wrong += not math.isclose(facts["bytes"], needs.computed, rel_tol=1e-6)
            pace = f", {run.steps} steps: {needs.hours:.0f} h at this pace" if needs.hours else ""
            print(
                f"{label}: {facts['step']:.1f} s a step, {facts['memory']:.1f} GiB, "
                f"{facts['bytes'] / 1e6:.1f} MB sent a step, {needs.computed / 1e6:.1f} computed"
                + pace,
                flush=True,
            )
    if measured and not arguments.configs:
        rendering.write(tables_of(measured, provenance()), arguments.results / "dry_run")
    print(f"{len(measured)} of {len(pairs)} ran")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
