"""A group of ranks over torch.distributed: gloo between processors, NCCL between GPUs.

Launched by torchrun, by Slurm's srun, or by whoever sets RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT. The ranks meet in a TCPStore, through which their watchdogs then talk: gloo itself
waits for ever for a rank that hangs, and cannot say which one.
"""

import json
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, NoReturn

import psutil
import torch
import torch.distributed as dist
from torch import Tensor

from expograph.cluster.job import POLL, Job, Ranks
from expograph.cluster.launch import JobError, Place, torch_place
from expograph.cluster.watchdog import GRACE

START_UP = 30.0  # seconds without a new rank after which those that are there give up
LOOK_EVERY = 0.1
FAREWELL = 5.0  # seconds that rank 0 keeps the store for the others


class _Exchanges(Ranks):
    """What the ranks of a process group do together; `group.Group` says what each method is.

    Attributes:
        processes: the process group that carries tensors of the CPU; None for the default.
        reads_gpu: whether it carries those of GPUs as well.
    """

    processes: dist.ProcessGroup | None = None
    reads_gpu = False

    def gather(self, rows: Tensor, what: str) -> Tensor:
        own = rows.detach().cpu().contiguous()
        every = torch.empty((self.size, *own.shape[1:]), dtype=own.dtype)
        if every.numel():
            self._run(dist.all_gather, list(torch.split(every, 1)), own, what=what)
        return every

    def mean(self, row: Tensor, what: str) -> Tensor:
        total = row.detach().cpu().clone(memory_format=torch.contiguous_format)
        if total.numel():
            self._run(dist.all_reduce, total, what=what)
        return total.div_(self.size).to(row.device)

    def broadcast(self, value: Tensor, what: str) -> Tensor:
        wire = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        if wire.numel():
            self._run(dist.broadcast, wire, self._global(0), what=what)
        return wire.to(value.device)

    def start_sum(self, wire: Tensor) -> list[Any]:
        return [dist.all_reduce(wire, group=self.carrier(wire), async_op=True)]

    def start_messages(
        self, wire: Tensor, destinations: Sequence[int], inbox: Tensor, sources: Sequence[int]
    ) -> list[Any]:
        group = self.carrier(wire)
        received = [
            dist.P2POp(dist.irecv, row, self._global(source), group)
            for row, source in zip(inbox, sources, strict=True)
        ]
        sent = [dist.P2POp(dist.isend, wire, self._global(rank), group) for rank in destinations]
        # together: NCCL would wait for the one before it starts the other
        return dist.batch_isend_irecv(received + sent) if received or sent else []

    def finish(self, requests: Sequence[Any], what: str) -> None:
        try:
            with self.waiting(what):
                for request in requests:
                    request.wait()
        except RuntimeError as e:
            self.lost(what, str(e).strip().splitlines()[0])

    def carrier(self, wire: Tensor) -> dist.ProcessGroup | None:
        """The process group that carries this tensor."""
        return self.processes

    def lost(self, what: str, why: str) -> NoReturn:
        """End, since a message cannot come any more."""
        self.watchdog.lost(what, why)

    def _run(self, collective: Any, *arguments: Any, what: str) -> None:
        try:
            started = [collective(*arguments, group=self.processes, async_op=True)]
        except RuntimeError as e:
            self.lost(what, str(e).strip().splitlines()[0])
        self.finish(started, what)

    def _global(self, rank: int) -> int:
        """The number that torch.distributed has for a rank of this group."""
        return rank if self.processes is None else dist.get_global_rank(self.processes, rank)


