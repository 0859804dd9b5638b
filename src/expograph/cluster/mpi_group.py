"""A group of ranks over MPI: waits have a limit, and a failure on one rank ends the job.

Every wait is a poll, so that the interpreter is free for a watching thread (`watchdog`), which
ends the job when a rank has waited longer than the limit.
"""

import atexit
import ctypes
import os
import pickle
import socket
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from expograph.cluster.launch import JobError, launched, place_on_host, time_limit
from expograph.cluster.watchdog import Watchdog, start_up
from expograph.graphs.checks import ScheduleError

POLL = 20e-6  # seconds between two polls of a request: blocking would hold the interpreter
BACK_OFF = 0.01  # share of the time waited so far that is added to it: cores are for computing
MISTAKE, INTERRUPTED = 2, 130  # exit statuses
# Open MPI's put protocol over TCP sends or receives when two ranks exchange long messages, never
# both at once (measured: twice the wire time); its send protocol does both.
FULL_DUPLEX = {"btl_tcp_flags": "send,inplace", "btl_tcp_max_send_size": str(2**20)}

Value = TypeVar("Value")


class _Exchanges:
    """What ranks of a communicator do together; `group.Group` says what each method is."""

    comm: Any
    watchdog: Watchdog

    @property
    def rank(self) -> int:
        return self.comm.rank

    @property
    def size(self) -> int:
        return self.comm.size

    def wait(self, done: Callable[[], bool], what: str) -> None:
        if done():
            return
        start = time.monotonic()
        with self.watchdog.waiting(what):
            while not done():
                time.sleep(POLL + BACK_OFF * (time.monotonic() - start))

    def waiting(self, what: str):
        """Context manager for a call that waits by itself and lets other threads run."""
        return self.watchdog.waiting(what)

    def doing(self, *what: object) -> None:
        self.watchdog.doing(*what)

    def exchange(self, value: Value, what: str) -> list[Value]:
        own = np.frombuffer(pickle.dumps(value), dtype=np.uint8)
        sizes = self.gather(torch.tensor([len(own)]), what).flatten().tolist()
        every = np.empty(sum(sizes), dtype=np.uint8)
        self.wait(self.comm.Iallgatherv(own, (every, sizes)).Test, what)
        pieces = np.split(every, np.cumsum(sizes)[:-1])
        return [pickle.loads(piece.tobytes()) for piece in pieces]

    def gather(self, rows: Tensor, what: str) -> Tensor:
        own = rows.detach().cpu().contiguous()
        every = torch.empty((self.size, *own.shape[1:]), dtype=own.dtype)
        self.wait(self.comm.Iallgather(own.numpy(), every.numpy()).Test, what)
        return every

    def mean(self, row: Tensor, what: str) -> Tensor:
        total = torch.empty(row.shape, dtype=row.dtype)
        own = row.detach().cpu().contiguous()
        self.wait(self.comm.Iallreduce(own.numpy(), total.numpy()).Test, what)
        return total.div_(self.size).to(row.device)

    def broadcast(self, value: Tensor, what: str) -> Tensor:
        wire = value.detach().cpu().contiguous()
        if wire.data_ptr() == value.data_ptr():
            wire = wire.clone()  # the argument stays as it is
        self.wait(self.comm.Ibcast(wire.numpy(), root=0).Test, what)
        return wire.to(value.device)


class MpiGroup(_Exchanges):
    """All ranks of the MPI job. Use as a context manager around all that ranks do.

    See `group.Group`. An error that leaves the context on one rank ends the job on all.
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
        self._plain = (JobError, ScheduleError, *plain)
        self._subgroups: dict[int, _Subgroup] = {}
        with start_up(self.limit):
            self._mpi = _initialise()
            world = self._mpi.COMM_WORLD
            self.comm, questions = world.Dup(), world.Dup()
        self.hosts = ["a host not yet known"] * self.size
        self.watchdog = Watchdog(questions, self._mpi.Status, self.who, self.abort, self.limit)
        if self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE:
            self.watchdog.start()
        self.hosts = self.exchange(socket.gethostname(), "start-up")
        here = [rank for rank, host in enumerate(self.hosts) if host == self.hosts[self.rank]]
        self.local_rank, self.local_size = here.index(self.rank), len(here)

    def subgroup(self, size: int) -> "_Subgroup":
        if size not in self._subgroups:
            with self.waiting("the groups of ranks"):
                comm = self.comm.Split(self.rank // size)
            self._subgroups[size] = _Subgroup(self, comm)
        return self._subgroups[size]

    def once_per_host(self, function: Callable[[], Value], what: str) -> Value:
        """`function()` on every rank; the others of a host begin when its first has finished."""
        if self.local_rank == 0:
            value = function()
        self.wait(self.comm.Ibarrier().Test, what)
        return value if self.local_rank == 0 else function()

    def __enter__(self) -> "MpiGroup":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.wait(self.comm.Ibarrier().Test, "the end of the job")
            self.watchdog.stop()  # MPI comes down at exit, and takes no calls afterwards
        elif isinstance(error, KeyboardInterrupt):
            self._abort(INTERRUPTED)
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
        sys.stderr.write(f"{details}job ended: {line}\n")
        self._abort(status)

    def _abort(self, status: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        self._mpi.COMM_WORLD.Abort(status)
        os._exit(status)  # not reached: Abort does not return


class _Subgroup(_Exchanges):
    """Some ranks of a job, in a row; they share its limit and its end."""

    def __init__(self, whole: MpiGroup, comm: Any) -> None:
        self.comm, self.watchdog, self.limit = comm, whole.watchdog, whole.limit
        first = whole.rank - self.rank
        self.hosts = whole.hosts[first : first + self.size]
        here = [rank for rank, host in enumerate(self.hosts) if host == self.hosts[self.rank]]
        self.local_rank, self.local_size = here.index(self.rank), len(here)
        self._whole = whole

    def subgroup(self, size: int) -> "_Subgroup":
        with self.waiting("the groups of ranks"):
            comm = self.comm.Split(self.rank // size)
        return _Subgroup(self._whole, comm)


def _initialise() -> Any:
    """mpi4py's MPI module, initialised with full thread support.

    MPI_Init_thread is called past mpi4py, whose own call keeps the interpreter locked while it
    waits for the other ranks: no watching thread could run.
    """
    if place_on_host()[1] > len(os.sched_getaffinity(0)):
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
