"""Rules by when they average: local steps between messages, exact averages between others.

Momentum of the steps, beta, stays with its worker throughout. A step is explained in `base`.
"""

from typing import NamedTuple

from torch import Tensor, zeros_like

from expograph.algorithms.base import Algorithm, Grad, Mix


class Local(NamedTuple):
    """What these rules carry: arrays (R, d) and a number.

    Attributes:
        x: models.
        m: momenta of the steps.
        anchor: models at the last outer step.
        u: momenta of the outer steps.
        steps: done since the last outer step.
    """

    x: Tensor
    m: Tensor
    anchor: Tensor
    u: Tensor
    steps: int


def anchored(x0: Tensor) -> Local:
    """Models x0 (R, d), their own anchors, with zero momenta."""
    return Local(x0, zeros_like(x0), x0, zeros_like(x0), 0)


def stepped(s: Local, grad: Grad, lr: float, beta: float) -> Local:
    """One step of momentum SGD by each worker alone."""
    m = grad(s.x).add(s.m, alpha=beta)
    return s._replace(x=s.x.sub(m, alpha=lr), m=m, steps=s.steps + 1)


class Counted(NamedTuple):
    """Models x and momenta m, (R, d), and the steps done since the last exact average."""

    x: Tensor
    m: Tensor
    steps: int


def gossip_pga(every: int = 6) -> Algorithm:
    """Gossip-PGA: vanilla DmSGD with an exact average every H = `every` steps.

        m_i <- beta m_i + g_i
        x_i <- sum_j W_ij (x_j - lr m_j), with J in the place of W every H steps

    Ref: Chen et al. 2021, arXiv:2105.09080.
    """

    def step(s: Counted, grad: Grad, mix: Mix, lr: float, beta: float) -> Counted:
        m = grad(s.x).add(s.m, alpha=beta)
        x, steps = s.x.sub(m, alpha=lr), (s.steps + 1) % every
        return Counted(mix(x) if steps else mix.average(x), m, steps)

    def init(x0: Tensor) -> Counted:
        return Counted(x0, zeros_like(x0), 0)

    return Algorithm(step, init, momentum=True, over_exact="psgd")


def local_sgd(every: int = 8, outer_lr: float = 1.0, outer_beta: float = 0.0) -> Algorithm:
    """Local SGD over any graph: no message but every H = `every` steps, then an outer step.

        m_i <- beta m_i + g_i, x_i <- x_i - lr m_i               at each step
        D_i = a_i - sum_j W_ij x_j                                 every H steps
        u_i <- outer_beta u_i + D_i
        x_i, a_i <- a_i - outer_lr (D_i + outer_beta u_i)

    with a_i the models after the outer step before. By default x_i <- sum_j W_ij x_j, which over W
    = J is local SGD; with outer_lr and outer_beta it is the outer Nesterov step of `diloco`.
    Ref: Stich 2018, arXiv:1805.09767; over a graph Wang & Joshi 2018, arXiv:1808.07576.
    """

    def step(s: Local, grad: Grad, mix: Mix, lr: float, beta: float) -> Local:
        s = stepped(s, grad, lr, beta)
        if s.steps < every:
            return s
        x, u = outer_nesterov(s.anchor, s.u, mix(s.x), outer_lr, outer_beta)
        return s._replace(x=x, anchor=x, u=u, steps=0)

    return Algorithm(step, anchored, momentum=True, every=every)


def outer_nesterov(
    anchor: Tensor, u: Tensor, mixed: Tensor, outer_lr: float, outer_beta: float
) -> tuple[Tensor, Tensor]:
    """The outer step of `local_sgd`: new models, which are the anchors, and outer momenta."""
    moved = anchor - mixed
    u = moved.add(u, alpha=outer_beta)
    return anchor.sub(moved.add(u, alpha=outer_beta), alpha=outer_lr), u


def slowmo(every: int = 12, slow_lr: float = 1.0, slow_beta: float = 0.5) -> Algorithm:
    """SlowMo: vanilla DmSGD; every H = `every` steps slow momentum, from the exact average.

        u_i <- slow_beta u_i + (a_i - 1/n sum_j x_j) / lr, with the lr of this step
        x_i, a_i <- a_i - slow_lr lr u_i

    with a_i the models after the slow step before; they are the same for all workers. The H-th
    step sends its gossip and then the average. The base momentum m_i is kept.
    Ref: Wang et al. 2019, arXiv:1910.00643, the formulas from memory.
    """

    def step(s: Local, grad: Grad, mix: Mix, lr: float, beta: float) -> Local:
        s = stepped(s, grad, lr, beta)
        x = mix(s.x)
        if s.steps < every:
            return s._replace(x=x)
        u = ((s.anchor - mix.average(x)) / lr).add(s.u, alpha=slow_beta)
        x = s.anchor.sub(u, alpha=slow_lr * lr)
        return s._replace(x=x, anchor=x, u=u, steps=0)

    return Algorithm(step, anchored, momentum=True)
