"""Run configs as MPI jobs, one job for each number of ranks: `make reproduce-table ENGINE=bluefog`.

    python scripts/launch.py --engine bluefog --np 8 configs/table2.toml
    python scripts/launch.py --engine mpi --np 16 --hostfile hosts configs/table2.toml seed=0

A job has a rank for every node (local_size of them where servers have several GPUs), so the
config's runs of 4, 8, ... nodes are jobs of 4, 8, ... ranks; those of more than --np ranks are left
out, and said to be. bluefog is started by bfrun, mpi and horovod (parallel SGD only) by mpirun.
The first job that fails ends this, with its exit status.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from expograph.config import ConfigError, load
from expograph.engines import ENGINES

TRAIN = Path(__file__).with_name("train.py")


def launcher(engine: str, ranks: int, hostfile: Path | None) -> list[str]:
    """The start of the command line that launches `ranks` ranks.

    Raises:
        ConfigError: if the launcher is not there.
    """
    name = "bfrun" if engine == "bluefog" else "mpirun"
    found = shutil.which(
        name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="+", metavar="CONFIG.toml | key=value")
    parser.add_argument("--engine", choices=[e for e in ENGINES if e != "embedded"], required=True)
    parser.add_argument("--np", type=int, required=True, help="most ranks a job may have")
    parser.add_argument("--hostfile", type=Path, help="lines of `host slots=N`; default: this host")
    parser.add_argument("--force", action="store_true", help="do finished runs again")
    parser.add_argument("--results", type=Path, help="default: results/")
    arguments = parser.parse_intermixed_args()
    words = [*arguments.words, f"engine={arguments.engine}"]
    if arguments.engine == "horovod":  # it has no other
        words += ["algorithm=psgd", "topology=fully_connected"]
    paths = [w for w in words if w.endswith(".toml") and "=" not in w]
    options = ["--force"] if arguments.force else []
    options += ["--results", str(arguments.results)] if arguments.results else []
    try:
        if arguments.hostfile and not arguments.hostfile.is_file():
            raise ConfigError(f"--hostfile {arguments.hostfile}: no such file")
        if not paths:
            raise ConfigError(f"{words[0]}: expected a config file, as configs/table2.toml")
        overrides = [w for w in words if w not in paths]
        counts = {run.ranks for path in paths for run in load(path, overrides).runs}
        jobs = sorted(n for n in counts if n <= arguments.np)
        if not jobs:
            raise ConfigError(f"--np {arguments.np}: the smallest run has {min(counts)} ranks")
        if left := sorted(counts - set(jobs)):
            print(f"left out, more than {arguments.np} ranks: runs of {left}", flush=True)
        for n in jobs:
            command = launcher(arguments.engine, n, arguments.hostfile)
            command += [sys.executable, str(TRAIN), *words, *options]
            print(shlex.join(command), flush=True)
            status = subprocess.run(command).returncode
            if status:
                return status
    except ConfigError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