class TorchGroup(_Exchanges, Job):
    """All ranks of the job; see `job.Job`."""

    def __init__(self, plain: tuple[type[Exception], ...] = ()) -> None:
        """Meet the other ranks and make the default process group.

        Raises:
            JobError: if the environment does not say where the ranks meet.
        """
        super().__init__(plain)
        place = torch_place()
        self.rank, self.size = place.rank, place.size
        self._mail = _StoreMail(*_meet(place))
        if not dist.is_initialized():
            os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface(place))
            gpus = torch.cuda.device_count() if dist.is_nccl_available() else 0
            self.reads_gpu = 0 < place.local_size <= gpus  # NCCL refuses two ranks on one GPU
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if self.reads_gpu else "gloo",
                store=dist.PrefixStore("torch", self._mail.store),
                rank=self.rank,
                world_size=self.size,
                timeout=timedelta(seconds=self.limit + 4 * GRACE),  # the watchdog is first
            )
        self._subgroups: dict[int, _Subgroup] = {}
        self.watch(self._mail)

    def subgroup(self, size: int) -> "_Subgroup":
        if size not in self._subgroups:
            self._subgroups[size] = _Subgroup(self, size)
        return self._subgroups[size]

    def claim(self, status: int) -> bool:
        return self._mail.claim(status)

    def end(self, status: int) -> None:
        self._mail.part(FAREWELL / 2)

    def part(self) -> None:
        self._mail.part(FAREWELL)
        dist.destroy_process_group()


