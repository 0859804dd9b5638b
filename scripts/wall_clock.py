"""Accuracy against seconds on a virtual cluster, piece by piece (root, iproute2).

    python scripts/wall_clock.py steps --rate 1gbit       # seconds a step, one more round of jobs
    python scripts/wall_clock.py real --seeds 0 1 2       # whole trainings, those that are missing
    python scripts/wall_clock.py table                    # tables and figure from what is there

What is measured: `expograph.measure.wall_clock`; how it is put together with the accuracies of the
config's embedded runs (`expograph sweep configs/wall_clock.toml`): `expograph.analysis.wall_clock`.
Everything measured is kept in results/wall_clock/testbed_<rate>/measured.json; `steps` adds to it,
`real` skips the trainings that it has. Exit status: 0 done, 1 a job failed, 2 bad input.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from expograph.analysis import wall_clock, wall_clock_tables
from expograph.analysis.cost_model import assumptions
from expograph.analysis.wall_clock import Contender, Emulated, Measured
from expograph.cluster.testbed import Unavailable, bytes_per_second
from expograph.config import ConfigError, load
from expograph.files import DamagedFile
from expograph.measure.wall_clock import Job, launch, parameters_of, with_pieces, worker
from expograph.report import figures, rendering
from expograph.report.screen import Screen, show
from expograph.report.wall_clock_figure import accuracy_against_seconds
from expograph.runs import results
from expograph.runs.provenance import provenance

RANK = [sys.executable, str(Path(__file__).resolve()), "rank"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["steps", "real", "table", "rank"])
    parser.add_argument("files", nargs="*", type=Path, help=argparse.SUPPRESS)  # of a rank
    parser.add_argument("--rate", default="1gbit", help="of the links; default: 1gbit")
    parser.add_argument("--blocks", type=int, default=12, help="steps: 8 steps each, a contender")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="real: of these")
    parser.add_argument("--rows", nargs="+", help="real: of these topologies; default: all")
    parser.add_argument("--config", type=Path, default=Path("configs/wall_clock.toml"))
    parser.add_argument("--cost", type=Path, default=Path("configs/cost_model.toml"))
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    arguments = parser.parse_args()
    if arguments.part == "rank":
        job, out = arguments.files
        worker(Job.model_validate_json(job.read_text(encoding="utf-8")), out)
        return 0
    try:
        return measure(arguments)
    except (ConfigError, DamagedFile, Unavailable, ValueError) as e:
        print(e, file=sys.stderr)
        return 2


def measure(arguments: argparse.Namespace) -> int:
    """One part, and then the tables of all that is there."""
    bytes_per_second(arguments.rate)  # a wrong one is said before anything is done
    runs = load(arguments.config).runs
    hosts = runs[0].nodes
    every = wall_clock.contenders(runs, hosts)
    elements = parameters_of(runs[0])
    time = wall_clock.emulated(arguments.results, assumptions.read(arguments.cost), elements)
    folder = arguments.results / "wall_clock" / f"testbed_{arguments.rate}"
    new = Measured(
        rate=arguments.rate,
        hosts=hosts,
        model=runs[0].problem.model,
        dataset=runs[0].problem.dataset,
        elements=elements,
        compute=time.seconds,
    )
    measured = wall_clock.read_measured(folder) or new
    if measured.model_copy(update={"steps": [], "real": []}) != new:
        raise ConfigError(
            f"{folder / wall_clock.FILE}: of another network, number of hosts or stated time; "
            "remove it to measure anew"
        )
    jobs = {"steps": step_jobs, "real": real_jobs, "table": lambda *_: []}
    for job in jobs[arguments.part](every, measured, arguments):
        print(f"{', '.join(job.runs)}: {hosts} hosts, {arguments.rate}/s ...", flush=True)
        pieces = launch(hosts, arguments.rate, job, RANK)
        if pieces is None:
            return 1
        measured = with_pieces(measured, pieces)
        wall_clock.write_measured(folder, measured)
    write(folder, measured, time, every, arguments.results)
    return 0


def step_jobs(
    every: list[Contender], measured: Measured, arguments: argparse.Namespace
) -> list[Job]:
    """BlueFog's contenders in turns, then Horovod's, whose thread never rests."""
    seed = min(every[0].runs)
    by_engine: dict[str, dict] = {"bluefog": {}, "horovod": {}}
    for contender in every:
        by_engine[contender.engine][contender.label] = contender.on_the_network(seed)
    return [
        Job(runs=runs, compute=measured.compute, blocks=arguments.blocks)
        for runs in by_engine.values()
    ]


def real_jobs(
    every: list[Contender], measured: Measured, arguments: argparse.Namespace
) -> list[Job]:
    """A job for each contender and seed that has none yet, seed by seed."""
    done = {(real.label, real.seed) for real in measured.real}
    rows = arguments.rows or [contender.topology for contender in every]
    if unknown := set(rows) - {contender.topology for contender in every}:
        raise ConfigError(f"--rows {' '.join(sorted(unknown))}: not in {arguments.config}")
    if unknown := set(arguments.seeds) - set(every[0].runs):
        raise ConfigError(f"--seeds {' '.join(map(str, unknown))}: not in {arguments.config}")
    return [
        Job(runs={contender.label: contender.on_the_network(seed)}, compute=measured.compute)
        for seed in arguments.seeds
        for contender in every
        if contender.topology in rows and (contender.label, seed) not in done
    ]


def write(
    folder: Path, measured: Measured, time: Emulated, every: list[Contender], root: Path
) -> None:
    """Tables and figure of what was measured and of the embedded runs that are done."""
    runs = [run for contender in every for run in contender.runs.values()]
    curves = results.curves(runs, root, "wall_clock")
    tables = wall_clock_tables.tables_of(measured, time, every, curves, provenance())
    rendering.write(tables, folder)
    topologies = {contender.label: contender.topology for contender in every}
    composed = wall_clock.composed(measured, every, curves)
    figures.save(accuracy_against_seconds(composed, measured, topologies), folder / "figure")
    show(Console(), [Screen(table) for table in tables.tables])
    print(f"written to {folder}/")


if __name__ == "__main__":
    sys.exit(main())
