"""The MPI job that this process is a rank of: it comes together, waits with a limit, ends as one.

MPI itself waits for ever: for a rank that never starts, for one that hangs, for one that raised.
Here every wait is a poll, and a watching thread ends the job when a rank has waited longer than
the limit, after a roll call that finds out for whom. A rank that raises takes the job with it.
"""

import atexit
import ctypes
import math
import os
import pickle
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

LIMIT = "EXPOGRAPH_TIMEOUT"  # environment: seconds a rank may wait for the others
DEFAULT_LIMIT = 300.0
POLL = 20e-6  # seconds between two looks at a request: blocking would hold the interpreter
LATE = 0.01  # of the time waited so far, the looks grow rarer: cores are for those who compute
GRACE = 5.0  # seconds that a roll call waits for answers
MISTAKE, INTERRUPTED = 2, 130  # exit statuses
# Open MPI's put protocol over TCP sends or receives when two ranks exchange long messages, never
# both at once (measured: twice the wire time); its send protocol does both.
FULL_DUPLEX = {"btl_tcp_flags": "send,inplace", "btl_tcp_max_send_size": str(2**20)}

Value = TypeVar("Value")


class JobError(RuntimeError):
    """The job cannot be what was asked for; the message is one line for the user."""


def launched() -> int | None:
    """Number of ranks if an MPI launcher started this process, None if a person did."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def launched_rank() -> int:
    """This process's rank as its launcher says, before MPI is up; 0 without a launcher."""
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        if launched() and os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def time_limit() -> float:
    """Seconds a rank may wait, from the environment.

    Raises:
        JobError: if the variable is not a positive number.
    """
    text = os.environ.get(LIMIT, str(DEFAULT_LIMIT))
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not limit > 0:
        raise JobError(f"{LIMIT}={text}: need a number of seconds above 0")
    return limit


