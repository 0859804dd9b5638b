"""A group of ranks: processes that hold one worker each and exchange messages.

What engines with one worker a rank ask for. MPI (`mpi_group`) is one implementation.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

Value = TypeVar("Value")


class Group(Protocol):
    """This process's place among the ranks. Every rank calls the same methods in the same order.

    `what` names the operation in the message that ends the job when a rank waits too long.

    Attributes:
        rank, size: this rank, 0 .. size - 1, of how many.
        local_rank, local_size: the same among the ranks on this host.
        hosts: host name of each rank.
        limit: seconds a rank may wait for the others.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    hosts: list[str]
    limit: float

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Poll until `done()` is true; past the limit the job ends, naming who was waited for."""

    def doing(self, *what: object) -> None:
        """Note what this rank is at, words and numbers, for that message."""

    def exchange(self, value: Value, what: str) -> list[Value]:
        """Every rank's `value`, by rank, on every rank; any object that can be pickled."""

    def gather(self, rows: "Tensor", what: str) -> "Tensor":
        """(1, ...) on each rank -> (size, ...) on every rank, by rank, on the CPU."""

    def mean(self, row: "Tensor", what: str) -> "Tensor":
        """The average over the ranks of a (d,) tensor, on every rank, on the device of `row`."""

    def broadcast(self, value: "Tensor", what: str) -> "Tensor":
        """Rank 0's `value` on every rank, on the device of `value`."""

    def subgroup(self, size: int) -> "Group":
        """This rank's group of `size` ranks in a row: 0 .. size - 1, size .. 2 size - 1, ..."""
