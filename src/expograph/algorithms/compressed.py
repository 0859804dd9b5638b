"""Rules that send less than a model a message: fewer bits, fewer coordinates.

A step is explained in `base`.
"""

from typing import NamedTuple

import torch
from torch import Tensor, zeros_like

from expograph.algorithms.base import Algorithm, Grad, Mix
from expograph.algorithms.codes import Code, integers, largest
from expograph.algorithms.momentum import Momentum, at_rest
from expograph.randomness import COORDINATES, generator


class Hatted(NamedTuple):
    """Models x, momenta m, what the others know of x, hat, and sum_j W_ij hat_j, near: (R, d)."""

    x: Tensor
    m: Tensor
    hat: Tensor
    near: Tensor


def choco_int(bits: int = 8, consensus_lr: float = 1.0) -> Algorithm:
    """CHOCO-SGD with differences sent as integers of 8, 4 or 2 bits, and their scale.

    The step is `choco_topk`'s, Q(x) the nearest whole multiples of max |x| / (2^(bits - 1) - 1).
    Ref: Koloskova et al. 2019, arXiv:1902.00340, from memory; their integers are drawn, ours
    nearest.
    """
    return _choco(integers(bits), consensus_lr, vectors=bits / 32)


def choco_topk(fraction: float = 0.1, consensus_lr: float = 0.2) -> Algorithm:
    """CHOCO-SGD with the largest coordinates of differences sent, each with its place.

        m_i <- beta m_i + g_i
        x_i^half = x_i - lr m_i
        q_i = Q(x_i^half - hat_i), which is sent
        hat_i <- hat_i + q_i, by all who hold it
        x_i <- x_i^half + consensus_lr sum_j W_ij (hat_j - hat_i)

    What Q leaves out of a difference is in the next one: error feedback. A worker keeps sum_j W_ij
    hat_j, so W must be the same at each step; hat is first the common model, where the paper has
    0. The smaller `fraction`, the smaller must consensus_lr be.
    Ref: Koloskova et al. 2019, arXiv:1902.00340, from memory; momentum: arXiv:1907.09356.
    """
    return _choco(largest(fraction), consensus_lr, vectors=2 * fraction)


def _choco(code: Code, consensus_lr: float, vectors: float) -> Algorithm:
    def step(s: Hatted, grad: Grad, mix: Mix, lr: float, beta: float) -> Hatted:
        m = grad(s.x).add(s.m, alpha=beta)
        half = s.x.sub(m, alpha=lr)
        wire = code.encode(half - s.hat)
        near = s.near + mix.coded(wire, lambda rows: code.decode(rows, half))
        hat = s.hat + code.decode(wire, half)
        return Hatted(half.add(near - hat, alpha=consensus_lr), m, hat, near)

    def init(x0: Tensor) -> Hatted:
        return Hatted(x0, zeros_like(x0), x0, x0)

    return Algorithm(step, init, vectors=vectors, momentum=True, needs=("static", "flat"))


def sparta(fraction: float = 0.005, *, seed: int) -> Algorithm:
    """SPARTA: each step averages a random part of the coordinates, the same for all workers.

        m_i <- beta m_i + g_i
        x_i <- x_i - lr m_i
        x_i[C] <- sum_j W_ij x_j[C], C of round(fraction d) coordinates, at least one

    C is drawn by the seed and the number of the message, so that no places need be sent.
    Ref: Exo's sparse parameter averaging, in which each coordinate is in C with probability
    `fraction` and W = J; here their number is fixed and W any.
    """

    def step(s: Momentum, grad: Grad, mix: Mix, lr: float, beta: float) -> Momentum:
        m = grad(s.x).add(s.m, alpha=beta)
        x = s.x.sub(m, alpha=lr)
        chosen = coordinates(x.shape[1], fraction, seed, mix.k).to(x.device)
        return Momentum(x.index_copy(1, chosen, mix(x[:, chosen])), m)

    return Algorithm(step, at_rest, vectors=fraction, momentum=True)


def coordinates(d: int, fraction: float, seed: int, k: int) -> Tensor:
    """The coordinates of message k, increasing: round(fraction d) of d, at least one."""
    draws = generator(seed, COORDINATES, k)
    chosen = draws.choice(d, max(1, round(fraction * d)), replace=False, shuffle=False)
    return torch.from_numpy(chosen).sort().values
