"""Rules that are exact though the workers' data differ: each knows how its gradient is biased.

DSGD with a constant step size stops near the optimum, not at it, if the local gradients do not
vanish there. These rules carry an estimate of what is left; without gradient noise they reach the
optimum. A step is explained in `base`.
"""

from typing import NamedTuple

from torch import Tensor, zeros_like

from expograph.algorithms.base import Algorithm, Grad, Mix


class Tracked(NamedTuple):
    """Models x, the mixed gradient estimates y and the last gradients g, all (R, d)."""

    x: Tensor
    y: Tensor
    g: Tensor


def gradient_tracking() -> Algorithm:
    """Gradient tracking (DSGT): y_i follows the mean gradient; two vectors a message.

        y_i = sum_j W_ij y_j^- + g_i - g_i^-, with y^- and g^- those of the step before, first 0
        x_i <- sum_j W_ij (x_j - lr y_j)

    The mean of y is the mean gradient, whatever doubly stochastic W(k), directed and time-varying
    ones too. Over W = J it is parallel SGD.
    Ref: Xu et al. 2015, Di Lorenzo & Scutari 2016; Pu & Nedic 2018, arXiv:1805.11454 (stochastic).
    """

    def step(s: Tracked, grad: Grad, mix: Mix, lr: float, beta: float) -> Tracked:
        g = grad(s.x)
        y = s.y + g - s.g
        x, y = mix(s.x.sub(y, alpha=lr), y)
        return Tracked(x, y, g)

    def init(x0: Tensor) -> Tracked:
        return Tracked(x0, zeros_like(x0), zeros_like(x0))

    return Algorithm(step, init, vectors=2, over_exact="psgd")


class Diffused(NamedTuple):
    """Models x, what they were before they were mixed, psi, and momenta m, all (R, d)."""

    x: Tensor
    psi: Tensor
    m: Tensor


def exact_diffusion() -> Algorithm:
    """Exact diffusion, which is D2, and its momentum form: one vector a message.

        m_i <- beta m_i + g_i
        psi_i = x_i - lr m_i
        x_i <- sum_j V_ij (psi_j + x_j - psi_j^-), V = (I + W) / 2, psi^- of the step before

    psi^- is first x. For a constant lr: x^{k+2} = V (2 x^{k+1} - x^k - lr (m^{k+1} - m^k)). D2 has
    W in the place of V, of which it asks that no eigenvalue is below -1/3: none of V is below 0. W
    must be symmetric: over directed graphs it can diverge. The theory is for one W; over
    time-varying symmetric ones every fixed point is still the optimum.
    Ref: Yuan et al. 2017, arXiv:1702.05122; Tang et al. 2018, arXiv:1803.07068 (D2); with momentum
    Hu et al. 2025, arXiv:2501.19082 (EDM), whose gradients we do not scale by 1 - beta.
    """

    def step(s: Diffused, grad: Grad, mix: Mix, lr: float, beta: float) -> Diffused:
        m = grad(s.x).add(s.m, alpha=beta)
        psi = s.x.sub(m, alpha=lr)
        phi = psi + s.x - s.psi
        return Diffused(phi.lerp(mix(phi), 0.5), psi, m)

    def init(x0: Tensor) -> Diffused:
        return Diffused(x0, x0, zeros_like(x0))

    return Algorithm(step, init, momentum=True, needs=("symmetric",))


class Corrected(NamedTuple):
    """Models x, momenta m, their corrections c, all (R, d), and the steps done."""

    x: Tensor
    m: Tensor
    c: Tensor
    steps: int


def momentum_tracking() -> Algorithm:
    """Momentum tracking: m_i - c_i follows the mean momentum; two vectors a message.

        m_i <- beta m_i + g_i
        x_i <- sum_j W_ij x_j - lr (m_i - c_i)
        c_i <- sum_j W_ij (c_j - m_j) + m_i

    with the c before this step in the second line. It starts with one exact average of the first
    gradients, m_i = c_i = (g_i - 1/n sum_j g_j) / (1 - beta). The corrections sum to 0.
    Ref: Takezawa et al. 2022, arXiv:2209.15505.
    """

    def step(s: Corrected, grad: Grad, mix: Mix, lr: float, beta: float) -> Corrected:
        g, m, c = grad(s.x), s.m, s.c
        if s.steps == 0:
            m = c = (g - mix.average(g)) / (1 - beta)
        m = g.add(m, alpha=beta)
        x, mixed = mix(s.x, c - m)
        return Corrected(x.sub(m - c, alpha=lr), m, mixed + m, s.steps + 1)

    def init(x0: Tensor) -> Corrected:
        return Corrected(x0, zeros_like(x0), zeros_like(x0), 0)

    return Algorithm(step, init, vectors=2, momentum=True)