class Job:
    """This process's place in the MPI job. Use as a context manager around all that ranks do.

    Attributes:
        rank, size: this rank of how many.
        local_rank, local_size: the same among the ranks on this host.
        hosts: host name of each rank.
        limit: seconds a rank may wait for the others.
    """

    def __init__(self, plain: tuple[type[Exception], ...] = ()) -> None:
        """Bring MPI up and meet the other ranks.

        Args:
            plain: errors that are the user's and say it all in one line, as JobErrors do; others
                are shown with their traceback.
        Raises:
            JobError: if mpi4py or its MPI library cannot be loaded.
        """
        self.limit = time_limit()
        self._plain = (JobError, *plain)
        self._waiting: tuple[str, float] | None = None
        self._doing: tuple[object, ...] = ("start-up",)
        self._said: list[Any] = []
        self._groups: dict[int, Any] = {}
        with _start_watch(self.limit):
            self._mpi = _initialise()
            world = self._mpi.COMM_WORLD
            self.comm, self._roll = world.Dup(), world.Dup()
        self.rank, self.size = self.comm.rank, self.comm.size
        self.hosts = ["a host not yet known"] * self.size
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        if self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE:
            self._watching.start()
        self.hosts = self.exchange(socket.gethostname(), "start-up")
        here = [rank for rank, host in enumerate(self.hosts) if host == self.hosts[self.rank]]
        self.local_rank, self.local_size = here.index(self.rank), len(here)

    # ---- what ranks do together ----

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Return when `done()` says so; `what` is what the roll call will name."""
        if done():
            return
        start = time.monotonic()
        self._waiting = what, start
        while not done():
            time.sleep(POLL + LATE * (time.monotonic() - start))
        self._waiting = None

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """For a call that waits by itself and lets other threads run."""
        self._waiting = what, time.monotonic()
        yield
        self._waiting = None

    def doing(self, *what: object) -> None:
        """Note what this rank is at, words and numbers, for the roll call."""
        self._doing = what

    def exchange(self, value: Value, what: str) -> list[Value]:
        """Every rank's `value`, by rank, on every rank; values are pickled."""
        own = np.frombuffer(pickle.dumps(value), dtype=np.uint8)
        sizes = self.gather(torch.tensor([len(own)]), what).flatten().tolist()
        every = np.empty(sum(sizes), dtype=np.uint8)
        self.wait(self.comm.Iallgatherv(own, (every, sizes)).Test, what)
        pieces = np.split(every, np.cumsum(sizes)[:-1])
        return [pickle.loads(piece.tobytes()) for piece in pieces]

    def gather(self, rows: Tensor, what: str) -> Tensor:
        """(1, ...) on each rank -> (n, ...) on every rank, by rank, on the CPU."""
        own = rows.detach().cpu().contiguous()
        every = torch.empty((self.size, *own.shape[1:]), dtype=own.dtype)
        self.wait(self.comm.Iallgather(own.numpy(), every.numpy()).Test, what)
        return every

    def mean(self, row: Tensor, what: str) -> Tensor:
        """The average over the ranks of a (d,) tensor, on every rank, where `row` is."""
        total = torch.empty(row.shape, dtype=row.dtype)
        own = row.detach().cpu().contiguous()
        self.wait(self.comm.Iallreduce(own.numpy(), total.numpy()).Test, what)
        return total.div_(self.size).to(row.device)

    def broadcast(self, value: Tensor, what: str) -> Tensor:
        """Rank 0's `value` on every rank, where `value` is."""
        wire = value.detach().cpu().contiguous()
        self.wait(self.comm.Ibcast(wire.numpy(), root=0).Test, what)
        return wire.to(value.device)

    def group(self, size: int) -> Any:
        """The communicator of this rank's group of `size` ranks in a row; every rank asks."""
        if size not in self._groups:
            with self.waiting("the groups of ranks"):
                self._groups[size] = self.comm.Split(self.rank // size)
        return self._groups[size]

    def once_per_host(self, function: Callable[[], Value], what: str) -> Value:
        """`function()` on every rank; the others of a host begin when its first has finished."""
        if self.local_rank == 0:
            value = function()
        self.wait(self.comm.Ibarrier().Test, what)
        return value if self.local_rank == 0 else function()

    # ---- ending as one ----

    def __enter__(self) -> "Job":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.wait(self.comm.Ibarrier().Test, "the end of the job")
            self._over.set()  # MPI comes down at exit, and takes no calls afterwards
            if self._watching.is_alive():
                self._watching.join()
        elif isinstance(error, KeyboardInterrupt):
            self._abort(INTERRUPTED)
        else:
            if self.rank:
                time.sleep(1)  # what all ranks meet, rank 0 tells
            if isinstance(error, self._plain):
                self.abort(f"{self.who(self.rank)}: {error}", status=MISTAKE)
            cause = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
            details = "".join(traceback.format_exception(kind, error, trace))
            self.abort(f"{self.who(self.rank)}: {cause}", details)

    def who(self, rank: int) -> str:
        """A rank as it is called in messages."""
        return f"rank {rank} on {self.hosts[rank]}"

    def abort(self, line: str, details: str = "", status: int = 1) -> NoReturn:
        """End every rank of the job with a line that says why."""
        sys.stderr.write(f"{details}job ended: {line}\n")
        self._abort(status)

    def _abort(self, status: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        self._mpi.COMM_WORLD.Abort(status)
        os._exit(status)  # not reached: Abort does not return

    # ---- the watching thread ----

    def _watch(self) -> None:
        """Answer the roll calls of others; call the roll when this rank has waited too long."""
        while not self._over.wait(0.25):
            self._answer()
            waiting = self._waiting
            if waiting and time.monotonic() - waiting[1] > self.limit:
                self._call_the_roll(waiting[0])

    def _answer(self) -> set[int]:
        """Answer the calls that have come; the ranks that called."""
        callers = set()
        while message := self._roll.improbe(tag=_CALL):
            status = self._mpi.Status()
            message.recv(status)
            callers.add(status.source)
            what = self._waiting[0] if self._waiting else None
            self._say((what, self._at()), status.source, _ANSWER)
        return callers

    def _at(self) -> str:
        return " ".join(map(str, self._doing))

    def _say(self, message: Any, rank: int, tag: int) -> None:
        words = pickle.dumps(message)  # kept as long as it is on its way
        self._said.append((self._roll.Isend(words, rank, tag=tag), words))
        self._said = [said for said in self._said if not said[0].Test()]

    def _call_the_roll(self, what: str) -> None:
        others = set(range(self.size)) - {self.rank}
        for rank in others:
            self._say(None, rank, _CALL)
        answers: dict[int, tuple[str | None, str]] = {}
        callers: set[int] = set()
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and len(answers) < len(others):
            callers |= self._answer()
            status = self._mpi.Status()
            while message := self._roll.improbe(tag=_ANSWER):
                answer = message.recv(status)
                answers[status.source] = answer
            time.sleep(0.02)
        if callers and min(callers) < self.rank:
            time.sleep(2 * GRACE)  # one line is enough: the lowest rank that waits writes it
        silent = sorted(others - answers.keys())
        busy = [rank for rank in sorted(answers) if answers[rank][0] is None]
        if silent:
            missing = f"no answer from {', '.join(map(self.who, silent))}"
        elif busy:
            missing = ", ".join(f"{self.who(r)} is still at {answers[r][1]}" for r in busy)
        else:
            missing = "all wait: " + ", ".join(
                f"{self.who(r)} for {answers[r][0]} at {answers[r][1]}" for r in sorted(answers)
            )
        own = f"{self.who(self.rank)} has waited {self.limit:.0f} s for {what} at {self._at()}"
        self.abort(f"{own}; {missing} ({LIMIT} sets the limit)")


_CALL, _ANSWER = 1, 2  # message tags of the roll call


def _initialise() -> Any:
    """mpi4py's MPI module, initialised with full thread support.

    MPI_Init_thread is called past mpi4py, whose own call keeps the interpreter locked while it
    waits for the other ranks: no watching thread could run.
    """
    cores = len(os.sched_getaffinity(0))
    if int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1")) > cores:
        os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    for name, value in FULL_DUPLEX.items():
        os.environ.setdefault(f"OMPI_MCA_{name}", value)
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as e:
        raise JobError(f"mpi4py does not load ({e}): `make cluster-env`") from None
    if not MPI.Is_initialized():
        if not launched():  # a job of one, which Open MPI starts with helpers from its own folder
            os.environ.setdefault("OPAL_PREFIX", sys.prefix)
        ctypes.CDLL(MPI.__file__).MPI_Init_thread(
            None, None, MPI.THREAD_MULTIPLE, ctypes.byref(ctypes.c_int())
        )
        atexit.register(_finalise, MPI)
    return MPI


def _finalise(mpi: Any) -> None:
    if not mpi.Is_finalized():
        mpi.Finalize()


@contextmanager
def _start_watch(limit: float) -> Iterator[None]:
    """End this process if the ranks have not met within `limit` seconds.

    MPI has no messages before it is up, so ranks sign in with a file in a folder that the
    launcher keeps for the job on each host; each host tells which of its own ranks are missing.
    """
    rank, size = launched_rank(), launched() or 1
    local_rank = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
    local_size = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
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
