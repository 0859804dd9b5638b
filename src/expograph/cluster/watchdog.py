"""The end of a job whose ranks wait too long: a watching thread, and a timer for the start-up.

MPI itself waits for ever: for a rank that never starts, for one that hangs, for one that raised.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

from expograph.cluster.launch import LIMIT, JobError, launched, launched_rank, place_on_host

GRACE = 5.0  # seconds that a rank has to answer
LOOK_EVERY = 0.25  # seconds between two looks of the watching thread
_CALL, _ANSWER = 1, 2  # message tags


class Mail(Protocol):
    """Messages between the watchdogs of all ranks, which never wait."""

    rank: int
    size: int

    def send(self, message: Any, rank: int, tag: int) -> None:
        """Send what JSON can say to a rank."""

    def received(self, tag: int) -> tuple[int, Any] | None:
        """The next message with this tag and the rank that sent it; None if there is none."""

    def ended(self) -> int | None:
        """The exit status, if another rank has ended the job.

        Raises:
            JobError: if there can be no more messages.
        """


class Watchdog:
    """A thread that asks all ranks what they do when this one has waited longer than the limit.

    The line that then ends the job names those who do not answer, else those who are still at
    work, else what all wait for.
    """

    def __init__(
        self,
        mail: Mail,
        who: Callable[[int], str],
        abort: Callable[[str], NoReturn],
        leave: Callable[[int], NoReturn],
        limit: float,
    ) -> None:
        """Prepare; `start` starts the thread.

        Args:
            mail: to the watchdogs of the other ranks.
            who: rank -> how messages call it.
            abort: ends every rank of the job with a line.
            leave: ends this rank of a job that has ended.
            limit: seconds a rank may wait.
        """
        self._mail, self._who, self._abort, self._leave = mail, who, abort, leave
        self._limit = limit
        self._waiting: tuple[str, float] | None = None  # for what, since when
        self._doing: tuple[object, ...] = ("start-up",)
        self._lost: tuple[str, str] | None = None  # what has failed, and why
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; MPI can then come down."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def doing(self, *what: object) -> None:
        """Note what this rank is at."""
        self._doing = what

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """This rank waits for the others within the context; an error in it ends the wait too."""
        self._waiting = what, time.monotonic()
        try:
            yield
        finally:
            self._waiting = None

    def lost(self, what: str, why: str) -> NoReturn:
        """A wait of this rank has failed: ask who is still there, and end the job."""
        if not self._thread.is_alive():
            self._abort(f"{self._who(self._mail.rank)} has lost a connection during {what}: {why}")
        self._lost = what, why
        self._thread.join()
        raise AssertionError("the watching thread ends the process")

    def _watch(self) -> None:
        try:
            while not self._over.wait(LOOK_EVERY):
                if (status := self._mail.ended()) is not None:
                    self._leave(status)
                self._answer()
                waiting = self._waiting
                if waiting and time.monotonic() - waiting[1] > self._limit:
                    limit = f"has waited {self._limit:.0f} s for {waiting[0]}"
                    self._ask_all(limit, f" ({LIMIT} sets the limit)")
                elif self._lost:
                    what, why = self._lost
                    self._ask_all(f"has lost a connection during {what}", f" ({why})")
        except JobError as e:
            if not self._over.is_set():
                self._abort(f"{self._who(self._mail.rank)}: {e}")

    def _answer(self) -> set[int]:
        """Answer the ranks that have asked; who they are."""
        callers = set()
        while call := self._mail.received(_CALL):
            caller, _ = call
            callers.add(caller)
            stopped = self._waiting or self._lost
            what = stopped[0] if stopped else None
            self._mail.send((what, self._at()), caller, _ANSWER)
        return callers

    def _at(self) -> str:
        return " ".join(map(str, self._doing))

    def _ask_all(self, what: str, remark: str) -> None:
        others = set(range(self._mail.size)) - {self._mail.rank}
        for rank in others:
            self._mail.send(None, rank, _CALL)
        answers: dict[int, tuple[str | None, str]] = {}
        callers: set[int] = set()
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and len(answers) < len(others):
            callers |= self._answer()
            while answer := self._mail.received(_ANSWER):
                rank, answers[rank] = answer
            time.sleep(0.02)
            if (status := self._mail.ended()) is not None:
                self._leave(status)
        if callers and min(callers) < self._mail.rank:
            time.sleep(2 * GRACE)  # one line is enough: the lowest rank that waits writes it
        own = f"{self._who(self._mail.rank)} {what}"
        self._abort(f"{own} at {self._at()}; {self._missing(others, answers)}{remark}")

    def _missing(self, others: set[int], answers: dict[int, tuple[str | None, str]]) -> str:
        """Whom the wait is for, in words."""
        silent = sorted(others - answers.keys())
        if silent:
            return f"no answer from {', '.join(map(self._who, silent))}"
        busy = [rank for rank in sorted(answers) if answers[rank][0] is None]
        if busy:
            return ", ".join(f"{self._who(r)} is still at {answers[r][1]}" for r in busy)
        return "all wait: " + ", ".join(
            f"{self._who(r)} for {answers[r][0]} at {answers[r][1]}" for r in sorted(answers)
        )


@contextmanager
def start_up(limit: float) -> Iterator[None]:
    """End this process if the ranks have not met within `limit` seconds.

    MPI has no messages before it is up, so ranks sign in with a file in a folder that the
    launcher keeps for the job on each host; each host tells which of its own ranks are missing.
    """
    rank, size = launched_rank(), launched() or 1
    local_rank, local_size = place_on_host()
    folder = os.environ.get("PMIX_SERVER_TMPDIR")  # Open MPI removes it with the job
    if folder:
        Path(folder, f"expograph-here-{local_rank}").touch()

    def end() -> None:
        present = Path(folder).glob("expograph-here-*") if folder else []
        here = {local_rank, *(int(path.name.rsplit("-", 1)[1]) for path in present)}
        if local_rank == min(here):
            # Open MPI numbers the ranks of a host in a row unless told otherwise
            absent = sorted(set(range(local_size)) - here)
            missing = ", ".join(str(rank - local_rank + r) for r in absent)
            state = f"rank {missing} is missing" if missing else "its ranks are here"
            sys.stderr.write(
                f"job ended: {size} ranks have not met within {limit:.0f} s; "
                f"on {socket.gethostname()} {state} ({LIMIT} sets the limit)\n"
            )
            sys.stderr.flush()
        else:
            time.sleep(1)  # the launcher ends all ranks with the first
        os._exit(1)

    timer = threading.Timer(limit, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
