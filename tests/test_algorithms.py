"""Update rules against a plain loop over workers, their limits, and torch.optim.SGD."""

import copy
import dataclasses
import re

import numpy as np
import pytest
import torch

from expograph.algorithms import ALGORITHMS, Mix
from expograph.algorithms import build as rule_of
from expograph.engines.embedded import Embedded
from expograph.graphs.topology import build, names

N, D, STEPS, LR, BETA = 6, 5, 12, 0.1, 0.9
ALGORITHMS = {name: algorithms.build(name) for name in algorithms.ALGORITHMS}


def target(i: int, k: int) -> np.ndarray:
    return np.random.default_rng([i, k]).standard_normal(D)


def gradient(i: int, k: int, x: np.ndarray) -> np.ndarray:
    """Of worker i at step k: a curved loss, different for every worker and step."""
    return np.tanh(x - target(i, k)) + 0.1 * x


def loop(name: str, topology, lr: float, beta: float) -> np.ndarray:
    """Every rule once more, worker by worker, from its equations."""
    n = topology.n
    x = [np.ones(D) for _ in range(n)]
    m = [np.zeros(D) for _ in range(n)]
    for k in range(STEPS):
        W = topology.at(k).dense()
        avg = lambda v, i, W=W: sum(W[i, j] * v[j] for j in range(n))  # noqa: E731
        g = [gradient(i, k, x[i]) for i in range(n)]
        if name == "psgd":
            mean = sum(g) / n
            m = [beta * m[i] + mean for i in range(n)]
            x = [x[i] - lr * m[i] for i in range(n)]
        elif name == "dsgd_atc":
            half = [x[i] - lr * g[i] for i in range(n)]
            x = [avg(half, i) for i in range(n)]
        elif name == "dsgd_awc":
            x = [avg(x, i) - lr * g[i] for i in range(n)]
        elif name == "dsgd_cta":
            y = [avg(x, i) for i in range(n)]
            x = [y[i] - lr * gradient(i, k, y[i]) for i in range(n)]
        elif name == "vanilla_dmsgd":
            m = [beta * m[i] + g[i] for i in range(n)]
            half = [x[i] - lr * m[i] for i in range(n)]
            x = [avg(half, i) for i in range(n)]
        elif name == "dmsgd":
            half = [x[i] - lr * m[i] for i in range(n)]
            push = [beta * m[i] + g[i] for i in range(n)]
            x, m = [avg(half, i) for i in range(n)], [avg(push, i) for i in range(n)]
        elif name == "qg_dmsgd":
            half = [x[i] - lr * (beta * m[i] + g[i]) for i in range(n)]
            new = [avg(half, i) for i in range(n)]
            m = [beta * m[i] + (1 - beta) * (x[i] - new[i]) / lr for i in range(n)]
            x = new
        else:
            raise AssertionError(f"{name} has no twin in this test")
    return np.stack(x)


def vectorised(name: str, topology, lr: float, beta: float) -> torch.Tensor:
    engine, rule = Embedded(topology), rule_of(name)
    state = rule.init(torch.ones(topology.n, D, dtype=torch.float64))
    for k in range(STEPS):

        def grad(x, k=k):
            rows = [gradient(i, k, row.numpy()) for i, row in enumerate(x)]
            return torch.from_numpy(np.stack(rows))

        state = rule.step(state, grad, engine.mixer(k), lr, beta)
    return rule.model(state)


PAIRS = [(a, t) for a in ALGORITHMS for t in names() if not rule_of(a).exact or "fully" in t]


@pytest.mark.parametrize(("name", "topology"), PAIRS)
def test_vectorised_equals_plain_loop(name, topology):
    schedule = build(topology, N, seed=3)
    ours = vectorised(name, schedule, LR, BETA).numpy()
    np.testing.assert_allclose(ours, loop(name, schedule, LR, BETA), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [a for a in ALGORITHMS if a not in ("dmsgd", "qg_dmsgd")])
