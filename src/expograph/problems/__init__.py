"""Problems: what the workers minimise, seen through one interface.

A problem is built for some ranks of a run (all of them in the embedded engine, one in an MPI
process) and knows nothing of topologies and algorithms.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from expograph import config
from expograph.config import Run
from expograph.problems.classification import ImageClassification
from expograph.problems.convex import Convex
from expograph.problems.detection import Detection


class Problem(Protocol):
    """What `train` asks of a problem; R is the number of ranks held here, d the parameters."""

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

        In a job of many processes only rank 0 is asked.
        """

    def describe(self) -> dict:
        """Facts for the run's record: sizes of the shards, source of the data and the like."""


def build(run: Run, ranks: Sequence[int]) -> Problem:
    """The run's problem for the given ranks.

    Raises:
        DataUnavailable, ValueError: if the data set cannot be had or divided over the nodes.
    """
    if isinstance(run.problem, config.Detection):
        return Detection(run, ranks)
    if isinstance(run.problem, config.Classification):
        return ImageClassification(run, ranks)
    return Convex(run, ranks)
