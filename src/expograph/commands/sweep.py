"""Run all of some configs on any engine and write their tables.

examples:
  expograph sweep configs/table2.toml configs/table3.toml
  expograph sweep configs/table2.toml seed=0 --engine bluefog --np 8
  expograph sweep configs/table2.toml --engine mpi --np 16 --hostfile hosts

The embedded engine does everything in this process, as `expograph train`. The others run an MPI
job for each number of ranks in the config (nodes x local_size), up to --np; larger runs are left
out, and said to be. bluefog is started by bfrun, mpi and horovod (parallel SGD only) by mpirun. The
first job that fails ends this, with its exit status.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from expograph.commands import train
from expograph.config import ConfigError, load
from expograph.config.facts import ENGINES


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    train.options(parser)
    parser.add_argument("--engine", choices=list(ENGINES), default="embedded")
    parser.add_argument("--np", type=int, help="most ranks an MPI job may have")
    parser.add_argument("--hostfile", type=Path, help="lines of `host slots=N`; default: this host")


def run(arguments: argparse.Namespace) -> int:
    """Do the runs; 0 if all finished."""
    if arguments.engine == "embedded":
        return train.run(arguments)
    if arguments.np is None:
        raise ConfigError(f"--engine {arguments.engine}: give --np, the most ranks a job may have")
    if arguments.hostfile and not arguments.hostfile.is_file():
        raise ConfigError(f"--hostfile {arguments.hostfile}: no such file")
    paths = train.paths_of(arguments)
    if not paths:
        raise ConfigError(f"{arguments.words[0]}: expected a config file, as configs/table2.toml")
    overrides = [w for w in arguments.words if w not in paths] + [f"engine={arguments.engine}"]
    if arguments.engine == "horovod":  # it has no other
        overrides += ["algorithm=psgd", "topology=fully_connected"]
        compared = [p for p in paths if (t := load(p).table) and t.kind != "pivot"]
        for path in compared:
            print(f"left out, needs more than parallel SGD: {path}", flush=True)
        paths = [path for path in paths if path not in compared]
        if not paths:
            raise ConfigError("--engine horovod: it has parallel SGD only, no config is left")
    counts = {run.ranks for path in paths for run in load(path, overrides).runs}
    jobs = sorted(n for n in counts if n <= arguments.np)
    if not jobs:
        raise ConfigError(f"--np {arguments.np}: the smallest run has {min(counts)} ranks")
    if left := sorted(counts - set(jobs)):
        print(f"left out, more than {arguments.np} ranks: runs of {left}", flush=True)
    kept = ["--results", str(arguments.results)]
    kept += ["--force"] if arguments.force else []
    kept += ["--tensorboard"] if arguments.tensorboard else []
    for n in jobs:
        command = launcher(arguments.engine, n, arguments.hostfile)
        command += [sys.executable, "-m", "expograph", "train", *paths, *overrides, *kept]
        print(shlex.join(command), flush=True)
        status = subprocess.run(command, env={**os.environ, "PATH": search_path()}).returncode
        if status:
            return status
    return 0


def search_path() -> str:
    """PATH with this environment's programs first: bfrun looks for mpirun there."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def launcher(engine: str, ranks: int, hostfile: Path | None) -> list[str]:
    """The start of the command line that launches `ranks` ranks.

    Raises:
        ConfigError: if the launcher is not there.
    """
    name = "bfrun" if engine == "bluefog" else "mpirun"
    found = shutil.which(name, path=search_path())
    if found is None:
        raise ConfigError(f"no {name}: `make cluster-env` installs it")
    command = [found, "-np", str(ranks)]
    if hostfile:
        command += ["--hostfile", str(hostfile)]
    if name == "mpirun":
        command += ["--bind-to", "none"]
        command += [] if hostfile else ["--oversubscribe"]
        command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return command
