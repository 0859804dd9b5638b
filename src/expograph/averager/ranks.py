"""The ranks that average a model of the user's, by what carries their messages."""

from typing import TYPE_CHECKING, Any

import torch

from expograph import engines
from expograph.averager.row import HALVES
from expograph.cluster.group import Group
from expograph.engines.messages import Messages
from expograph.engines.ranked import Ranked
from expograph.graphs.topology import Topology
from expograph.names import known

if TYPE_CHECKING:
    from expograph.cluster.mpi_group import MpiGroup

BACKENDS = ("torch", "bluefog", "mpi")


def meet(backend: str, group: Any) -> Group:
    """The ranks.

    Args:
        backend: one of `BACKENDS`.
        group: a process group of torch.distributed, for the backend torch; None for the default.
    Raises:
        JobError, ValueError: if there are none.
    """
    known("backend", backend, BACKENDS)
    if backend == "torch":
        from expograph.cluster.torch_group import UserGroup

        return UserGroup(group)
    if group is not None:
        raise ValueError(f"group: is for the backend torch; {backend} has all ranks of the MPI job")
    return _mpi()


def _mpi() -> Group:
    """All ranks of the MPI job; MPI can be brought up once a process."""
    if not _joined:
        import atexit

        from expograph.cluster.mpi_group import MpiGroup

        _joined.append(MpiGroup())
        atexit.register(_joined[0].watchdog.stop)  # before MPI comes down
    return _joined[0]


_joined: list["MpiGroup"] = []


def engine(backend: str, schedule: Topology, group: Group, wire: torch.dtype) -> Ranked:
    """What averages vectors that travel in the type `wire`; by BlueFog all in single precision."""
    made = engines.build(backend, schedule, group)
    assert isinstance(made, Ranked), f"{backend}: all ranks in one process"
    if isinstance(made, Messages) and wire in HALVES:
        made.on_wire = wire
    return made
