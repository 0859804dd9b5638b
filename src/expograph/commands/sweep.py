"""Run all of some configs on any engine and write their tables.

examples:
  expograph sweep configs/table2.toml configs/table3.toml
  expograph sweep configs/table2.toml seed=0 --engine bluefog --np 8
  expograph sweep configs/table2.toml --tables results/mine     leaves the committed table alone
  expograph sweep configs/table2.toml --engine mpi --np 16 --hostfile hosts

The embedded engine does everything in this process, as `expograph train`. The others run an MPI
job for each number of ranks in the config (nodes x local_size), up to --np; larger runs are left
out, and said to be. bluefog is started by bfrun, mpi and horovod (parallel SGD only) by mpirun. The
first job that fails ends this, with its exit status.
"""

import argparse
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

from expograph.cluster import hostfile
from expograph.commands import train
from expograph.config import ConfigError, load
from expograph.engines import ENGINES
from expograph.runs import environment
from expograph.runs.interrupt import interruptible
from expograph.runs.mpi_job import launch, launcher

FLAGS = {  # handed on to the ranks
    "--force": "force",
    "--keep-stale": "keep_stale",
    "--continue": "go_on",
    "--tensorboard": "tensorboard",
}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    train.options(parser)
    parser.add_argument("--engine", choices=list(ENGINES), default="embedded")
    parser.add_argument("--np", type=int, help="most ranks a job may have")
    parser.add_argument("--hostfile", type=Path, help="lines of `host slots=N`; default: this host")


def run(arguments: argparse.Namespace) -> int:
    """Do the runs; 0 if all finished."""
    if arguments.engine == "embedded":
        if arguments.np is not None or arguments.hostfile:
            option = "--hostfile" if arguments.np is None else f"--np {arguments.np}"
            raise ConfigError(
                f"{option}: is for jobs of ranks: give --engine bluefog, mpi, torch or horovod"
            )
        return train.run(arguments)
    if arguments.np is None:
        raise ConfigError(f"--engine {arguments.engine}: give --np, the most ranks a job may have")
    environment.check()
    hosts = hostfile.read(arguments.hostfile) if arguments.hostfile else None
    paths = train.paths_of(arguments)
    overrides = [w for w in arguments.words if w not in paths] + [f"engine={arguments.engine}"]
    if arguments.engine == "horovod":  # it has no other
        overrides += ["algorithm=psgd", "topology=fully_connected"]
        compared = [p for p in paths if (t := load(p).table) and t.kind != "pivot"]
        for path in compared:
            print(f"left out, needs more than parallel SGD: {path}", flush=True)
        paths = [path for path in paths if path not in compared]
        if compared and not paths:
            raise ConfigError("--engine horovod: it has parallel SGD only, no config is left")
    given = zip(train.paths_of(arguments), train.experiments_of(arguments, overrides), strict=True)
    counts = {run.ranks for path, experiment in given if path in paths for run in experiment.runs}
    jobs = sorted(n for n in counts if n <= arguments.np)
    if not jobs:
        raise ConfigError(f"--np {arguments.np}: the smallest run has {min(counts)} ranks")
    if left := sorted(counts - set(jobs)):
        print(f"left out, more than {arguments.np} ranks: runs of {left}", flush=True)
    if hosts and sum(hosts.values()) < jobs[-1]:
        slots = f"{sum(hosts.values())} slots for {jobs[-1]} ranks"
        raise ConfigError(f"{arguments.hostfile}: {slots}; list more, or give a smaller --np")
    kept = ["--results", str(arguments.results)]
    kept += ["--tables", str(arguments.tables)] if arguments.tables else []
    kept += ["--checkpoint", arguments.checkpoint] if arguments.checkpoint else []
    kept += ["--resume-from", arguments.resume_from] if arguments.resume_from else []
    kept += train.selection(arguments).flags
    kept += [word for word, name in FLAGS.items() if getattr(arguments, name)]
    try:
        with interruptible(), hostfile.written(hosts) if hosts else nullcontext() as listed:
            for n in jobs:
                command = launcher(arguments.engine, n, listed)
                command += [sys.executable, "-m", "expograph", "train", *paths, *overrides, *kept]
                print(shlex.join(command), flush=True)
                if status := launch(command):
                    discard_leftovers(arguments.results)
                    return status
    except KeyboardInterrupt:
        discard_leftovers(arguments.results)
        print("interrupted; the same command goes on where this one was", file=sys.stderr)
        return 130
    return 0


def discard_leftovers(results: Path) -> None:
    """Remove what ranks that were killed have left in the folder of runs."""
    from expograph.runs import (
        checkpoint,  # with pandas, which mistakes in configs need not wait for
    )

    checkpoint.discard_leftovers(results)
