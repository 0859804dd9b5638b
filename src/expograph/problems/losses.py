"""The losses of the synthetic problems: labels, values, gradients and Hessians.

Worker i holds m samples: features a ~ N(0, I) and labels b that its own true weights w_i give.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from expograph.config import LeastSquares, Logistic


class Loss(NamedTuple):
    """f_i as functions of the samples, over R workers at once.

    Attributes:
        labels: a.w_i (m,) of one worker and a generator -> labels b (m,).
        value_and_gradient: x (R, d), a (R, m, d), b (R, m) -> f_i(x_i) (R,), gradients (R, d).
        hessian: x (d,), a (N, d) of all N samples -> the Hessian (d, d) of their mean loss.
    """

    labels: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    value_and_gradient: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    hessian: Callable[[Tensor, Tensor], Tensor]


def logistic(settings: Logistic) -> Loss:
    """f_i(x) = 1/m sum log(1 + exp(-b a.x)) + l2/2 |x|^2; b = 1 w.p. 1/(1 + e^-a.w_i), else -1."""
    l2 = settings.l2

    def labels(scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        probability = 1 / (1 + np.exp(-scores))
        return np.where(rng.random(len(scores)) < probability, 1.0, -1.0)

    def value_and_gradient(x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        margins = b * _scores(x, a)
        values = softplus(-margins).mean(dim=1) + l2 / 2 * x.square().sum(dim=1)
        slopes = -b * torch.sigmoid(-margins)
        return values, _mean_of(slopes, a) + l2 * x

    def hessian(x: Tensor, a: Tensor) -> Tensor:
        p = torch.sigmoid(a @ x)
        return (a.T * (p * (1 - p))) @ a / len(a) + l2 * torch.eye(len(x)).to(x)

    return Loss(labels, value_and_gradient, hessian)


def least_squares(settings: LeastSquares) -> Loss:
    """f_i(x) = 1/2m sum (a.x - b)^2; b = a.w_i + label_noise N(0, 1)."""

    def labels(scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return scores + settings.label_noise * rng.standard_normal(len(scores))

    def value_and_gradient(x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        residuals = _scores(x, a) - b
        return residuals.square().mean(dim=1) / 2, _mean_of(residuals, a)

    def hessian(x: Tensor, a: Tensor) -> Tensor:
        return a.T @ a / len(a)

    return Loss(labels, value_and_gradient, hessian)


def _scores(x: Tensor, a: Tensor) -> Tensor:
    """a.x of every sample: x (R, d), a (R, m, d) -> (R, m)."""
    return torch.bmm(a, x.unsqueeze(2)).squeeze(2)


def _mean_of(slopes: Tensor, a: Tensor) -> Tensor:
    """1/m sum over the samples of slope * a: slopes (R, m), a (R, m, d) -> (R, d)."""
    return torch.bmm(slopes.unsqueeze(1), a).squeeze(1) / a.shape[1]


LOSSES: dict[str, Callable[..., Loss]] = {f.__name__: f for f in (logistic, least_squares)}
