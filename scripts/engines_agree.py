"""Do the engines give the same parameters? Every algorithm on every topology, on each engine.

    python scripts/engines_agree.py                      # 4, 6 and 8 ranks, writes results/engines/
    python scripts/engines_agree.py --ranks 4 --quick    # a part, and nothing is written

What is compared: `expograph.measure.agreement`. Exit status 1 if any difference is above the
tolerance.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from expograph.measure import agreement
from expograph.report import rendering
from expograph.runs import results
from expograph.runs.provenance import provenance

LAUNCHERS = {
    "mpi": ["bfrun", "-np"],
    "torch": [sys.executable, "-m", "expograph.cluster.local"],
}


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
    parser.add_argument("--carriers", nargs="+", default=["mpi", "torch"], choices=["mpi", "torch"])
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    seed, model, quick = arguments.seed, arguments.model, arguments.quick
    if arguments.worker:
        (carrier,) = arguments.carriers
        agreement.worker(carrier, seed, model, quick, arguments.worker)
        return 0
    compared = []
    with tempfile.TemporaryDirectory() as folder:
        for n, carrier in itertools.product(arguments.ranks, arguments.carriers):
            out = Path(folder, f"{n}.json")
            command = [*LAUNCHERS[carrier], str(n), sys.executable, __file__, "--worker", str(out)]
            command += ["--carriers", carrier, "--seed", str(seed), "--model", model]
            command += ["--quick"] if quick else []
            count = len(agreement.combinations(n, seed, model, quick))
            print(f"{n} ranks, {carrier}: {count} combinations ...", flush=True)
            if status := subprocess.run(command).returncode:
                return status
            found = json.loads(out.read_text(encoding="utf-8"))
            worst = max(row["difference"] for row in found)
            print(f"{n} ranks, {carrier}: worst difference {worst:.1e}", flush=True)
            compared += found
    if not quick:
        tables = agreement.tables_of(compared, seed, model, provenance())
        rendering.write(tables, arguments.results / "engines")
    return int(max(row["difference"] for row in compared) > agreement.TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
