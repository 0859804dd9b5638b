"""Push-sum: over graphs where ranks divide what they have, and need not know who sends to them.

A step is explained in `base`.
"""

from typing import NamedTuple

from torch import Tensor, zeros_like

from expograph.algorithms.base import Algorithm, Grad, Mix


class Pushed(NamedTuple):
    """What is pushed, x (R, d), its weights w (R, 1), and momenta m (R, d)."""

    x: Tensor
    w: Tensor
    m: Tensor


def debiased(s: Pushed) -> Tensor:
    """The models z = x / w, (R, d)."""
    return s.x / s.w


def sgp() -> Algorithm:
    """Stochastic gradient push: only columns of W sum to one; a weight travels with the model.

        z_i = x_i / w_i, at which gradients are taken and models evaluated
        m_i <- beta m_i + g_i(z_i)
        x_i <- sum_j W_ij (x_j - lr m_j)
        w_i <- sum_j W_ij w_j, first 1

    The sum of x is kept, and w undoes what unequal rows do to it. Over doubly stochastic W it is
    vanilla DmSGD.
    Ref: Assran et al. 2018, arXiv:1811.10792; Kempe et al. 2003 (push-sum).
    """

    def step(s: Pushed, grad: Grad, mix: Mix, lr: float, beta: float) -> Pushed:
        m = grad(debiased(s)).add(s.m, alpha=beta)
        x, w = mix(s.x.sub(m, alpha=lr), s.w)
        return Pushed(x, w, m)

    def init(x0: Tensor) -> Pushed:
        return Pushed(x0, x0.new_ones(len(x0), 1), zeros_like(x0))

    return Algorithm(step, init, debiased, momentum=True, stochastic="column", over_exact="psgd")
