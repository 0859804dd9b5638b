"""Run the experiments of configs in this process, or as a rank of an MPI job; write their tables.

examples:
  expograph train configs/table2.toml
  expograph train configs/table2.toml topology=ring nodes=[8,16] seed=0 problem.model=mlp
  expograph train configs/table2.toml nodes=8 --tensorboard
  bfrun -np 8 expograph train configs/table2.toml engine=bluefog

Finished runs are used again. `key=value` words override the config's [run]; what they make goes to
results/<name>_custom/ and leaves results/<name>/ alone. `engine=` alone is no variation: its
results go to results/<name>_<engine>/. Under an MPI launcher the runs that have its number of
ranks, nodes x local_size, are done.

exit status: 0 all runs finished (a diverged run is a result), 1 some failed, 2 the config is wrong,
130 interrupted.
"""

import argparse
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import torch
from rich.console import Console

from expograph import data
from expograph.cluster import job as jobs
from expograph.commands.mendable import MENDABLE
from expograph.config import ConfigError, Experiment, Run, load
from expograph.data import DataUnavailable
from expograph.memory import keep_freed_memory
from expograph.report.experiment import write_report
from expograph.report.screen import show
from expograph.runs import results
from expograph.runs.progress import SweepProgress
from expograph.runs.sweep import Outcome, cost, execute_all, is_known, sweep


def check_machine(runs: list[Run]) -> None:
    """What a config can ask for and this machine may not have: data, samples, a GPU.

    Raises:
        ConfigError, DataUnavailable: in one line, before anything runs.
    """
    images = [run for run in runs if hasattr(run.problem, "dataset")]
    names = {run.problem.dataset for run in images}
    sizes = {name: len(data.load(name).train_labels) for name in names}
    for run in images:
        size = sizes[run.problem.dataset]
        if run.ranks > size:
            raise ConfigError(f"nodes: {run.ranks} workers cannot share {size} training images")
        weights = getattr(run.problem, "backbone_weights", None)
        if weights and not Path(weights).is_file():
            raise ConfigError(
                f"backbone_weights: {weights} is not there; it is what "
                "torch.save(torchvision.models.resnet50(weights='DEFAULT').state_dict(), ...) makes"
            )
    if any(run.device == "cuda" for run in runs) and not torch.cuda.is_available():
        raise ConfigError("device: 'cuda' was asked for, and torch sees no GPU; use device=cpu")


def for_this_job(runs: list[Run], console: Console) -> list[Run]:
    """The runs that this process, or the job it is a rank of, can do.

    Raises:
        ConfigError: if there are none, with the command that would do them.
    """
    ranks = jobs.launched()
    embedded = [run for run in runs if run.engine == "embedded"]
    if embedded and len(embedded) < len(runs):
        raise ConfigError("engine: embedded and other engines cannot share one command")
    if embedded:
        if ranks and ranks > 1:
            raise ConfigError(
                f"engine: {ranks} ranks were launched for the embedded engine, which is one "
                "process; add engine=bluefog (or mpi, horovod), or launch it without MPI"
            )
        return runs
    fitting = [run for run in runs if run.ranks == (ranks or 1)]
    others = Counter(run.ranks for run in runs if run.ranks != (ranks or 1))
    if not fitting:
        n, engine = min(others), runs[0].engine
        here = f"this job has {ranks}" if ranks else "this process was not launched by MPI"
        raise ConfigError(
            f"nodes: engine {engine} needs nodes x local_size ranks, {here}: "
            f"bfrun -np {n} python scripts/train.py ... engine={engine}"
        )
    if others:
        counts = ", ".join(f"{count} of {n}" for n, count in sorted(others.items()))
        console.print(f"left to jobs with another number of ranks: {counts}")
    return fitting


def name_of_results(experiment: Experiment, overrides: list[str]) -> str:
    """The folder of results/ that belongs to an experiment, its engine and its variation."""
    engines = {run.engine for run in experiment.runs} - {"embedded"}
    varied = any(not word.removeprefix("run.").startswith("engine=") for word in overrides)
    return "_".join([experiment.name, *sorted(engines), *(["custom"] if varied else [])])


