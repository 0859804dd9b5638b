"""Jobs of ranks that tests start: by bfrun, by mpirun, or without MPI."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORKER = str(ROOT / "tests" / "cluster_worker.py")
BIN = Path(sys.executable).parent


def start(ranks: int, *command: str, launcher: str = "bfrun", **environment: str):
    variables = os.environ | environment
    variables["PATH"] = f"{BIN}{os.pathsep}{variables['PATH']}"
    launchers = {
        "bfrun": [str(BIN / "bfrun"), "-np"],
        "mpirun": [str(BIN / "mpirun"), "--allow-run-as-root", "--oversubscribe", "-q", "-np"],
        "local": [sys.executable, "-m", "expograph.cluster.local"],
    }
    return subprocess.Popen(
        [*launchers[launcher], str(ranks), *command],
        env=variables,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen, timeout: float = 180) -> subprocess.CompletedProcess:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"did not end within {timeout} s:\n{out}\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def launch(ranks: int, *command: str, **options) -> subprocess.CompletedProcess:
    return finish(start(ranks, *command, **options))


def case(ranks: int, *words: str, **options) -> dict:
    """What rank 0 of a case in cluster_worker.py told."""
    done = launch(ranks, sys.executable, WORKER, *words, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def alive(marker: str) -> list[str]:
    """Processes with the marker in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found
