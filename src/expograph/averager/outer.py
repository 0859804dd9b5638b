"""An outer step after the averaging, as DiLoCo's and SlowMo's: by any optimizer of torch."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

MakeOptimizer = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


class Outer:
    """What the averaged model has moved by since the last outer step is taken for a gradient.

        d = a - (the average of the local models)
        a <- a - (what the outer optimizer makes of d),  and every local model becomes a

    SGD with lr = 1 and no momentum gives the average itself. Ref: Douillard et al. 2023 (DiLoCo);
    over a graph instead of an exact average, each rank has an `a` of its own.
    """

    def __init__(self, parameters: Sequence[Tensor], make: MakeOptimizer) -> None:
        self.parameters = list(parameters)
        self.anchors = [p.detach().float().clone() for p in self.parameters]
        self.optimizer = make(self.anchors)

    @torch.no_grad()
    def step(self) -> None:
        """The parameters hold the average; they become the new anchors."""
        for anchor, parameter in zip(self.anchors, self.parameters, strict=True):
            anchor.grad = anchor - parameter
        self.optimizer.step()
        torch._foreach_copy_(self.parameters, self.anchors)

    def restart(self) -> None:
        """The parameters are new: they are the anchors."""
        for anchor, parameter in zip(self.anchors, self.parameters, strict=True):
            anchor.copy_(parameter.detach())

    def state_dict(self) -> dict[str, Any]:
        return {"anchors": self.anchors, "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for anchor, saved in zip(self.anchors, state["anchors"], strict=True):
            anchor.copy_(saved)
        self.optimizer.load_state_dict(state["optimizer"])