def run_in_job(runs: list[Run], arguments: argparse.Namespace, console: Console) -> Outcome:
    """Every rank of a job does this; only rank 0 writes and prints."""
    with jobs.Job(plain=(ConfigError, DataUnavailable)) as job:
        device_count = torch.cuda.device_count()
        if device_count:
            torch.cuda.set_device(job.local_rank % device_count)
        asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # a list is one a level
        fitting = max(1, len(os.sched_getaffinity(0)) // job.local_size)
        threads = int(asked) if asked.isdecimal() and int(asked) else fitting
        torch.set_num_threads(threads)
        keep_freed_memory()
        hosts = len(set(job.hosts))
        console.print(f"{job.size} ranks on {hosts} hosts, {threads} threads a rank")
        shared = device_count and any(run.device == "cuda" for run in runs)
        if shared and job.local_size > device_count:
            console.print(
                f"{job.local_size} ranks share {device_count} GPUs: models stay there, messages "
                "go by way of the host's memory"
            )
        job.doing("the data")
        job.once_per_host(lambda: check_machine(runs), "the data of each host")
        root = arguments.results if job.rank == 0 else None  # one writer
        with SweepProgress(runs, console, root, paths_of(arguments)) as progress:
            return execute_all(
                runs, job, arguments.results, arguments.force, progress, arguments.tensorboard
            )


def run_here(runs: list[Run], arguments: argparse.Namespace, console: Console) -> Outcome:
    """The embedded engine: a pool of processes on this machine."""
    check_machine(runs)
    todo = [run for run in runs if arguments.force or not results.load(run, arguments.results)]
    if todo:
        processes = min(arguments.jobs or os.cpu_count() or 1, len(todo))
        minutes = sum(map(cost, todo)) / processes / 60
        about = f"{minutes:.0f} minutes" if minutes > 1.5 else f"{max(1, 60 * minutes):.0f} seconds"
        estimate = f", about {about} on {processes} cores of a usual machine"
        known = all(map(is_known, todo))
        console.print(f"{len(todo)} of {len(runs)} runs to do{estimate if known else ''}")
    with SweepProgress(runs, console, arguments.results, paths_of(arguments)) as progress:
        left = {run.key for run in todo}
        for run in runs:
            if run.key not in left:
                progress.reuse(run)
        return sweep(
            runs,
            arguments.results,
            arguments.jobs,
            arguments.force,
            progress,
            arguments.tensorboard,
        )


def paths_of(arguments: argparse.Namespace) -> list[str]:
    """The configs among the words of a command line; the others are overrides."""
    return [w for w in arguments.words if w.endswith(".toml") and "=" not in w]


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("words", nargs="+", metavar="CONFIG.toml | key=value")
    parser.add_argument("--jobs", type=int, help="processes (default: one a core)")
    parser.add_argument("--force", action="store_true", help="do finished runs again")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="write every run's curves for `tensorboard --logdir results/tensorboard`",
    )


def run(arguments: argparse.Namespace) -> int:
    """Do the runs, write results/<name>/ and print the tables."""
    paths = paths_of(arguments)
    overrides = [w for w in arguments.words if w not in paths]
    speaks = jobs.launched_rank() == 0
    # an MPI launcher's terminal is a pipe to here, whatever it looks like
    terminal = False if jobs.launched() else None
    console = Console(quiet=not speaks, force_terminal=terminal, markup=False)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    try:
        if arguments.jobs is not None and arguments.jobs < 1:
            raise ConfigError(f"--jobs {arguments.jobs}: needs at least 1")
        if not paths:
            raise ConfigError(
                f"{arguments.words[0]}: expected a config file, as configs/table2.toml"
            )
        experiments = [load(path, overrides) for path in paths]
        runs = list({run.key: run for e in experiments for run in e.runs}.values())
        runs = for_this_job(runs, console)
        console.print(f"{len(runs)} runs of {', '.join(map(str, paths))}")
        ranked = runs[0].engine != "embedded"
        outcome = (run_in_job if ranked else run_here)(runs, arguments, console)
    except MENDABLE:
        if speaks:
            raise  # the command line says it
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on with the runs that are left", file=sys.stderr)
        return 130
    if not speaks:
        return 0
    console.print(outcome.describe())
    for experiment in experiments:
        name = name_of_results(experiment, overrides)
        show(console, write_report(experiment, arguments.results, name))
    for run, cause in outcome.failed:
        print(f"failed: {run.label}: {cause}", file=sys.stderr)
    return 1 if outcome.failed else 0
