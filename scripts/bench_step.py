"""How long a step of a user's own training takes, by who averages: ours, and what else there is.

    python scripts/bench_step.py                 # 4 hosts of a virtual cluster, 1 Gbit/s (root)

What is timed: `expograph.measure.step_time`. Decent-DP takes part where it is installed, as
`make bench-step` does in a folder of its own. Writes results/bench_step/.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from expograph.cluster.testbed import Testbed, Unavailable
from expograph.measure import step_time
from expograph.report import rendering
from expograph.report.screen import Screen, show
from expograph.runs import results
from expograph.runs.provenance import provenance


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--peers", type=Path, help="folder with Decent-DP; default: without it")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peers:
        sys.path.append(str(arguments.peers.resolve()))
    if arguments.worker:
        step_time.worker(arguments.rounds, arguments.peers is not None, arguments.worker)
        return 0
    command = [sys.executable, str(Path(__file__).resolve()), "--rounds", str(arguments.rounds)]
    command += ["--peers", str(arguments.peers.resolve())] if arguments.peers else []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "measured.json")
        try:
            with Testbed(arguments.hosts, arguments.rate) as testbed:
                meet = {"MASTER_ADDR": testbed.addresses[0], "MASTER_PORT": "29500"}
                words = [*command, "--worker", str(out)]
                status = testbed.run(words, environment=meet).returncode
                rate = testbed.rate_bytes
        except Unavailable as e:
            print(e, file=sys.stderr)
            return 2
        if status or not out.exists():
            return 1
        told = json.loads(out.read_text(encoding="utf-8"))
    where = f"virtual cluster, one rank a host, {arguments.rate}/s links"
    tables = step_time.tables_of(told, rate, where, provenance())
    rendering.write(tables, arguments.results / "bench_step")
    show(Console(), [Screen(table) for table in tables.tables])
    return 0


if __name__ == "__main__":
    sys.exit(main())
