"""A group of ranks over MPI: waits have a limit, and a failure on one rank ends the job.

Every wait is a poll, so that the interpreter is free for a watching thread (`watchdog`), which
ends the job when a rank has waited longer than the limit.
"""

import atexit
import ctypes
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, empty, uint8

from expograph.cluster.job import Job, Ranks
from expograph.cluster.launch import JobError, place_on_host
from expograph.cluster.watchdog import start_up

# Open MPI's put protocol over TCP sends or receives when two ranks exchange long messages, never
# both at once (measured: twice the wire time); its send protocol does both.
FULL_DUPLEX = {"btl_tcp_flags": "send,inplace", "btl_tcp_max_send_size": str(2**20)}


class _Exchanges(Ranks):
    """What ranks of a communicator do together; `group.Group` says what each method is."""

    comm: Any
    reads_gpu = False

    def gather(self, rows: Tensor, what: str) -> Tensor:
        own = rows.detach().cpu().contiguous()
        every = empty((self.size, *own.shape[1:]), dtype=own.dtype)
        self.wait(self.comm.Iallgather(own.numpy(), every.numpy()).Test, what)
        return every

    def mean(self, row: Tensor, what: str) -> Tensor:
        total = empty(row.shape, dtype=row.dtype)
        own = row.detach().cpu().contiguous()
        self.wait(self.comm.Iallreduce(own.numpy(), total.numpy()).Test, what)
        return total.div_(self.size).to(row.device)

    def broadcast(self, value: Tensor, what: str) -> Tensor:
        wire = value.detach().cpu().contiguous()
        if wire.data_ptr() == value.data_ptr():
            wire = wire.clone()  # the argument stays as it is
        self.wait(self.comm.Ibcast(wire.numpy(), root=0).Test, what)
        return wire.to(value.device)

    def start_sum(self, wire: Tensor) -> list[Any]:
        from mpi4py.MPI import IN_PLACE

        return [(self.comm.Iallreduce(IN_PLACE, wire.numpy()), wire)]

    def start_messages(
        self, wire: Tensor, destinations: Sequence[int], inbox: Tensor, sources: Sequence[int]
    ) -> list[Any]:
        # as bytes: MPI has no half precision
        rows, words = inbox.view(uint8).numpy(), wire.view(uint8).numpy()
        received = [(self.comm.Irecv(row, s), row) for row, s in zip(rows, sources, strict=True)]
        return received + [(self.comm.Isend(words, rank), words) for rank in destinations]

    def finish(self, requests: Sequence[Any], what: str) -> None:
        for request, _buffer in requests:  # which a request alone does not keep alive
            self.wait(request.Test, what)


class MpiGroup(_Exchanges, Job):
    """All ranks of the MPI job; see `job.Job`."""

    def __init__(self, plain: tuple[type[Exception], ...] = ()) -> None:
        """Bring MPI up and meet the other ranks.

        Raises:
            JobError: if mpi4py or its MPI library cannot be loaded.
        """
        super().__init__(plain)
        self._subgroups: dict[int, _Subgroup] = {}
        with start_up(self.limit):
            self._mpi = _initialise()
            world = self._mpi.COMM_WORLD
            self.comm, questions = world.Dup(), world.Dup()
            self.rank, self.size = self.comm.rank, self.comm.size
        threads = self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE
        self.watch(_MpiMail(questions, self._mpi.Status), start=threads)

    def subgroup(self, size: int) -> "_Subgroup":
        if size not in self._subgroups:
            with self.waiting("the groups of ranks"):
                comm = self.comm.Split(self.rank // size)
            self._subgroups[size] = _Subgroup(self, comm)
        return self._subgroups[size]

    def end(self, status: int) -> None:
        self._mpi.COMM_WORLD.Abort(status)


class _Subgroup(_Exchanges):
    """Some ranks of a job, in a row; they share its limit and its end."""

    def __init__(self, whole: MpiGroup, comm: Any) -> None:
        self.comm, self.watchdog, self.limit = comm, whole.watchdog, whole.limit
        self.rank, self.size = comm.rank, comm.size
        first = whole.rank - self.rank
        self.settle(whole.hosts[first : first + self.size])
        self._whole = whole

    def subgroup(self, size: int) -> "_Subgroup":
        with self.waiting("the groups of ranks"):
            comm = self.comm.Split(self.rank // size)
        return _Subgroup(self._whole, comm)


class _MpiMail:
    """The watchdog's messages, on a communicator that nothing else uses."""

    def __init__(self, comm: Any, status: Any) -> None:
        self.rank, self.size = comm.rank, comm.size
        self._comm, self._status = comm, status
        self._sent: list[tuple[Any, bytes]] = []  # requests with their buffers, until they are done

    def send(self, message: Any, rank: int, tag: int) -> None:
        words = json.dumps(message).encode()
        self._sent.append((self._comm.Isend(words, rank, tag=tag), words))
        self._sent = [sent for sent in self._sent if not sent[0].Test()]

    def received(self, tag: int) -> tuple[int, Any] | None:
        status = self._status()
        message = self._comm.Improbe(tag=tag, status=status)
        if message is None:
            return None
        words = bytearray(status.Get_count())
        message.Recv(words)
        return status.source, json.loads(words)

    def ended(self) -> None:
        """MPI itself ends the ranks of a job that has ended."""


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
        if "OMPI_COMM_WORLD_SIZE" not in os.environ and Path(sys.prefix, "share/openmpi").exists():
            # no launcher of its own has told Open MPI where its helpers are
            os.environ.setdefault("OPAL_PREFIX", sys.prefix)
        ctypes.CDLL(MPI.__file__).MPI_Init_thread(
            None, None, MPI.THREAD_MULTIPLE, ctypes.byref(ctypes.c_int())
        )
        atexit.register(_finalise, MPI)
    return MPI


def _finalise(mpi: Any) -> None:
    if not mpi.Is_finalized():
        mpi.Finalize()
