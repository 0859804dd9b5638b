"""Update rules against a plain loop over workers, their limits, and torch.optim.SGD."""

import copy

import numpy as np
import pytest
import torch

from expograph.algorithms import ALGORITHMS, Mix, init
from expograph.engines.embedded import Embedded
from expograph.graphs.topology import TOPOLOGIES, build

N, D, STEPS, LR, BETA = 6, 5, 12, 0.1, 0.9


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
    engine = Embedded(topology)
    state = init(torch.ones(topology.n, D, dtype=torch.float64))
    for k in range(STEPS):

        def grad(x, k=k):
            rows = [gradient(i, k, row.numpy()) for i, row in enumerate(x)]
            return torch.from_numpy(np.stack(rows))

        state = ALGORITHMS[name].step(state, grad, engine.mixer(k), lr, beta)
    return state.x


PAIRS = [(a, t) for a in ALGORITHMS for t in TOPOLOGIES if not ALGORITHMS[a].exact or "fully" in t]


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
    momentum = BETA if ALGORITHMS[name].momentum else 0
    optimizer = torch.optim.SGD([x], lr=LR, momentum=momentum)
    for k in range(STEPS):
        x.grad = torch.from_numpy(gradient(0, k, x.detach().numpy()))
        optimizer.step()
    torch.testing.assert_close(ours, x.detach())


@pytest.mark.parametrize("name", ["dsgd_atc", "vanilla_dmsgd"])
def test_exact_averaging_is_parallel_sgd(name):
    """W = J from equal starts: vanilla DmSGD is parallel SGD, momentum or not."""
    schedule = build("fully_connected", N)
    beta = BETA if ALGORITHMS[name].momentum else 0.0
    ours, parallel = (vectorised(a, schedule, LR, beta) for a in (name, "psgd"))
    torch.testing.assert_close(ours, parallel)


@pytest.mark.parametrize("topology", ["ring", "one_peer_exponential", "star"])
@pytest.mark.parametrize("name", [a for a in ALGORITHMS if not ALGORITHMS[a].exact])
def test_the_mean_moves_as_in_parallel_sgd(name, topology):
    """With gradients that do not depend on x, the average ignores the topology."""
    fixed = torch.randn(STEPS, N, D, dtype=torch.float64)

    def mean_path(schedule):
        engine, state = Embedded(schedule), init(torch.zeros(N, D, dtype=torch.float64))
        for k in range(STEPS):
            grad = lambda x, k=k: fixed[k]  # noqa: E731
            state = ALGORITHMS[name].step(state, grad, engine.mixer(k), LR, BETA)
        return state.x.mean(dim=0)

    torch.testing.assert_close(
        mean_path(build(topology, N)), mean_path(build("fully_connected", N))
    )


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_step_leaves_its_input_state_alone_and_declares_its_message(name):
    engine = Embedded(build("fully_connected", N))
    state = init(torch.randn(N, D, dtype=torch.float64))
    state = state._replace(m=torch.randn(N, D, dtype=torch.float64))
    before = copy.deepcopy(state)
    calls = []

    def start(*arrays):
        calls.append(len(arrays))
        return engine.mixer(0).start(*arrays)

    ALGORITHMS[name].step(state, lambda x: x.sin(), Mix(start), LR, BETA)
    torch.testing.assert_close(state.x, before.x)
    torch.testing.assert_close(state.m, before.m)
    assert calls == [ALGORITHMS[name].vectors]
