"""An MPI job as a child of this process: its command line, and that it ends before this does."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from expograph.config import ConfigError

GRACE = 15.0  # seconds that a job has to end its ranks before it is killed


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


def search_path() -> str:
    """PATH with this environment's programs first: bfrun looks for mpirun there."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def launch(command: Sequence[str]) -> int:
    """Run a job to its end; its exit status.

    On KeyboardInterrupt the job is ended first: the launcher is asked to end its ranks, which it
    does before it ends itself, and is killed with them if it does not.
    """
    # a process group of its own: Ctrl-C reaches the job once, from here
    environment = os.environ | {"PATH": search_path()}
    job = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return job.wait()
    except BaseException:
        _signal(job, signal.SIGTERM)
        try:
            job.wait(GRACE)
        except subprocess.TimeoutExpired:
            pass
        _kill_session(job.pid)
        job.wait()
        raise


def _signal(job: subprocess.Popen, number: int) -> None:
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
