"""Try to lose something: runs killed at random moments, and small runs in one process for hours.

    python scripts/reliability.py kills --kills 50    of the embedded engine, 20 of jobs of 4 ranks
    python scripts/reliability.py soak --hours 1

What is done: `expograph.measure.chaos` and `expograph.measure.soak`. Each writes its table of
results/reliability.md and results/reliability/ and keeps the other's. Jobs need `make cluster-env`;
without it they are left out, and the table has no row of them.
Exit status: 0 nothing was lost, nothing grew; 1 something; 2 the command is wrong.
"""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from expograph.analysis.table_result import TableResult
from expograph.config.facts import ENGINES
from expograph.files import replace_text
from expograph.measure import chaos, reliability, soak
from expograph.measure.chaos import EMBEDDED, RANKED, Count, in_a_job, in_a_process, runs_of
from expograph.report import markdown, rendering
from expograph.runs import results
from expograph.runs.mpi_job import search_path
from expograph.runs.provenance import provenance

TELL_EVERY = 60.0  # seconds of a soak


def main() -> int:
    arguments = _parser().parse_args()
    table, fine = arguments.do(arguments)
    tables = reliability.with_table(arguments.results, table, provenance())
    rendering.write(tables, arguments.results / reliability.FOLDER)
    replace_text(arguments.results / f"{reliability.FOLDER}.md", markdown.document(tables))
    return int(not fine)


def kills(arguments: argparse.Namespace) -> tuple[TableResult, bool]:
    """Kill runs; whether nothing was lost."""
    random.seed(arguments.seed)
    tried = [(in_a_process(), runs_of(EMBEDDED), arguments.kills, Count("embedded", "its process"))]
    jobs = 2 * arguments.kills // 5 if arguments.job_kills is None else arguments.job_kills
    kinds = runs_of(RANKED)
    if not shutil.which("bfrun", path=search_path()):
        print("no bfrun: MPI jobs are left out; `make cluster-env` installs it")
        kinds = [run for run in kinds if ENGINES[run.engine].ranks != "mpi"]
    for k, whom in enumerate((chaos.a_rank, chaos.the_launcher)):
        name = ("a rank", "the launcher")[k]
        for number, run in enumerate(kinds):
            share = len(range(2 * number + k, jobs, 2 * len(kinds)))
            if share:
                tried.append((in_a_job(whom), [run], share, Count(run.engine, name)))
    with tempfile.TemporaryDirectory() as folder:
        for way, runs, number, count in tried:
            for line in chaos.torment(runs, number, way, count, Path(folder)):
                print(line, flush=True)
    counts = [count for _, _, _, count in tried]
    lost = sum(count.lost for count in counts)
    print(f"{sum(count.kills for count in counts)} kills, {lost} things lost")
    return chaos.table_of(counts), not lost


def soaked(arguments: argparse.Namespace) -> tuple[TableResult, bool]:
    """Do small runs; whether neither memory nor open files grew."""
    samples, told = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        for sample in soak.soak(3600 * arguments.hours, Path(folder)):
            samples.append(sample)
            if sample.seconds - told >= TELL_EVERY:
                told = sample.seconds
                memory, files = f"{sample.memory / 1e6:.0f} MB", f"{sample.files} open files"
                print(f"{len(samples)} runs, {memory}, {files}", flush=True)
    grown = soak.has_grown(samples)
    print(f"{len(samples)} runs: {'memory or open files grew' if grown else 'flat'}")
    return soak.table_of(samples), not grown


def _parser() -> argparse.ArgumentParser:
    form = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(description=__doc__, **form)
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    commands = parser.add_subparsers(required=True, metavar="kills|soak")
    one = commands.add_parser("kills", help=kills.__doc__)
    one.add_argument("--kills", type=_whole, default=50, help="of the embedded engine; default: 50")
    one.add_argument("--job-kills", type=int, help="of jobs; default: two for five of these")
    one.add_argument("--seed", type=int, help="of the moments; default: another every time")
    one.set_defaults(do=kills)
    one = commands.add_parser("soak", help=soaked.__doc__)
    one.add_argument("--hours", type=_hours, default=1.0, help="default: 1")
    one.set_defaults(do=soaked)
    return parser


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: needs a whole number, at least 1")
    return int(text)


def _hours(text: str) -> float:
    try:
        if 0 < (hours := float(text)) <= 1000:
            return hours
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text}: needs hours, more than 0, at most 1000")


if __name__ == "__main__":
    sys.exit(main())
