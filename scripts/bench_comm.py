"""How long one averaging step takes: measured, predicted, and against the wire.

    python scripts/bench_comm.py                     # this machine, 2, 4 and 8 ranks
    python scripts/bench_comm.py --testbed 1gbit     # 4 hosts of a virtual cluster (root)

What is timed: `expograph.measure.communication`. Writes results/bench_comm/<where>/: table.json,
its renderings and a figure.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from expograph.cluster.testbed import Testbed, Unavailable
from expograph.measure import communication
from expograph.measure.communication_table import tables_of
from expograph.report import figures, rendering
from expograph.report.communication_figure import step_times
from expograph.report.screen import Screen, show
from expograph.runs import results
from expograph.runs.provenance import provenance


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=None, help="default: 2 4 8")
    parser.add_argument("--sizes", type=int, nargs="+", default=communication.SIZES)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--testbed", metavar="RATE", help="on virtual hosts with links of RATE")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        communication.worker(arguments.sizes, arguments.rounds, arguments.worker)
        return 0
    command = [sys.executable, str(Path(__file__).resolve()), "--rounds", str(arguments.rounds)]
    command += ["--sizes", *map(str, arguments.sizes)]
    measured, rate = [], None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "measured.json")
        command += ["--worker", str(out)]
        for n in arguments.ranks or ([4] if arguments.testbed else [2, 4, 8]):
            print(f"{n} ranks ...", flush=True)
            try:
                if arguments.testbed:
                    with Testbed(n, arguments.testbed) as testbed:
                        status, rate = testbed.run(command).returncode, testbed.rate_bytes
                else:
                    status = subprocess.run(["bfrun", "-np", str(n), *command]).returncode
            except Unavailable as e:
                print(e, file=sys.stderr)
                return 2
            if status:
                return 1
            measured.append(json.loads(out.read_text(encoding="utf-8")))
    where, target = "one machine, shared memory", "one_machine"
    if arguments.testbed:
        where = f"virtual cluster, one rank a host, {arguments.testbed}/s links"
        target = f"testbed_{arguments.testbed}"
    tables = tables_of(measured, rate, where, provenance())
    folder = arguments.results / "bench_comm" / target
    rendering.write(tables, folder)
    figures.save(step_times(tables["times"], where), folder / "figure")
    show(Console(), [Screen(tables["ratios"])])
    return 0


if __name__ == "__main__":
    sys.exit(main())
