"""SGD with momentum: parallel SGD, and the decentralized rules by what becomes of the momentum.

It stays with its worker (vanilla), is averaged too (DmSGD), or follows the averaged models
(quasi-global). beta = 0 is the rule without momentum. A step is explained in `base`.
"""

from typing import NamedTuple

from torch import Tensor, zeros_like

from expograph.algorithms.base import Algorithm, Grad, Mix


class Momentum(NamedTuple):
    """All that these rules carry from step to step: models x and momenta m, both (R, d)."""

    x: Tensor
    m: Tensor


def at_rest(x0: Tensor) -> Momentum:
    """Models x0 (R, d) with zero momenta."""
    return Momentum(x=x0, m=zeros_like(x0))


def psgd() -> Algorithm:
    """Parallel SGD with momentum: the gradients are averaged exactly (W = J), one all-reduce.

    m <- beta m + 1/n sum_j g_j
    x <- x - lr m
    """

    def step(s: Momentum, grad: Grad, mix: Mix, lr: float, beta: float) -> Momentum:
        m = mix(grad(s.x)).add(s.m, alpha=beta)
        return Momentum(x=s.x.sub(m, alpha=lr), m=m)

    return Algorithm(step, init=at_rest, momentum=True, exact=True)


def vanilla_dmsgd() -> Algorithm:
    """Decentralized momentum SGD with the momentum kept local.

        m_i <- beta m_i + g_i
        x_i <- sum_j W_ij (x_j - lr m_j)

    Ref: the update of the paper's released code (BlueFog's DistributedAdaptThenCombineOptimizer
    around torch.optim.SGD).
    """

    def step(s: Momentum, grad: Grad, mix: Mix, lr: float, beta: float) -> Momentum:
        m = grad(s.x).add(s.m, alpha=beta)
        return Momentum(x=mix(s.x.sub(m, alpha=lr)), m=m)

    return Algorithm(step, init=at_rest, momentum=True, over_exact="psgd")


def dmsgd() -> Algorithm:
    """DmSGD, the paper's Algorithm 1: models and momenta are both averaged, two vectors a message.

        m_i <- sum_j W_ij (beta m_j + g_j)
        x_i <- sum_j W_ij (x_j - lr (beta m_j + g_j))

    Over W = J it is momentum SGD. The paper's text was not available to us: whether its second
    line has this step's momentum or the one before (`dmsgd_delayed`) is unverified.
    Ref: Yu, Jin & Yang 2019, arXiv:1905.03817, where the momentum is this step's.
    """

    def step(s: Momentum, grad: Grad, mix: Mix, lr: float, beta: float) -> Momentum:
        m = grad(s.x).add(s.m, alpha=beta)
        m, x = mix(m, s.x.sub(m, alpha=lr))
        return Momentum(x=x, m=m)

    return Algorithm(step, init=at_rest, vectors=2, momentum=True, over_exact="psgd")


def dmsgd_delayed() -> Algorithm:
    """DmSGD whose models move by the momentum of the step before: the other reading.

        m_i <- sum_j W_ij (beta m_j + g_j)
        x_i <- sum_j W_ij (x_j - lr m_j), with the m_j before this step

    Stable for lr L < 1 - beta only, where heavy ball is up to 2 (1 + beta).
    Ref: Algorithm 1 of Ying et al. 2021 as first remembered here, from memory.
    """

    def step(s: Momentum, grad: Grad, mix: Mix, lr: float, beta: float) -> Momentum:
        m, x = mix(grad(s.x).add(s.m, alpha=beta), s.x.sub(s.m, alpha=lr))
        return Momentum(x=x, m=m)

    return Algorithm(step, init=at_rest, vectors=2, momentum=True)


def qg_dmsgd() -> Algorithm:
    """Quasi-global momentum: the momentum follows the averaged models.

        x_i^+ = sum_j W_ij (x_j - lr (beta m_j + g_j))
        m_i <- beta m_i + (1 - beta) (x_i - x_i^+) / lr

    Ref: Lin et al. 2021, arXiv:2102.04761 (heavy-ball form).
    """

    def step(s: Momentum, grad: Grad, mix: Mix, lr: float, beta: float) -> Momentum:
        x = mix(s.x.sub(grad(s.x).add(s.m, alpha=beta), alpha=lr))
        return Momentum(x=x, m=((s.x - x) / lr).lerp(s.m, beta))

    return Algorithm(step, init=at_rest, momentum=True)


def decentlam() -> Algorithm:
    """DecentLaM: the momentum of the gradient that DSGD's whole step amounts to.

        g~_i = (x_i - sum_j W_ij (x_j - lr g_j)) / lr
        m_i <- beta m_i + g~_i
        x_i <- x_i - lr m_i

    Its bias, where the data differ, is that of DSGD with the same lr, and no larger by 1 / (1 -
    beta) as vanilla DmSGD's is. Momentum acts on I - W too: where that has complex eigenvalues or
    changes from step to step it diverges, so W must be symmetric and the same at each step.
    Ref: Yuan et al. 2021, arXiv:2104.11981.
    """

    def step(s: Momentum, grad: Grad, mix: Mix, lr: float, beta: float) -> Momentum:
        moved = mix(s.x.sub(grad(s.x), alpha=lr))
        m = ((s.x - moved) / lr).add(s.m, alpha=beta)
        return Momentum(x=s.x.sub(m, alpha=lr), m=m)

    return Algorithm(
        step, init=at_rest, momentum=True, needs=("static", "symmetric"), over_exact="psgd"
    )
