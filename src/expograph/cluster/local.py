"""Start ranks on this machine, as torchrun does, and end with them.

    python -m expograph.cluster.local 8 python -m expograph train configs/table2.toml engine=torch

Signals to the group of processes reach the ranks themselves; this one waits. (torchrun would end
upon SIGUSR1, which asks ranks to save, and not see them through.)
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

GRACE = 15.0  # seconds that ranks have to end by themselves when one has failed
LOOK_EVERY = 0.05
PR_SET_PDEATHSIG = 1


def run(ranks: int, command: Sequence[str]) -> int:
    """Run `command` as so many ranks; the first exit status that is not 0, else 0."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free.getsockname()[1]),
        }
    started = [
        subprocess.Popen(
            command,
            env=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            preexec_fn=_end_with_parent,
        )
        for rank in range(ranks)
    ]
    status, deadline = 0, None
    while any(rank.poll() is None for rank in started):
        failed = [rank.returncode for rank in started if rank.returncode]
        if failed and deadline is None:
            status, deadline = failed[0], time.monotonic() + GRACE
        if deadline and time.monotonic() > deadline:
            for rank in started:
                rank.kill()
        time.sleep(LOOK_EVERY)
    status = status or next((rank.returncode for rank in started if rank.returncode), 0)
    return 128 - status if status < 0 else status


def _end_with_parent() -> None:
    """Ask the kernel to kill this rank when its launcher dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
