"""Training in a few lines: a problem, an algorithm and a schedule in, curve and models out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pydantic import ValidationError
from torch import Tensor, nn

from expograph import algorithms, problems
from expograph.algorithms import Algorithm
from expograph.config.problem_settings import KINDS
from expograph.graphs.convert import topology
from expograph.graphs.topology import Topology
from expograph.names import known
from expograph.problems import Problem
from expograph.problems.supervised import Supervised
from expograph.runs.train import Diverged
from expograph.runs.train import train as records_of
from expograph.validation import one_line

__all__ = ["Supervised", "Trained", "train"]


@dataclass(frozen=True)
class Trained:
    """What became of a training.

    Attributes:
        curve: a row a record: step, train_loss (mean over the workers' batches),
            consensus_distance (1/n sum |x_i - x_bar|^2), bytes_sent_mean and bytes_sent_max (since
            the start), train_seconds, lr, and the problem's own metrics where it was evaluated.
        models: (n, d), the workers' models at the last record.
        module: with the averaged model, for problems of a module; else None.
        diverged: the step at which a loss or a model stopped being finite; None if none did.
    """

    curve: pd.DataFrame
    models: Tensor
    module: nn.Module | None = None
    diverged: int | None = None

    @property
    def final(self) -> dict[str, float]:
        """The last record: metric -> value."""
        return {k: v for k, v in self.curve.iloc[-1].items() if not pd.isna(v)}


def train(
    problem: Supervised | Problem | Mapping[str, Any] | str,
    algorithm: Algorithm | str,
    schedule: Any,
    *,
    steps: int,
    lr: float | Callable[[int], float],
    beta: float = 0.0,
    record_every: int | None = None,
    evaluate_every: int | None = None,
    seed: int = 0,
) -> Trained:
    """Train in this process, all n workers vectorised, and return curve and models.

    Args:
        problem: `Supervised`, for a module and tensors of your own; any `problems.Problem`; or
            settings as in a config, {"kind": "logistic", "dim": 20}, or their kind alone.
        algorithm: a name, "dsgd_atc" or with parameters "name(parameter=value)", or an `Algorithm`.
        schedule: a schedule over as many ranks as there are workers, or anything that `topology`
            takes but a name.
        steps: at least 1.
        lr: step size, or step k -> step size.
        beta: momentum, 0 <= beta < 1.
        record_every: steps between the rows of the curve; None for a hundredth of the steps.
        evaluate_every: steps between evaluations of the problem's metrics, a multiple of
            record_every; None for the end only.
        seed: of problems that are given by their settings, and of what the algorithm draws.
    Raises:
        ValueError: at once, in one line, where these do not fit together.

    >>> result = train("least_squares", "dsgd_atc", topology("ring", 4), steps=50, lr=0.05)
    >>> list(result.curve["step"])[-1], result.models.shape, result.diverged
    (50, torch.Size([4, 10]), None)
    """
    schedule = schedule if isinstance(schedule, Topology) else topology(schedule)
    rule = algorithms.build(algorithm, seed) if isinstance(algorithm, str) else algorithm
    parts = _built(problem, schedule.n, seed)
    records = records_of(
        parts,
        rule,
        schedule,
        steps=steps,
        step_size=lr,
        beta=beta,
        record_every=record_every or max(1, steps // 100),
        evaluate_every=evaluate_every,
    )
    rows: list[dict[str, float]] = []
    diverged: int | None = None
    try:
        for record in records:
            rows.append({"step": record.step, **record.values})
    except Diverged as e:
        diverged = e.step
    return Trained(pd.DataFrame(rows), record.x, getattr(parts, "averaged", None), diverged)


def _built(
    problem: Supervised | Problem | Mapping[str, Any] | str, workers: int, seed: int
) -> Problem:
    if isinstance(problem, Supervised):
        return problem.over(workers)
    if not isinstance(problem, str | Mapping):
        return problem
    given = {"kind": problem} if isinstance(problem, str) else dict(problem)
    model = KINDS[known("problem", str(given.get("kind")), KINDS)]
    try:
        settings = model.model_validate(given)
    except ValidationError as e:
        raise ValueError(f"problem: {one_line(e, model)}") from None
    return problems.build(settings, workers, range(workers), seed)
