"""Decentralized SGD and its momentum variants, each in the lines of its paper.

A step is a pure function of (state, grad, mix, lr, beta) over arrays of shape (workers, d); it
cannot tell whether its rows are all n workers of the embedded engine or the one of an MPI rank.

    grad(x)  the stochastic gradients of this step at x, same shape. Called once a step.
    mix(x)   W(k) x; of several arrays, all of them in one message. It may reuse the memory of
             its argument: hand it a temporary, or a clone of what is needed again.
             `mix.start(x)` only sends; what it returns, when called, waits for W(k) x.

`a.add(b, alpha=c)` is a + c b and `a.sub(b, alpha=c)` is a - c b, without an array for c b;
`a.lerp(b, c)` is (1 - c) a + c b. In the equations i is the worker, W its row of W(k), lr the
step size and beta the momentum.
Where a paper scales or names things otherwise, the docstring says so.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, zeros_like

Grad = Callable[[Tensor], Tensor]
Mixed = Tensor | tuple[Tensor, ...]


class Mix:
    """A step's averaging, made by an engine from its `start`: arrays -> (wait: () -> averaged)."""

    def __init__(self, start: Callable[..., Callable[[], Mixed]]) -> None:
        self.start = start

    def __call__(self, *arrays: Tensor) -> Mixed:
        return self.start(*arrays)()


class State(NamedTuple):
    """All that an algorithm carries from step to step.

    Attributes:
        x: (workers, d) the models.
        m: (workers, d) the momenta; stays zero in algorithms without momentum.
    """

    x: Tensor
    m: Tensor


def init(x0: Tensor) -> State:
    """Models x0 of shape (workers, d), equal on all workers, and zero momenta."""
    return State(x=x0, m=zeros_like(x0))


def psgd(s: State, grad: Grad, mix: Mix, lr: float, beta: float) -> State:
    """Parallel SGD with momentum: the gradients are averaged exactly (W = J), one all-reduce.

    m <- beta m + 1/n sum_j g_j
    x <- x - lr m
    """
    m = mix(grad(s.x)).add(s.m, alpha=beta)
    return State(x=s.x.sub(m, alpha=lr), m=m)


def dsgd_atc(s: State, grad: Grad, mix: Mix, lr: float, beta: float) -> State:
    """Decentralized SGD, adapt then combine: x_i <- sum_j W_ij (x_j - lr g_j). Ignores beta.

    Ref: Chen & Sayed 2012 (ATC diffusion).
    """
    return State(x=mix(s.x.sub(grad(s.x), alpha=lr)), m=s.m)


def dsgd_cta(s: State, grad: Grad, mix: Mix, lr: float, beta: float) -> State:
    """Decentralized SGD, combine then adapt, the gradient taken at the combined point.

        y_i = sum_j W_ij x_j
        x_i <- y_i - lr g_i(y_i)

    Ignores beta. Ref: Chen & Sayed 2012 (CTA diffusion).
    """
    y = mix(s.x.clone())
    return State(x=y.sub(grad(y), alpha=lr), m=s.m)


def dsgd_awc(s: State, grad: Grad, mix: Mix, lr: float, beta: float) -> State:
    """Decentralized SGD, adapt with combine: x_i <- sum_j W_ij x_j - lr g_i(x_i). Ignores beta.

    The message does not wait for the gradient: it travels meanwhile. Ref: Lian et al. 2017
    (D-PSGD); BlueFog's DistributedAdaptWithCombineOptimizer, whose docstring calls it CTA.
    """
    combined = mix.start(s.x.clone())
    g = grad(s.x)
    return State(x=combined().sub(g, alpha=lr), m=s.m)


def vanilla_dmsgd(s: State, grad: Grad, mix: Mix, lr: float, beta: float) -> State:
    """Decentralized momentum SGD with the momentum kept local; one vector a message.

        m_i <- beta m_i + g_i
        x_i <- sum_j W_ij (x_j - lr m_j)

    Ref: the update of the paper's released code (BlueFog's DistributedAdaptThenCombineOptimizer
    around torch.optim.SGD).
    """
    m = grad(s.x).add(s.m, alpha=beta)
    return State(x=mix(s.x.sub(m, alpha=lr)), m=m)


def dmsgd(s: State, grad: Grad, mix: Mix, lr: float, beta: float) -> State:
    """DmSGD, the paper's Algorithm 1: models and momenta are both averaged, two vectors a message.

        m_i <- sum_j W_ij (beta m_j + g_j)
        x_i <- sum_j W_ij (x_j - lr m_j), with the m_j before this step

    The paper's text was not available to us: the lines are Algorithm 1 as remembered, the old
    momentum in the second one is unverified. Ref: Ying et al. 2021; Yu, Jin & Yang 2019.
    """
    m, x = mix(grad(s.x).add(s.m, alpha=beta), s.x.sub(s.m, alpha=lr))
    return State(x=x, m=m)


def qg_dmsgd(s: State, grad: Grad, mix: Mix, lr: float, beta: float) -> State:
    """Quasi-global momentum: the momentum follows the averaged models; one vector a message.

        x_i^+ = sum_j W_ij (x_j - lr (beta m_j + g_j))
        m_i <- beta m_i + (1 - beta) (x_i - x_i^+) / lr

    Ref: Lin et al. 2021, arXiv:2102.04761 (heavy-ball form).
    """
    x = mix(s.x.sub(grad(s.x).add(s.m, alpha=beta), alpha=lr))
    return State(x=x, m=((s.x - x) / lr).lerp(s.m, beta))


class Algorithm(NamedTuple):
    """An update rule and what the rest must know of it.

    Attributes:
        step: one of this module's functions.
        vectors: how many (d,) vectors a rank sends to each of its out-neighbors a step.
        momentum: whether it uses beta.
        exact: whether it is defined for W = J only (its mix is an all-reduce).
    """

    step: Callable[[State, Grad, Mix, float, float], State]
    vectors: int = 1
    momentum: bool = True
    exact: bool = False


ALGORITHMS: dict[str, Algorithm] = {
    "psgd": Algorithm(psgd, exact=True),
    "dsgd_atc": Algorithm(dsgd_atc, momentum=False),
    "dsgd_cta": Algorithm(dsgd_cta, momentum=False),
    "dsgd_awc": Algorithm(dsgd_awc, momentum=False),
    "vanilla_dmsgd": Algorithm(vanilla_dmsgd),
    "dmsgd": Algorithm(dmsgd, vectors=2),
    "qg_dmsgd": Algorithm(qg_dmsgd),
}
