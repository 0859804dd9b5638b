"""All ranks of a job: what they do together, and that they end together.

`mpi_group` and `torch_group` say how messages travel; a failure on one rank ends the job on all.
"""

import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from expograph.cluster.launch import JobError, time_limit
from expograph.cluster.watchdog import Mail, Watchdog
from expograph.graphs.checks import ScheduleError

POLL = 20e-6  # seconds between two polls of a request: blocking would hold the interpreter
BACK_OFF = 0.01  # share of the time waited so far that is added to it: cores are for computing
MISTAKE, INTERRUPTED = 2, 130  # exit statuses

Value = TypeVar("Value")


class Ranks:
    """What some ranks do together, by a subclass's `gather`; see `group.Group`."""

    rank: int
    size: int
    hosts: list[str]
    local_rank: int
    local_size: int
    watchdog: Watchdog

    def gather(self, rows: Tensor, what: str) -> Tensor:
        raise NotImplementedError

    def wait(self, done: Callable[[], bool], what: str) -> None:
        if done():
            return
        start = time.monotonic()
        with self.watchdog.waiting(what):
            while not done():
                time.sleep(POLL + BACK_OFF * (time.monotonic() - start))

    def waiting(self, what: str) -> AbstractContextManager[None]:
        """Context manager for a call that waits by itself and lets other threads run."""
        return self.watchdog.waiting(what)

    def doing(self, *what: object) -> None:
        self.watchdog.doing(*what)

    def exchange(self, value: Value, what: str) -> list[Value]:
        own = np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)
        sizes = self.gather(torch.tensor([len(own)]), what).tolist()
        padded = np.zeros((1, max(sizes)), dtype=np.uint8)
        padded[0, : len(own)] = own
        every = self.gather(torch.from_numpy(padded), what).numpy()
        return [json.loads(row[:k].tobytes()) for row, k in zip(every, sizes, strict=True)]

    def settle(self, hosts: list[str]) -> None:
        """Take note of the ranks' hosts."""
        self.hosts = hosts
        here = [rank for rank, host in enumerate(hosts) if host == hosts[self.rank]]
        self.local_rank, self.local_size = here.index(self.rank), len(here)


class Job(Ranks):
    """All ranks of the job. Use as a context manager around all that ranks do.

    An error that leaves the context on one rank ends the job on all.
    """

    def __init__(self, plain: tuple[type[Exception], ...]) -> None:
        """Prepare; a subclass then makes the ranks meet.

        Args:
            plain: errors that are the user's and say it all in one line, as JobErrors do; others
                are shown with their traceback.
        Raises:
            JobError: if the time limit in the environment is none.
        """
        self.limit = time_limit()
        self._plain: tuple[type[Exception], ...] = (JobError, ScheduleError, *plain)

    def watch(self, mail: Mail, start: bool = True) -> None:
        """Begin to watch over the waits, and tell each other the hosts."""
        self.hosts = ["a host not yet known"] * self.size
        self.watchdog = Watchdog(mail, self.who, self.abort, self.leave, self.limit)
        if start:
            self.watchdog.start()
        self.settle(self.exchange(socket.gethostname(), "start-up"))

    def once_per_host(self, function: Callable[[], Value], what: str) -> Value:
        """`function()` on every rank; the others of a host begin when its first has finished."""
        if self.local_rank == 0:
            value = function()
        self.barrier(what)
        return value if self.local_rank == 0 else function()

    def barrier(self, what: str) -> None:
        """Wait until every rank is here."""
        self.gather(torch.zeros(1), what)

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.barrier("the end of the job")
            self.watchdog.stop()
            self.part()
        elif isinstance(error, KeyboardInterrupt):
            self.claim(INTERRUPTED)
            self.leave(INTERRUPTED)
        else:
            if self.rank:
                time.sleep(1)  # an error that all ranks have is told by rank 0
            if isinstance(error, self._plain):
                self.abort(f"{self.who(self.rank)}: {error}", status=MISTAKE)
            cause = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
            details = "".join(traceback.format_exception(kind, error, trace))
            self.abort(f"{self.who(self.rank)}: {cause}", details)

    def who(self, rank: int) -> str:
        """A rank as messages call it."""
        return f"rank {rank} on {self.hosts[rank]}"

    def abort(self, line: str, details: str = "", status: int = 1) -> NoReturn:
        """End every rank of the job with a line that says why."""
        if self.claim(status):
            sys.stderr.write(f"{details}job ended: {line}\n")
        self.leave(status)

    def leave(self, status: int) -> NoReturn:
        """End this process, and with it the job."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.end(status)
        os._exit(status)

    def claim(self, status: int) -> bool:
        """Whether this rank is to say why the job ends: the first that wants to."""
        return True

    def end(self, status: int) -> None:
        """Whatever ends the other ranks."""

    def part(self) -> None:
        """What is left to do when all ranks have come to a good end."""
