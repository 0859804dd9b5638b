"""SIGTERM and a terminal that goes away end a command as Ctrl-C does, and once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, the first of `SIGNALS` raises KeyboardInterrupt; further ones are ignored.

    What has been interrupted is ending already, and must not be interrupted in that. A signal that
    was ignored before, as SIGHUP by nohup, stays ignored.
    """
    before = {one: signal.getsignal(one) for one in SIGNALS}
    ours = [one for one in SIGNALS if before[one] is not signal.SIG_IGN]
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        for one in ours:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    for one in ours:
        signal.signal(one, interrupt)
    try:
        yield
    finally:
        if not interrupted:  # else this process ends, and what comes stays ignored
            for one in ours:
                signal.signal(one, before[one])
