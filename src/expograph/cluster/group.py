"""A group of ranks: processes that hold one worker each and exchange messages.

What engines with one worker a rank ask for; over MPI (`mpi_group`) or torch.distributed
(`torch_group`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

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
        reads_gpu: whether messages are read from a GPU's memory where they lie.
    """

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def local_rank(self) -> int: ...
    @property
    def local_size(self) -> int: ...
    @property
    def hosts(self) -> list[str]: ...
    @property
    def limit(self) -> float: ...
    @property
    def reads_gpu(self) -> bool: ...

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Poll until `done()` is true; past the limit the job ends, naming who was waited for."""

    def doing(self, *what: object) -> None:
        """Note what this rank is at, words and numbers, for that message."""

    def exchange(self, value: Value, what: str) -> list[Value]:
        """Every rank's `value`, by rank, on every rank.

        It travels as JSON: numbers, text, None, lists, and dicts with text for keys; tuples arrive
        as lists.
        """

    def gather(self, rows: "Tensor", what: str) -> "Tensor":
        """(1, ...) on each rank -> (size, ...) on every rank, by rank, on the CPU."""

    def mean(self, row: "Tensor", what: str) -> "Tensor":
        """The average over the ranks of a (d,) tensor, on every rank, on the device of `row`."""

    def broadcast(self, value: "Tensor", what: str) -> "Tensor":
        """Rank 0's `value` on every rank, on the device of `value`."""

    def subgroup(self, size: int) -> "Group":
        """This rank's group of `size` ranks in a row: 0 .. size - 1, size .. 2 size - 1, ..."""

    def start_sum(self, wire: "Tensor") -> list[Any]:
        """Begin to add the ranks' (d,) `wire`; the sum is there once the requests are finished."""

    def start_messages(
        self, wire: "Tensor", destinations: Sequence[int], inbox: "Tensor", sources: Sequence[int]
    ) -> list[Any]:
        """Begin to send `wire` (d,) to some ranks and to fill `inbox` (sources, d) from others.

        Both must stay as they are until the requests are finished, which keep them alive.
        """

    def finish(self, requests: Sequence[Any], what: str) -> None:
        """Wait until these have ended, at most the limit."""