class UserGroup(_Exchanges):
    """The ranks of a process group that the user's own program has made.

    Nobody watches: a failure raises JobError on the ranks that notice it, at the latest when the
    time that the process group allows is over, and the program decides.
    """

    def __init__(self, processes: dist.ProcessGroup | None = None) -> None:
        """Take a process group; None for the default one.

        Raises:
            JobError: if there is none.
        """
        if not dist.is_initialized():
            raise JobError(
                "torch.distributed has no process group yet: call "
                "torch.distributed.init_process_group() first"
            )
        self.rank, self.size = dist.get_rank(processes), dist.get_world_size(processes)
        self.limit = math.inf
        self._at: tuple[object, ...] = ("the start",)
        self._given = processes
        self.reads_gpu = "nccl" in _backends(processes)
        self.processes = processes
        if "gloo" not in _backends(processes):  # NCCL alone: it carries nothing of the CPU
            ranks = dist.get_process_group_ranks(processes)
            made = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
            self.processes = _joined(made)
        self._subgroups: dict[int, UserGroup] = {}
        self.settle(self.exchange(socket.gethostname(), "the start"))

    def carrier(self, wire: Tensor) -> dist.ProcessGroup | None:
        return self._given if wire.is_cuda else self.processes

    def subgroup(self, size: int) -> "UserGroup":
        if size not in self._subgroups:
            ranks = dist.get_process_group_ranks(self._given)
            every = [ranks[start : start + size] for start in range(0, self.size, size)]
            mine, _ = dist.new_subgroups_by_enumeration(every)
            self._subgroups[size] = UserGroup(_joined(mine))
        return self._subgroups[size]

    def wait(self, done: Callable[[], bool], what: str) -> None:
        while not done():
            time.sleep(POLL)

    def waiting(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def doing(self, *what: object) -> None:
        self._at = what

    def lost(self, what: str, why: str) -> NoReturn:
        at = " ".join(map(str, self._at))
        raise JobError(f"rank {self.rank} of {self.size} failed in {what} at {at}: {why}") from None


class _Subgroup(_Exchanges):
    """Some ranks of a job, in a row; they share its limit and its end."""

    def __init__(self, whole: TorchGroup, size: int) -> None:
        first = whole.rank // size * size
        self.rank, self.size = whole.rank - first, size
        self.watchdog, self.limit, self.reads_gpu = whole.watchdog, whole.limit, whole.reads_gpu
        every = [list(range(start, start + size)) for start in range(0, whole.size, size)]
        mine, _ = dist.new_subgroups_by_enumeration(every)
        self.processes = _joined(mine)
        self.settle(whole.hosts[first : first + size])


class _StoreMail:
    """The watchdog's messages, in the store where the ranks have met."""

    def __init__(self, place: Place, store: dist.Store) -> None:
        self.rank, self.size, self.store = place.rank, place.size, store
        self._read: dict[int, int] = {}  # by tag, how many

    def send(self, message: Any, rank: int, tag: int) -> None:
        number = self._ask("add", f"mail/{tag}/{rank}", 1)
        self._ask("set", f"mail/{tag}/{rank}/{number}", json.dumps([self.rank, message]))

    def received(self, tag: int) -> tuple[int, Any] | None:
        number = self._read.get(tag, 0) + 1
        key = f"mail/{tag}/{self.rank}/{number}"
        if not self._ask("check", [key]):
            return None
        self._read[tag] = number
        sender, message = json.loads(self._ask("get", key))
        return sender, message

    def ended(self) -> int | None:
        return int(self._ask("get", "ended")) if self._ask("check", ["ended"]) else None

    def claim(self, status: int) -> bool:
        """Whether this is the first rank to end the job."""
        try:
            mine = f"{status} by {self.rank}"
            first: bool = self.store.compare_set("claimed", "", mine).decode() == mine
            if first:
                self.store.set("ended", str(status))
            return first
        except RuntimeError:
            return True  # there is nobody left to ask

    def part(self, seconds: float) -> None:
        """Leave; rank 0, which may keep the store, leaves last."""
        deadline = time.monotonic() + seconds
        try:
            gone = self.store.add("gone", 1)
            while self.rank == 0 and gone < self.size and time.monotonic() < deadline:
                time.sleep(LOOK_EVERY)
                gone = self.store.add("gone", 0)
        except RuntimeError:
            pass

    def _ask(self, word: str, *arguments: Any) -> Any:
        try:
            return getattr(self.store, word)(*arguments)
        except RuntimeError as e:
            cause = str(e).strip().splitlines()[0]
            raise JobError(f"the store of rank 0 or of torchrun has gone ({cause})") from None


def _meet(place: Place) -> tuple[Place, dist.Store]:
    """The store in which all ranks have met.

    Raises:
        JobError: if there is no store.
        SystemExit: if some do not come; the lowest rank that is there names them.
    """
    keeps = place.rank == 0 and not place.has_store
    if not keeps:
        _listens(place)
    try:
        server = dist.TCPStore(
            place.address,
            place.port,
            place.size,
            is_master=keeps,
            timeout=timedelta(seconds=START_UP),
            wait_for_workers=False,
        )
    except (RuntimeError, ValueError, OverflowError) as e:
        where = f"{place.address}:{place.port}"
        cause = str(e).strip().splitlines()[0]
        raise JobError(f"rank {place.rank} finds no rank 0 at {where} ({cause})") from None
    store = dist.PrefixStore(f"expograph/{place.attempt}", server)
    store.set(f"here/{place.rank}", socket.gethostname())
    present: set[int] = set()
    changed = time.monotonic()
    while len(present) < place.size:
        before = len(present)
        try:
            present = {r for r in range(place.size) if store.check([f"here/{r}"])}
        except RuntimeError:
            sys.exit(1)  # rank 0 has given up, and has said why
        if len(present) > before:
            changed = time.monotonic()
        if time.monotonic() - changed > START_UP:
            if place.rank == min(present):
                missing = ", ".join(str(r) for r in range(place.size) if r not in present)
                sys.stderr.write(
                    f"job ended: {place.size} ranks have not met: rank {missing} has not come "
                    f"within {START_UP:.0f} s\n"
                )
            sys.exit(1)
        if len(present) < place.size:
            time.sleep(LOOK_EVERY)
    return place, store


def _joined(made: dist.ProcessGroup | int | None) -> dist.ProcessGroup:
    """A new process group that this rank is in; of others torch gives a number."""
    assert made is not None and not isinstance(made, int), "a group without this rank"
    return made


def _backends(processes: dist.ProcessGroup | None) -> str:
    """Names of what carries the messages of a process group."""
    return str(dist.get_backend_config(processes))


def _listens(place: Place) -> None:
    """Wait for the store: a TCPStore that finds none fills the screen.

    Raises:
        JobError: if it does not come.
    """
    deadline = time.monotonic() + START_UP
    while True:
        try:
            socket.create_connection((place.address, place.port), timeout=START_UP).close()
            return
        except OSError as e:
            if time.monotonic() > deadline:
                where = f"{place.address}:{place.port}"
                raise JobError(f"rank {place.rank} finds no rank 0 at {where} ({e})") from None
            time.sleep(LOOK_EVERY)


def _interface(place: Place) -> str:
    """The network interface that leads to rank 0: gloo's own choice follows the host's name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((place.address, place.port))
            own = str(probe.getsockname()[0])
        except OSError:
            own = "127.0.0.1"
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address == own for address in addresses):
            return str(name)
    return "lo"
