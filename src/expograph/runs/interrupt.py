"""Signals that end a command: Ctrl-C, SIGTERM, a terminal that goes away, Slurm's pre-emption.

They end it once, as Ctrl-C does; a training finishes its step and is saved first (`saving`).
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


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


class Interruption:
    """The first of `SIGNALS` that has come; None so far."""

    number: int | None = None


@contextmanager
def deferred() -> Iterator[Interruption]:
    """Inside, a signal is only noted, for what runs to look at; at the end it does what it would.

    Outside the main thread, which alone has to do with signals, nothing is changed.
    """
    noted = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = {one: signal.getsignal(one) for one in SIGNALS}
    ours = [one for one in SIGNALS if before[one] is not signal.SIG_IGN]

    def note(number: int, frame: FrameType | None) -> None:
        noted.number = noted.number or number

    for one in ours:
        signal.signal(one, note)
    try:
        yield noted
    finally:
        for one in ours:
            signal.signal(one, before[one])
        if noted.number:
            signal.raise_signal(noted.number)
