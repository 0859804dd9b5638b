"""Update rules against a plain loop over workers, their limits, and torch.optim.SGD."""

import copy
import dataclasses
import re

import numpy as np
import pytest
import torch
from twins import TWINS

from expograph import algorithms
from expograph.algorithms import Mix
from expograph.engines.embedded import Embedded
from expograph.graphs.topology import build, names

N, D, STEPS, LR, BETA = 6, 5, 12, 0.1, 0.9
OTHERS = {name: f"{name}(every=4)" for name in ("slowmo", "diloco", "noloco")}
OTHERS["choco_int"] = "choco_int(bits=2)"  # their defaults do little of their own in so few steps
ALGORITHMS = {name: algorithms.build(OTHERS.get(name, name)) for name in algorithms.ALGORITHMS}
FIRST = [name for name in ALGORITHMS if name not in TWINS]  # the others: test_rules


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
            push = [beta * m[i] + g[i] for i in range(n)]
            half = [x[i] - lr * push[i] for i in range(n)]
            x, m = [avg(half, i) for i in range(n)], [avg(push, i) for i in range(n)]
        elif name == "dmsgd_delayed":
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
    engine, algorithm = Embedded(topology), ALGORITHMS[name]
    state = algorithm.init(torch.ones(topology.n, D, dtype=torch.float64))
    for k in range(STEPS):

        def grad(x, k=k):
            rows = [gradient(i, k, row.numpy()) for i, row in enumerate(x)]
            return torch.from_numpy(np.stack(rows))

        state = algorithm.step(state, grad, engine.mixer(k // algorithm.every), lr, beta)
    return algorithm.model(state)


PAIRS = [
    (a, t)
    for a in FIRST
    for t in names(N, ALGORITHMS[a].stochastic)
    if not ALGORITHMS[a].exact or "fully" in t
]


@pytest.mark.parametrize(("name", "topology"), PAIRS)
def test_vectorised_equals_plain_loop(name, topology):
    schedule = build(topology, N, seed=3)
    ours = vectorised(name, schedule, LR, BETA).numpy()
    np.testing.assert_allclose(ours, loop(name, schedule, LR, BETA), rtol=1e-10, atol=1e-12)


OWN_WAYS = ("dmsgd_delayed", "qg_dmsgd", "slowmo", "accum_adam", "diloco", "noloco")


@pytest.mark.parametrize("name", [a for a in ALGORITHMS if a not in OWN_WAYS])
def test_one_worker_is_plain_sgd(name):
    """n = 1 is torch.optim.SGD; the rules left out use momentum in their own way, or are Adam."""
    ours = vectorised(name, build("fully_connected", 1), LR, BETA)[0]
    x = torch.ones(D, dtype=torch.float64, requires_grad=True)
    momentum = BETA if ALGORITHMS[name].momentum else 0
    optimizer = torch.optim.SGD([x], lr=LR, momentum=momentum)
    for k in range(STEPS):
        x.grad = torch.from_numpy(gradient(0, k, x.detach().numpy()))
        optimizer.step()
    torch.testing.assert_close(ours, x.detach())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_over_exact_averaging_it_is_the_algorithm_that_it_declares(name):
    """W = J from equal starts: parallel SGD's models where that is declared, others elsewhere."""
    schedule = build("fully_connected", N)
    beta = BETA if ALGORITHMS[name].momentum else 0.0
    ours, parallel = (vectorised(a, schedule, LR, beta) for a in (name, "psgd"))
    if ALGORITHMS[name].over_exact == "psgd" or name == "psgd":
        torch.testing.assert_close(ours, parallel)
    else:
        assert ALGORITHMS[name].over_exact is None
        assert not torch.allclose(ours, parallel, rtol=1e-2)


@pytest.mark.parametrize("topology", ["ring", "one_peer_exponential", "star"])
@pytest.mark.parametrize("name", [a for a in ALGORITHMS if not ALGORITHMS[a].exact])
def test_the_mean_moves_as_in_parallel_sgd(name, topology):
    """With gradients that do not depend on x, the average ignores the topology."""
    fixed = torch.randn(STEPS, N, D, dtype=torch.float64)

    def mean_path(schedule):
        engine, algorithm = Embedded(schedule), ALGORITHMS[name]
        state = algorithm.init(torch.zeros(N, D, dtype=torch.float64))
        for k in range(STEPS):
            grad = lambda x, k=k: fixed[k]  # noqa: E731
            mix = engine.mixer(k // algorithm.every)
            state = algorithm.step(state, grad, mix, LR, BETA)
        return algorithm.model(state).mean(dim=0)

    torch.testing.assert_close(
        mean_path(build(topology, N)), mean_path(build("fully_connected", N))
    )


@pytest.mark.parametrize("name", FIRST)
def test_a_step_leaves_its_input_state_alone_and_declares_its_message(name):
    engine = Embedded(build("fully_connected", N))
    state = ALGORITHMS[name].init(torch.zeros(N, D, dtype=torch.float64))
    state = type(state)(*(torch.randn(N, D, dtype=torch.float64) for _ in state))
    before = copy.deepcopy(state)
    calls = []

    def start(*arrays):
        calls.append(len(arrays))
        return engine.mixer(0).start(*arrays)

    ALGORITHMS[name].step(state, lambda x: x.sin(), Mix(start), LR, BETA)
    assert all(map(torch.equal, state, before))
    assert calls == [ALGORITHMS[name].vectors]


def test_a_rule_carries_what_it_needs_and_no_more():
    x0 = torch.ones(N, D)
    assert ALGORITHMS["dsgd_atc"].init(x0)._fields == ("x",)
    assert ALGORITHMS["dmsgd"].init(x0)._fields == ("x", "m")


def test_parameters_are_those_of_the_factory(monkeypatch):
    def rare_sgd(every: int = 4, outer_lr: float = 1.0):
        return dataclasses.replace(ALGORITHMS["dsgd_atc"], every=every)

    monkeypatch.setitem(algorithms.ALGORITHMS, "rare_sgd", rare_sgd)
    assert algorithms.parameters("rare_sgd") == {"every": 4, "outer_lr": 1.0}
    assert algorithms.build("rare_sgd").every == 4
    assert algorithms.build("rare_sgd(every=2, outer_lr=0.5)").every == 2


def test_the_run_s_seed_reaches_rules_that_draw_and_no_others(monkeypatch):
    def drawing(*, seed: int):
        return dataclasses.replace(ALGORITHMS["dsgd_atc"], every=seed)

    def own_seed(seed: int = 7):
        return dataclasses.replace(ALGORITHMS["dsgd_atc"], every=seed)

    monkeypatch.setitem(algorithms.ALGORITHMS, "drawing", drawing)
    monkeypatch.setitem(algorithms.ALGORITHMS, "own_seed", own_seed)
    assert algorithms.build("drawing", seed=3).every == 3
    assert algorithms.build("own_seed", seed=3).every == 7  # a parameter like any other
    assert algorithms.build("own_seed(seed=2)", seed=3).every == 2


@pytest.mark.parametrize(
    "spelling, message",
    [
        ("dsmgd", "unknown algorithm 'dsmgd'; did you mean 'dmsgd'"),
        ("dmsgd(beta=0.9)", "algorithm 'dmsgd' has no parameters, got 'beta'"),
        ("dmsgd(", "expected name"),
    ],
)
def test_a_wrong_spelling_is_one_line(spelling, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        algorithms.build(spelling)
    assert "\n" not in str(error.value)
