"""A command that is waited for as long as it works, but not for ever where it hangs."""

import os
import signal
import subprocess
import time
from pathlib import Path

PATIENCE = 5.0  # seconds without work, after which a command counts as hanging
LIMIT = 60.0  # seconds for a command that works all the while: this machine may be busy


def run(command: list[str]) -> tuple[int, str, str]:
    """(exit status, output, errors) of a command; 127 if it is not there, 124 if it hangs."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},  # words we can read
            start_new_session=True,  # a script that hangs is ended with all that it started
        )
    except OSError as e:
        return 127, "", e.strerror or str(e)
    start, worked = time.monotonic(), 0.0
    while True:
        try:
            output, errors = process.communicate(timeout=PATIENCE)
            decoded = output.decode(errors="replace"), errors.decode(errors="replace")
            return process.returncode, *decoded
        except subprocess.TimeoutExpired:
            before, worked = worked, _worked(process.pid)
            waited = time.monotonic() - start
            if worked - before < PATIENCE / 50 or waited > LIMIT:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return 124, "", f"hangs: no answer after {waited:.0f} s"


def _worked(pid: int) -> float:
    """Seconds of processor time: what tells a slow command from one that hangs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
