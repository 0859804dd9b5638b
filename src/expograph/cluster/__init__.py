"""Processes that work together: groups of ranks, the virtual cluster, what a machine lacks."""

from typing import TYPE_CHECKING, Any

from expograph.names import resolve

if TYPE_CHECKING:
    from expograph.cluster.job import Job

JOBS = {  # what carries the messages -> "module:class", imported when it is asked for
    "mpi": "expograph.cluster.mpi_group:MpiGroup",
    "torch": "expograph.cluster.torch_group:TorchGroup",
}


def join(carrier: str, **options: Any) -> "Job":
    """This process's job, all of whose ranks call this: a context manager (`job.Job`).

    Raises:
        JobError: if the carrier's library cannot be loaded, or nothing has launched the ranks.
    """
    job: Job = resolve(JOBS[carrier])(**options)
    return job
