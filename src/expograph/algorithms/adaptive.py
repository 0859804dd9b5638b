"""Rules whose workers take Adam's steps; beta is Adam's beta1. A step is explained in `base`.

Adam's direction is (m / (1 - beta^t)) / (sqrt(v / (1 - beta2^t)) + eps) after t steps. Weight
decay is the problem's own, a part of the gradient.
"""

from typing import NamedTuple

from torch import Tensor, zeros_like

from expograph.algorithms.base import Algorithm, Grad, Mix
from expograph.algorithms.local import outer_nesterov


def direction(m: Tensor, v: Tensor, t: int, beta: float, beta2: float, eps: float) -> Tensor:
    """Adam's direction from its moments m and v (R, d), bias corrected for t steps."""
    return (m / (1 - beta**t)) / ((v / (1 - beta2**t)).sqrt() + eps)


class Accumulated(NamedTuple):
    """Models x, moments m and v as the cycle began, the sum g of its gradients; steps done."""

    x: Tensor
    m: Tensor
    v: Tensor
    g: Tensor
    steps: int


def accum_adam(cycle: int = 4, beta2: float = 0.999, eps: float = 1e-8) -> Algorithm:
    """Decentralized Adam with accumulation: moments that take in the mean gradient of a cycle once.

        m~_i = beta m_i + (1 - beta) g_i, v~_i = beta2 v_i + (1 - beta2) g_i^2       tentative
        x_i <- sum_j W_ij x_j - lr Adam's direction of (m~_i, v~_i)
        after `cycle` steps: m_i, v_i <- as the tentative ones, from the mean gradient of the cycle

    Its direction is bias corrected for the cycles begun. With cycle = 1 it is decentralized Adam.
    As in `dsgd_awc` the message travels while the gradient is computed.
    Ref: Wang et al. 2024, arXiv:2410.11998; Decent-DP 0.2.3, whose moments these are.
    """

    def step(s: Accumulated, grad: Grad, mix: Mix, lr: float, beta: float) -> Accumulated:
        def moments(g: Tensor) -> tuple[Tensor, Tensor]:
            return g.lerp(s.m, beta), g.square().lerp(s.v, beta2)

        combined = mix.start(s.x)
        g = grad(s.x)
        steps, total = s.steps + 1, s.g + g
        move = direction(*moments(g), s.steps // cycle + 1, beta, beta2, eps)
        x = combined().sub(move, alpha=lr)
        if steps % cycle:
            return Accumulated(x, s.m, s.v, total, steps)
        return Accumulated(x, *moments(total / cycle), zeros_like(total), steps)

    def init(x0: Tensor) -> Accumulated:
        zero = zeros_like(x0)
        return Accumulated(x0, zero, zero, zero, 0)

    return Algorithm(step, init, momentum=True)


class Outer(NamedTuple):
    """What the rules with outer steps carry: arrays (R, d), and numbers.

    Attributes:
        x: models.
        m, v: Adam's moments, of all steps so far.
        anchor: models at the last outer step.
        u: momenta of the outer steps.
        t: steps done.
        steps: of them since the last outer step.
    """

    x: Tensor
    m: Tensor
    v: Tensor
    anchor: Tensor
    u: Tensor
    t: int
    steps: int


def anchored(x0: Tensor) -> Outer:
    """Models x0 (R, d), their own anchors, with zero moments and momenta."""
    zero = zeros_like(x0)
    return Outer(x0, zero, zero, x0, zero, 0, 0)


def stepped(s: Outer, grad: Grad, lr: float, beta: float, beta2: float, eps: float) -> Outer:
    """One step of Adam by each worker alone."""
    g = grad(s.x)
    m, v, t = g.lerp(s.m, beta), g.square().lerp(s.v, beta2), s.t + 1
    x = s.x.sub(direction(m, v, t, beta, beta2, eps), alpha=lr)
    return s._replace(x=x, m=m, v=v, t=t, steps=s.steps + 1)


def diloco(
    every: int = 100,
    outer_lr: float = 0.7,
    outer_beta: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> Algorithm:
    """DiLoCo: Adam by each worker alone, every H = `every` steps an outer Nesterov step.

        D_i = a_i - sum_j W_ij x_j, u_i <- outer_beta u_i + D_i
        x_i, a_i <- a_i - outer_lr (D_i + outer_beta u_i)

    with a_i the models after the outer step before. DiLoCo is over W = J and takes AdamW and H =
    500; over a graph the average of neighbors takes the place of the mean, and outer momentum can
    be unstable there where W is directed or time-varying: `noloco`.
    Ref: Douillard et al. 2023, arXiv:2311.08105, from memory.
    """

    def step(s: Outer, grad: Grad, mix: Mix, lr: float, beta: float) -> Outer:
        s = stepped(s, grad, lr, beta, beta2, eps)
        if s.steps < every:
            return s
        x, u = outer_nesterov(s.anchor, s.u, mix(s.x), outer_lr, outer_beta)
        return s._replace(x=x, anchor=x, u=u, steps=0)

    return Algorithm(step, anchored, momentum=True, every=every)


def noloco(
    every: int = 100,
    outer_lr: float = 0.7,
    outer_beta: float = 0.5,
    pull: float = 1.0,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> Algorithm:
    """NoLoCo: DiLoCo without an all-reduce, its outer step from neighbors; two vectors a message.

        u_i <- outer_beta u_i + outer_lr sum_j W_ij (x_j - a_j) - pull (a_i - sum_j W_ij a_j)
        x_i, a_i <- a_i + u_i

    every H = `every` steps of Adam, with a_i the models after the outer step before. Its graph is
    `random_match`: pairs drawn anew for each outer step.
    Ref: Kolehmainen et al. 2025, arXiv:2506.10911, the formula and the default of `pull` from
    memory.
    """

    def step(s: Outer, grad: Grad, mix: Mix, lr: float, beta: float) -> Outer:
        s = stepped(s, grad, lr, beta, beta2, eps)
        if s.steps < every:
            return s
        moved, near = mix(s.x - s.anchor, s.anchor)
        u = outer_beta * s.u + outer_lr * moved - pull * (s.anchor - near)
        x = s.anchor + u
        return s._replace(x=x, anchor=x, u=u, steps=0)

    return Algorithm(step, anchored, vectors=2, momentum=True, every=every)
