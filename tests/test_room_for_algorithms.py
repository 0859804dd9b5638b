"""Rules that the package does not have fit into `Algorithm` and run through `train` as it is.

Each is written twice: as a module of `algorithms` would write it, and as a plain loop over the
workers from its equations. None of them needs a line in the loop, the engines or the checks.
"""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from quadratic import Quadratic
from torch import Tensor, zeros_like

from expograph.algorithms import Algorithm
from expograph.engines.embedded import Embedded
from expograph.graphs.forms import Circulant
from expograph.graphs.topology import Topology, build
from expograph.runs.train import train

STEPS, LR, BETA = 24, 0.1, 0.8

# ---- D2: the last model and gradient -------------------------------------------------------------


class LastTwo(NamedTuple):
    x: Tensor
    last_x: Tensor
    last_move: Tensor  # lr g of the last step


def d2() -> Algorithm:
    """x_i^{k+1} = sum_j W_ij (2 x_j^k - x_j^{k-1} - lr (g_j^k - g_j^{k-1})); Tang et al. 2018."""

    def step(s, grad, mix, lr, beta):
        move = lr * grad(s.x)
        return LastTwo(mix(2 * s.x - s.last_x - move + s.last_move), s.x, move)

    return Algorithm(step, init=lambda x0: LastTwo(x0, x0, zeros_like(x0)))


def d2_loop(gradient, n, x0, W_at):
    path, last = [[x0] * n], None
    for k in range(STEPS):
        W, x = W_at(k), path[-1]
        g = [gradient(i, k, x[i]) for i in range(n)]
        if k == 0:
            half = [x[i] - LR * g[i] for i in range(n)]
        else:
            half = [2 * x[i] - path[-2][i] - LR * (g[i] - last[i]) for i in range(n)]
        path.append([W[i] @ half for i in range(n)])
        last = g
    return path[-1]


# ---- CECA: two models, of which one is evaluated -------------------------------------------------


class Windows(NamedTuple):
    """Averages over the m workers before each (x), and over those and itself (y)."""

    x: Tensor
    y: Tensor
    step: int


def bits(n: int) -> list[int]:
    return [int(bit) for bit in f"{n - 1:b}"]


def ceca(n: int = 1) -> Algorithm:
    """Windows grow from m to 2m + bit, one bit of n - 1 a step, by one vector from one worker:
    after all of them y is the average of n. (After Ding et al. 2023, DSGD-CECA.)
    """

    def step(s, grad, mix, lr, beta):
        place = s.step % len(bits(n))
        m, bit = int("0" + f"{n - 1:b}"[:place], 2), bits(n)[place]
        g = lr * grad(s.y)
        x, y = s.x - g, s.y - g
        heard = mix(y if bit else x)
        if bit:
            x, y = (m * x + (m + 1) * heard) / (2 * m + 1), (y + heard) / 2
        else:
            x, y = (x + heard) / 2, ((m + 1) * y + m * heard) / (2 * m + 1)
        return Windows(x, y, s.step + 1)

    return Algorithm(step, init=lambda x0: Windows(x0, x0, 0), model=lambda s: s.y)


def hearings(n: int) -> Topology:
    """Each step every rank hears the one m + bit before it: a permutation, doubly stochastic."""
    offsets, m = [], 0
    for bit in bits(n):
        offsets.append(m + bit)
        m = 2 * m + bit
    steps = [Circulant(n, {offset: 1.0}) for offset in offsets]
    return Topology("hearings", n, len(steps), lambda k: steps[k % len(steps)])


def ceca_loop(gradient, n, x0, W_at):
    x, y = [x0] * n, [x0] * n
    for k in range(STEPS):
        place = k % len(bits(n))
        m = 0
        for bit in bits(n)[:place]:
            m = 2 * m + bit
        bit, W = bits(n)[place], W_at(k)
        g = [gradient(i, k, y[i]) for i in range(n)]
        x, y = [x[i] - LR * g[i] for i in range(n)], [y[i] - LR * g[i] for i in range(n)]
        heard = [W[i] @ (y if bit else x) for i in range(n)]
        if bit:
            x = [(m * x[i] + (m + 1) * heard[i]) / (2 * m + 1) for i in range(n)]
            y = [(y[i] + heard[i]) / 2 for i in range(n)]
        else:
            y = [((m + 1) * y[i] + m * heard[i]) / (2 * m + 1) for i in range(n)]
            x = [(x[i] + heard[i]) / 2 for i in range(n)]
    return y


# ---- the tests -----------------------------------------------------------------------------------

SKETCHES = {
    "d2": (d2(), d2_loop, build("star", 6)),
    "ceca": (ceca(n=6), ceca_loop, hearings(6)),
}


@pytest.mark.parametrize("name", SKETCHES)
def test_train_equals_a_plain_loop(name):
    algorithm, loop, schedule = SKETCHES[name]
    problem = Quadratic(schedule.n)
    beta = BETA if algorithm.momentum else 0.0
    *_, last = train(problem, algorithm, schedule, steps=STEPS, step_size=LR, beta=beta)
    expected = loop(
        problem.gradient_of, schedule.n, np.ones(problem.dim), lambda k: schedule.at(k).dense()
    )
    np.testing.assert_allclose(last.x.numpy(), np.stack(expected), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", SKETCHES)
def test_what_is_sent_is_what_is_declared(name):
    algorithm, _, schedule = SKETCHES[name]
    problem, engine = Quadratic(schedule.n), Embedded(schedule)
    *_, last = train(problem, algorithm, schedule, engine, steps=STEPS, step_size=LR)
    degrees = [schedule.at(k).out_degrees.max() for k in range(STEPS // algorithm.every)]
    message = 8 * algorithm.vectors * problem.dim
    assert last.values["bytes_sent_max"] == sum(degrees) * message


@pytest.mark.parametrize("name", SKETCHES)
def test_a_step_leaves_its_input_alone(name):
    algorithm, _, schedule = SKETCHES[name]
    engine, state = Embedded(schedule), algorithm.init(torch.rand(6, 5, dtype=torch.float64))
    for k in range(6):
        kept = [value.clone() if isinstance(value, Tensor) else value for value in state]
        new = algorithm.step(state, torch.sin, engine.mixer(k // algorithm.every), LR, BETA)
        for before, after in zip(kept, state, strict=True):
            assert torch.equal(before, after) if isinstance(before, Tensor) else before == after
        state = new


@pytest.mark.parametrize("n", [2, 3, 6, 7, 8, 12])
def test_ceca_averages_exactly_after_the_bits_of_n(n):
    algorithm, schedule = ceca(n=n), hearings(n)
    engine, x0 = Embedded(schedule), torch.randn(n, 5, dtype=torch.float64)
    state = algorithm.init(x0)
    for k in range(schedule.period):
        state = algorithm.step(state, torch.zeros_like, engine.mixer(k), LR, 0.0)
    torch.testing.assert_close(algorithm.model(state), x0.mean(dim=0).expand_as(x0))
