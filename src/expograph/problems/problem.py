"""What `train` asks of a problem."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor


class Problem(Protocol):
    """What n workers minimise; R is the number of workers held here, d the parameters.

    All n are held in the embedded engine, one in an MPI process. A problem knows nothing of
    topologies and algorithms.

    Attributes:
        metrics: every metric that `evaluate` gives -> what it is, in words; tables use them as
            headings.
        workers: n, the number of workers that the data is divided over.
        ranks: the workers held here.
    """

    @property
    def metrics(self) -> Mapping[str, str]: ...
    @property
    def workers(self) -> int: ...
    @property
    def ranks(self) -> Sequence[int]: ...

    def initial(self) -> tuple[Tensor, Tensor]:
        """The common starting model (d,) and its buffers (b,), b = 0 without batch norm."""

    def gradient(self, x: Tensor, buffers: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Losses (R,), stochastic gradients (R, d) and new buffers (R, b) of step k at x (R, d)."""

    def measure(
        self, x: Tensor, buffers: Tensor, mean: Tensor, mean_buffers: Tensor, final: bool
    ) -> Tensor:
        """What `evaluate` needs to know, (R, q): of each model held here, and each rank's share
        of the work that the averaged model (d,) with buffers (b,) makes. `final` asks for more.
        """

    def evaluate(self, mean: Tensor, measured: Tensor, final: bool) -> dict[str, float]:
        """Metrics from the averaged model (d,) and all workers' measures (n, q).

        All of `metrics` when final, some of them otherwise. In a job of many processes only rank
        0 is asked.
        """

    def describe(self) -> dict[str, Any]:
        """Facts for the run's record: sizes of the shards, source of the data and the like."""
