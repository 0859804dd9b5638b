"""What an MPI launcher says in the environment, before MPI itself is up."""

import math
import os

LIMIT = "EXPOGRAPH_TIMEOUT"  # environment: seconds a rank may wait for the others
DEFAULT_LIMIT = 300.0
MOST = 10.0**9  # seconds: some thirty years


class JobError(RuntimeError):
    """The job cannot be what was asked for; the message is one line for the user."""


def launched() -> int | None:
    """Number of ranks if an MPI launcher started this process, None if a person did."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
        if (size := _number(name)) is not None:
            return size
    return None


def launched_rank() -> int:
    """This process's rank as its launcher says, before MPI is up; 0 without a launcher."""
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        if launched() and (rank := _number(name)) is not None:
            return rank
    return 0


def place_on_host() -> tuple[int, int]:
    """(rank, number of ranks) on this host, as Open MPI's launcher says; (0, 1) without it."""
    rank, size = _number("OMPI_COMM_WORLD_LOCAL_RANK"), _number("OMPI_COMM_WORLD_LOCAL_SIZE")
    return rank or 0, size or 1


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
