"""Decentralized SGD without momentum, by where the averaging stands: after, before or beside.

A step is explained in `base`.
"""

from typing import NamedTuple

from torch import Tensor

from expograph.algorithms.base import Algorithm, Grad, Mix


class Models(NamedTuple):
    """All that these rules carry from step to step: the models x, (R, d)."""

    x: Tensor


def dsgd_atc() -> Algorithm:
    """Decentralized SGD, adapt then combine.

        x_i <- sum_j W_ij (x_j - lr g_j)

    Ref: Chen & Sayed 2012 (ATC diffusion).
    """

    def step(s: Models, grad: Grad, mix: Mix, lr: float, beta: float) -> Models:
        return Models(x=mix(s.x.sub(grad(s.x), alpha=lr)))

    return Algorithm(step, init=Models, over_exact="psgd")


def dsgd_cta() -> Algorithm:
    """Decentralized SGD, combine then adapt, the gradient taken at the combined point.

        y_i = sum_j W_ij x_j
        x_i <- y_i - lr g_i(y_i)

    Over W = J the mean of the models is parallel SGD's, the models themselves are not.
    Ref: Chen & Sayed 2012 (CTA diffusion).
    """

    def step(s: Models, grad: Grad, mix: Mix, lr: float, beta: float) -> Models:
        y = mix(s.x)
        return Models(x=y.sub(grad(y), alpha=lr))

    return Algorithm(step, init=Models)


def dsgd_awc() -> Algorithm:
    """Decentralized SGD, adapt with combine.

        x_i <- sum_j W_ij x_j - lr g_i(x_i)

    The message does not wait for the gradient: it travels meanwhile. Over W = J it is not parallel
    SGD: gradients are taken at models that one step of different data has moved apart.
    Ref: Lian et al. 2017 (D-PSGD); BlueFog's DistributedAdaptWithCombineOptimizer, whose docstring
    calls it CTA.
    """

    def step(s: Models, grad: Grad, mix: Mix, lr: float, beta: float) -> Models:
        combined = mix.start(s.x)
        g = grad(s.x)
        return Models(x=combined().sub(g, alpha=lr))

    return Algorithm(step, init=Models)
