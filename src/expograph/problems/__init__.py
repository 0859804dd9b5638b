"""Problems by kind: what the workers minimise, seen through one interface, `problem.Problem`."""

from collections.abc import Callable, Sequence

from expograph.config import Classification, LeastSquares, Logistic, Own
from expograph.config import Detection as DetectionSettings
from expograph.names import known
from expograph.problems.classification import ImageClassification
from expograph.problems.convex import Convex
from expograph.problems.detection import Detection
from expograph.problems.own import divided
from expograph.problems.problem import Problem

__all__ = ["PROBLEMS", "Problem", "build"]

Settings = Logistic | LeastSquares | Classification | DetectionSettings | Own

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "logistic": Convex,
    "least_squares": Convex,
    "classification": ImageClassification,
    "detection": Detection,
    "own": divided,
}


def build(
    settings: Settings, workers: int, ranks: Sequence[int], seed: int, device: str = "cpu"
) -> Problem:
    """The problem of `settings.kind`.

    Args:
        settings: the problem's own, as in a config.
        workers: how many the data is divided over.
        ranks: those of them that are held here.
        seed: of the data made or divided, of the initial model, batches and noise.
        device: where tensors live, "cpu" or "cuda".
    Raises:
        DataUnavailable, ValueError: if the data set cannot be had or divided over the workers.
    """
    problem = PROBLEMS[known("problem", settings.kind, PROBLEMS)]
    return problem(settings, workers, ranks, seed, device)