def test_one_worker_is_plain_sgd(name):
    """n = 1 is torch.optim.SGD; the two rules left out use the momentum in their own way."""
    ours = vectorised(name, build("fully_connected", 1), LR, BETA)[0]
    x = torch.ones(D, dtype=torch.float64, requires_grad=True)
    momentum = BETA if rule_of(name).momentum else 0
    optimizer = torch.optim.SGD([x], lr=LR, momentum=momentum)
    for k in range(STEPS):
        x.grad = torch.from_numpy(gradient(0, k, x.detach().numpy()))
        optimizer.step()
    torch.testing.assert_close(ours, x.detach())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_over_exact_averaging_it_is_the_algorithm_that_it_declares(name):
    """W = J from equal starts: parallel SGD's models where that is declared, others elsewhere."""
    schedule = build("fully_connected", N)
    beta = BETA if rule_of(name).momentum else 0.0
    ours, parallel = (vectorised(a, schedule, LR, beta) for a in (name, "psgd"))
    if ALGORITHMS[name].over_exact == "psgd" or name == "psgd":
        torch.testing.assert_close(ours, parallel)
    else:
        assert ALGORITHMS[name].over_exact is None
        assert not torch.allclose(ours, parallel, rtol=1e-2)


@pytest.mark.parametrize("topology", ["ring", "one_peer_exponential", "star"])
@pytest.mark.parametrize("name", [a for a in ALGORITHMS if not rule_of(a).exact])
def test_the_mean_moves_as_in_parallel_sgd(name, topology):
    """With gradients that do not depend on x, the average ignores the topology."""
    fixed = torch.randn(STEPS, N, D, dtype=torch.float64)

    def mean_path(schedule):
        engine, rule = Embedded(schedule), rule_of(name)
        state = rule.init(torch.zeros(N, D, dtype=torch.float64))
        for k in range(STEPS):
            grad = lambda x, k=k: fixed[k]  # noqa: E731
            state = rule.step(state, grad, engine.mixer(k), LR, BETA)
        return state.x.mean(dim=0)

    torch.testing.assert_close(
        mean_path(build(topology, N)), mean_path(build("fully_connected", N))
    )


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_step_leaves_its_arguments_alone_and_declares_its_message(name):
    engine, rule = Embedded(build("fully_connected", N)), rule_of(name)
    state = rule.init(torch.randn(N, D, dtype=torch.float64))
    state = type(state)(*(torch.randn_like(part) for part in state))
    before = copy.deepcopy(state)
    calls = []

    def start(*arrays):
        calls.append(len(arrays))
        kept = [x.clone() for x in arrays]
        wait = engine.mixer(0).start(*arrays)
        assert all(torch.equal(x, y) for x, y in zip(arrays, kept, strict=True))
        return wait

    rule.step(state, lambda x: x.sin(), Mix(start), LR, BETA)
    for part, was in zip(state, before, strict=True):
        assert torch.equal(part, was)
    assert calls == [rule.vectors]


@pytest.mark.parametrize("name", [a for a in ALGORITHMS if rule_of(a).over_exact])
def test_over_exact_averaging_a_rule_is_the_one_it_declares(name):
    """From equal starts every worker's model follows the reference's."""
    schedule, rule = build("fully_connected", N), rule_of(name)
    beta = BETA if rule.momentum else 0.0
    ours, theirs = (vectorised(a, schedule, LR, beta) for a in (name, rule.over_exact))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["dsgd_cta", "dsgd_awc", "dmsgd", "qg_dmsgd"])
def test_the_others_are_their_own_reference(name):
    """Not parallel SGD: one of its momenta, gradients or models differs at every step."""
    schedule, beta = build("fully_connected", N), BETA if rule_of(name).momentum else 0.0
    apart = vectorised(name, schedule, LR, beta) - vectorised("psgd", schedule, LR, beta)
    assert rule_of(name).over_exact is None and float(apart.abs().max()) > 1e-3
