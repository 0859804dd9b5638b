"""What a process of the pool does: one run after the other, as its pipe hands them out."""

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from expograph.config import Run
from expograph.names import resolve

READY, STEP, ENDED, FAILED = "ready", "step", "ended", "failed"  # first words of its messages
REPORT_EVERY = 0.5  # seconds between two reports of a run's progress


def serve(pipe: Connection, work: str, options: dict[str, Any]) -> None:
    """Do the runs that come through the pipe until None comes; the answers go back through it.

    Args:
        pipe: brings (run, its threads).
        work: address of what is called with a run, `progress` and the options; gives its status.
        options: for `work`.
    """
    end_with_parent()
    import torch  # takes seconds, here while the parent does other things without it

    from expograph.memory import keep_freed_memory

    keep_freed_memory()
    do: Callable[..., str] = partial(resolve(work), **options)
    pipe.send((READY, None))
    while (order := pipe.recv()) is not None:
        run, threads = order
        torch.set_num_threads(threads)
        try:
            answer = ENDED, do(run, progress=_reporter(pipe))
        except Exception as e:
            answer = FAILED, " ".join("".join(traceback.format_exception_only(e)).split())
        pipe.send(answer)


def _reporter(pipe: Connection) -> Callable[[Run, int], None]:
    last = time.monotonic()

    def progress(run: Run, step: int) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_EVERY:
            last = time.monotonic()
            pipe.send((STEP, step))

    return progress


def end_with_parent() -> None:
    """From now on this process ends soon after its parent was killed: nobody waits for it."""
    pool = multiprocessing.parent_process()
    assert pool is not None, "only processes of a pool do this"
    parent = pool.pid

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
