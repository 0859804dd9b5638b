"""A job of ranks as a child of this process: its command line, and its end before ours."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from expograph.config import ConfigError
from expograph.config.facts import ENGINES

SAVING = 120.0  # seconds that a job has to finish a step and save it
GRACE = 15.0  # and then to end its ranks before it is killed


def launcher(engine: str, ranks: int, hostfile: Path | None) -> list[str]:
    """The start of the command line that launches `ranks` ranks.

    Raises:
        ConfigError: if the launcher is not there.
    """
    if ENGINES[engine].ranks == "torch":
        if hostfile:
            raise ConfigError(
                f"--hostfile: is for MPI jobs; engine {engine} on several hosts is launched by "
                "torchrun or srun: docs/cluster.md"
            )
        return [sys.executable, "-m", "expograph.cluster.local", str(ranks)]
    name = "bfrun" if engine == "bluefog" else "mpirun"
    found = shutil.which(name, path=search_path())
    if found is None:
        raise ConfigError(f"no {name}: `make cluster-env` installs it")
    command = [found, "-np", str(ranks)]
    if name == "bfrun":  # goes before the word mpirun, so that no shell stands between it and us
        command += ["--prefix", "exec "]
    if hostfile:
        command += ["--hostfile", str(hostfile)]
    if name == "mpirun":
        command += ["--bind-to", "none"]
        command += [] if hostfile else ["--oversubscribe"]
        command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return command


def search_path() -> str:
    """PATH with this environment's programs first: bfrun looks for mpirun there."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def launch(command: Sequence[str]) -> int:
    """Run a job to its end; its exit status.

    On KeyboardInterrupt the job is ended first: by SIGUSR1, which mpirun hands to the ranks, and
    which they end upon when their run is saved. (Upon SIGTERM it would kill them after a second.) A
    launcher that then has not ended is asked to end its ranks, and at last killed with them.
    """
    # a process group of its own: Ctrl-C reaches the job once, from here
    environment = os.environ | {"PATH": search_path()}
    job = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return job.wait()
    except BaseException:
        for number, seconds in ((signal.SIGUSR1, SAVING), (signal.SIGTERM, GRACE)):
            _signal(job, number)
            with suppress(subprocess.TimeoutExpired):
                job.wait(seconds)
                break
        _kill_session(job.pid)
        job.wait()
        raise


def _signal(job: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(job.pid, number)
    except ProcessLookupError:
        pass


def _kill_session(session: int) -> None:
    """Kill what is left of a job: a launcher puts its ranks into groups of their own."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, owner = path.read_text().rsplit(")", 1)[1].split()[:4]
            if int(owner) == session and state != "Z":
                os.kill(int(path.parent.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue
