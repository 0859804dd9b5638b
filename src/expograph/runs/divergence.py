"""Which worker's loss went non-finite first, for the record of a run that diverged."""

from collections import deque
from typing import Any

import torch
from torch import Tensor

from expograph.cluster.group import Group
from expograph.problems import Problem


class Watched:
    """A problem as it is, which keeps the losses of its last steps.

    Attributes:
        problem: the problem itself; everything but `gradient` is its own.
    """

    def __init__(self, problem: Problem, steps: int) -> None:
        """`steps`: after how many the ranks at the latest know of a failure, `agree_every`."""
        self.problem = problem
        self._losses: deque[tuple[int, Tensor]] = deque(maxlen=steps)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def gradient(self, x: Tensor, buffers: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The problem's own; the losses (R,) of step k are kept, and nothing is computed."""
        found = self.problem.gradient(x, buffers, k)
        self._losses.append((k, found[0]))
        return found

    def failed(self) -> tuple[int, list[int]] | None:
        """The first step after which a loss here was not finite, and whose; None if all are."""
        for k, losses in self._losses:
            bad = torch.nonzero(~losses.isfinite()).flatten().tolist()
            if bad:
                return k + 1, [self.problem.ranks[i] for i in bad]
        return None


def describe(problem: Watched, step: int, group: Group | None) -> tuple[str, dict[str, Any]]:
    """The note of a run that diverged at a step, and the same as data; every rank calls it.

    Returns:
        One line, and {"step": ..., "workers": [...]}: those whose losses were not finite, none if
        a model was not although all losses were.
    """
    own = problem.failed()
    every = group.exchange(own, "who diverged") if group else [own]
    found = [one for one in every if one is not None]
    if not found:
        note = f"diverged at step {step}: a worker's model is not finite"
        return note, {"step": step, "workers": []}
    first = min(k for k, _ in found)
    workers = sorted(rank for k, ranks in found if k == first for rank in ranks)
    whose = f"the loss of worker {workers[0]}"
    if len(workers) > 1:
        whose = f"the losses of {len(workers)} workers, as worker {workers[0]}"
    verb = "are" if len(workers) > 1 else "is"
    note = f"diverged at step {first}: {whose}, {verb} not finite"
    return note.replace(", is", " is"), {"step": first, "workers": workers}
