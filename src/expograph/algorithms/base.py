"""What an algorithm declares, and what it is handed.

A step is a pure function of (state, grad, mix, lr, beta) over arrays of R rows, one a worker; it
cannot tell whether they are all n workers of the embedded engine or the one of an MPI rank.

    grad(x)  the stochastic gradients of this step at x (R, d), same shape. Called once a step.
    mix(x)   W(k) x of one array (R, ...); of several arrays a tuple, all in one message. It never
             writes into its arguments. `mix.start(x)` only sends; what it returns, when called,
             waits for W(k) x. `mix.average(x)` is J x whatever W(k) is, `mix.coded` W(k) x of what
             travels as bytes of the rule's own (`Mix`). One message ends before the next begins.

`a.add(b, alpha=c)` is a + c b and `a.sub(b, alpha=c)` is a - c b, without an array for c b;
`a.lerp(b, c)` is (1 - c) a + c b. In the equations i is the worker, W its row of W(k), lr the
step size and beta the momentum. Where a paper scales or names things otherwise, the docstring
says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, overload

from torch import Tensor

Grad = Callable[[Tensor], Tensor]
Mixed = Tensor | tuple[Tensor, ...]
Wait = Callable[[], Mixed]
Decode = Callable[[Tensor], Tensor]  # (m, b) bytes, uint8 -> (m, d) what they stand for
Stochastic = Literal["doubly", "row", "column"]
Need = Literal["static", "symmetric", "flat"]
# the algorithm's own: a NamedTuple of tensors of R rows and plain numbers, or one such tensor
State = Any


def _absent(*arrays: Any) -> Any:
    raise NotImplementedError("this mix averages by W(k) alone")


class Mix:
    """A step's averaging, made by an engine from what it can start.

    Attributes:
        k: the number of the message, by which a rule addresses what it draws for it.
    """

    def __init__(
        self,
        start: Callable[..., Wait],
        start_average: Callable[..., Wait] = _absent,
        start_coded: Callable[[Tensor, Decode], Callable[[], Tensor]] = _absent,
        k: int = 0,
    ) -> None:
        """Take the three ways to start a message, and its number.

        Args:
            start: arrays -> (wait: () -> W(k) times each).
            start_average: arrays -> (wait: () -> J times each), J = 11^T / n: an all-reduce.
            start_coded: (wire, decode) -> (wait: () -> W(k) decode(wire)).
            k: the number of the message.
        """
        self._start, self.start_average, self.start_coded = start, start_average, start_coded
        self.k = k

    @overload
    def start(self, x: Tensor, /) -> Callable[[], Tensor]: ...
    @overload
    def start(self, x: Tensor, y: Tensor, /, *more: Tensor) -> Callable[[], tuple[Tensor, ...]]: ...
    def start(self, *arrays: Tensor) -> Callable[[], Mixed]:
        """Send the arrays; what it returns, when called, waits for W(k) times each."""
        return self._start(*arrays)

    @overload
    def __call__(self, x: Tensor, /) -> Tensor: ...
    @overload
    def __call__(self, x: Tensor, y: Tensor, /, *more: Tensor) -> tuple[Tensor, ...]: ...
    def __call__(self, *arrays: Tensor) -> Mixed:
        return self._start(*arrays)()

    @overload
    def average(self, x: Tensor, /) -> Tensor: ...
    @overload
    def average(self, x: Tensor, y: Tensor, /, *more: Tensor) -> tuple[Tensor, ...]: ...
    def average(self, *arrays: Tensor) -> Mixed:
        """The exact average of all workers' rows, in each of them."""
        return self.start_average(*arrays)()

    def coded(self, wire: Tensor, decode: Decode) -> Tensor:
        """W(k) decode(wire): the bytes (R, b), uint8, are what travels and what is counted."""
        return self.start_coded(wire, decode)()

    def numbered(self, k: int) -> "Mix":
        """The same, of message k."""
        return Mix(self._start, self.start_average, self.start_coded, k)


@dataclass(frozen=True)
class Algorithm:
    """An update rule, its state, and what the rest must know of it.

    Attributes:
        step: (state, grad, mix, lr, beta) -> the next state; it writes into none of its arguments.
        init: x0 (R, d), one model repeated -> the state before the first step.
        model: state -> (R, d), the models that are evaluated; its attribute x by default.
        vectors: how many (d,) vectors a worker sends to each of its out-neighbors a message; less
            than one where it sends a part of one, or bytes that say less.
        momentum: whether it uses beta.
        exact: whether it is defined for W = J only (its mix is an all-reduce).
        stochastic: what its matrices must be: "doubly", or "row" or "column" where sums of one
            will do in rows or in columns alone.
        needs: what else they must be: "static", the same at each step; "symmetric"; "flat",
            ranks that send to ranks, not servers of several ranks or a library of all-reduces.
        every: steps from one message to the next. Step k is handed the mix of W(k // every), so
            that the schedule advances once a message; the rule calls it in the last of `every`.
        over_exact: the algorithm whose models it gives over W = J, where that is another one:
            runs of it are then the reference that averages exactly. None: it is its own.
    """

    step: Callable[[State, Grad, Mix, float, float], State]
    init: Callable[[Tensor], State]
    model: Callable[[State], Tensor] = attrgetter("x")
    vectors: float = 1
    momentum: bool = False
    exact: bool = False
    stochastic: Stochastic = "doubly"
    needs: tuple[Need, ...] = ()
    every: int = 1
    over_exact: str | None = None
