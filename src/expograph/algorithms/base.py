"""What an algorithm declares, and what it is handed.

A step is a pure function of (state, grad, mix, lr, beta) over arrays of R rows, one a worker; it
cannot tell whether they are all n workers of the embedded engine or the one of an MPI rank.

    grad(x)  the stochastic gradients of this step at x (R, d), same shape. Called once a step.
    mix(x)   W(k) x of one array (R, ...); of several arrays a tuple, all in one message. It never
             writes into its arguments. `mix.start(x)` only sends; what it returns, when called,
             waits for W(k) x.

`a.add(b, alpha=c)` is a + c b and `a.sub(b, alpha=c)` is a - c b, without an array for c b;
`a.lerp(b, c)` is (1 - c) a + c b. In the equations i is the worker, W its row of W(k), lr the
step size and beta the momentum. Where a paper scales or names things otherwise, the docstring
says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from torch import Tensor

Grad = Callable[[Tensor], Tensor]
Mixed = Tensor | tuple[Tensor, ...]
Stochastic = Literal["doubly", "row", "column"]
State = Any  # a NamedTuple of the algorithm's own: tensors of R rows, and plain numbers


class Mix:
    """A step's averaging, made by an engine from its `start`: arrays -> (wait: () -> averaged)."""

    def __init__(self, start: Callable[..., Callable[[], Mixed]]) -> None:
        self.start = start

    def __call__(self, *arrays: Tensor) -> Mixed:
        return self.start(*arrays)()


@dataclass(frozen=True)
class Algorithm:
    """An update rule, its state, and what the rest must know of it.

    Attributes:
        step: (state, grad, mix, lr, beta) -> the next state; it writes into none of its arguments.
        init: x0 (R, d), one model repeated -> the state before the first step.
        model: state -> (R, d), the models that are evaluated; its attribute x by default.
        vectors: how many (d,) vectors a worker sends to each of its out-neighbors a message.
        momentum: whether it uses beta.
        exact: whether it is defined for W = J only (its mix is an all-reduce).
        stochastic: what its matrices must be: "doubly", or "row" or "column" where sums of one
            will do in rows or in columns alone.
        every: steps from one message to the next. Step k is handed the mix of W(k // every), so
            that the schedule advances once a message; the rule calls it in the last of `every`.
        over_exact: the algorithm whose models it gives over W = J, where that is another one:
            runs of it are then the reference that averages exactly. None: it is its own.
    """

    step: Callable[[State, Grad, Mix, float, float], State]
    init: Callable[[Tensor], State]
    model: Callable[[State], Tensor] = attrgetter("x")
    vectors: int = 1
    momentum: bool = False
    exact: bool = False
    stochastic: Stochastic = "doubly"
    every: int = 1
    over_exact: str | None = None
