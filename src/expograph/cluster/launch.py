"""What a launcher says in the environment, before MPI or torch.distributed is up."""

import math
import os
import re
from typing import NamedTuple

LIMIT = "EXPOGRAPH_TIMEOUT"  # environment: seconds a rank may wait for the others
DEFAULT_LIMIT = 300.0
MOST = 10.0**9  # seconds: some thirty years


class JobError(RuntimeError):
    """The job cannot be what was asked for; the message is one line for the user."""


class Place(NamedTuple):
    """Where this process stands among the ranks of a torch.distributed job.

    Attributes:
        rank, size: this rank of how many.
        local_size: ranks on this host.
        address, port: where the ranks meet.
        has_store: whether the launcher keeps a store there; rank 0 does otherwise.
        attempt: which start of the ranks it is, by a launcher that starts them again.
    """

    rank: int
    size: int
    local_size: int
    address: str
    port: int
    has_store: bool
    attempt: str


def launched() -> int | None:
    """Number of ranks if a launcher started this process, None if a person did."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"):
        if (size := _number(name)) is not None:
            return size
    return None


def launched_rank() -> int:
    """This process's rank as its launcher says, before MPI is up; 0 without a launcher."""
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"):
        if launched() and (rank := _number(name)) is not None:
            return rank
    return 0


def place_on_host() -> tuple[int, int]:
    """(rank, number of ranks) on this host, as Open MPI or torchrun says; (0, 1) without them."""
    for rank, size in (
        ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ):
        if _number(size):
            return _number(rank) or 0, _number(size) or 1
    return 0, 1


def torch_place() -> Place:
    """This process's place in a torch.distributed job: of torchrun, srun, or a plain environment.

    Slurm says neither address nor port: these are the first host of the step, and a port by the
    job's number.

    Raises:
        JobError: if nothing has launched this process, or does not say where the ranks meet.
    """
    size, rank = launched(), launched_rank()
    if size is None:
        raise JobError(
            "the torch engine needs ranks: launch with torchrun --nproc-per-node N, or srun"
        )
    if not 0 <= rank < size:
        raise JobError(f"the launcher's environment has rank {rank} of {size}")
    address, port = os.environ.get("MASTER_ADDR"), _number("MASTER_PORT")
    if nodes := os.environ.get("SLURM_STEP_NODELIST"):
        address = address or first_host(nodes)
        port = port or 20000 + (_number("SLURM_JOB_ID") or 0) % 20000
    if not address or not port:
        raise JobError("MASTER_ADDR and MASTER_PORT are not set: torchrun sets both")
    return Place(
        rank,
        size,
        place_on_host()[1],
        address,
        port,
        has_store=os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
    )


def first_host(nodes: str) -> str:
    """The first of Slurm's list of hosts.

    >>> first_host("node[03-05,09],other"), first_host("alone")
    ('node03', 'alone')
    """
    found = re.match(r"([^,\[]+)(?:\[(\d+))?", nodes)
    return (found[1] + (found[2] or "")) if found else nodes


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
    if not 0 < limit <= MOST:
        raise JobError(f"{LIMIT}={text}: need a number of seconds above 0, at most {MOST:g}")
    return limit


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
