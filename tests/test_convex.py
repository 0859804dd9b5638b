"""The synthetic problems against autograd, scipy and sklearn-free closed forms."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from expograph import problems
from expograph.config import LeastSquares, Logistic
from expograph.problems.convex import Convex

SETTINGS = {"logistic": Logistic, "least_squares": LeastSquares}


def make(kind: str, nodes: int = 4, seed: int = 0, **problem) -> Convex:
    settings = SETTINGS[kind](kind=kind, dim=3, samples=20, **problem)
    return problems.build(settings, nodes, range(nodes), seed)


def objective(problem: Convex, x: np.ndarray) -> float:
    """f(x), written once more with numpy."""
    a, b = problem.features.numpy(), problem.labels.numpy()
    scores = a @ x
    if problem.settings.kind == "logistic":
        return float(np.logaddexp(0, -b * scores).mean() + problem.settings.l2 / 2 * x @ x)
    return float(((scores - b) ** 2).mean() / 2)


@pytest.mark.parametrize("kind", ["logistic", "least_squares"])
@pytest.mark.parametrize("heterogeneity", [0.0, 1.0])
def test_minimiser_equals_scipy(kind, heterogeneity):
    problem = make(kind, heterogeneity=heterogeneity)
    found = minimize(lambda x: objective(problem, x), np.zeros(3), tol=1e-12)
    np.testing.assert_allclose(problem.minimiser.numpy(), found.x, atol=1e-5)
    assert problem.minimum == pytest.approx(found.fun, abs=1e-9)
    x, none = problem.minimiser.repeat(4, 1), torch.empty(4, 0)
    measured = problem.measure(x, none, x.mean(dim=0), none[0], True)
    at_minimum = problem.evaluate(x.mean(dim=0), measured, True)
    assert all(v == pytest.approx(0, abs=1e-12) for v in at_minimum.values())


@pytest.mark.parametrize("kind", ["logistic", "least_squares"])
def test_hessian_is_autograds(kind):
    problem = make(kind, heterogeneity=1.0)
    every, x = problem.features.flatten(0, 1), torch.randn(3, dtype=torch.float64)

    def mean_loss(x):
        return problem.loss.value_and_gradient(x.expand(4, -1), problem.features, problem.labels)[
            0
        ].mean()

    expected = torch.autograd.functional.hessian(mean_loss, x)
    torch.testing.assert_close(problem.loss.hessian(x, every), expected)


@pytest.mark.parametrize("kind", ["logistic", "least_squares"])
def test_gradient_is_autograd_plus_noise_of_the_stated_size(kind):
    problem = make(kind, noise=0.5)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    losses, _ = problem.loss.value_and_gradient(x, problem.features, problem.labels)
    (expected,) = torch.autograd.grad(losses.sum(), x)
    x = x.detach()
    noise = [problem.gradient(x, torch.empty(4, 0), k)[1] - expected for k in range(2000)]
    noise = torch.stack(noise)
    assert noise.std() == pytest.approx(0.5, rel=0.03)
    assert noise.mean().abs() < 0.02


def test_a_rank_alone_sees_what_it_sees_among_all():
    whole = make("logistic")
    alone = Convex(whole.settings, workers=4, ranks=[2], seed=0)
    x = torch.randn(4, 3, dtype=torch.float64)
    for k in (0, 300, 17):
        torch.testing.assert_close(
            whole.gradient(x, torch.empty(4, 0), k)[1][2:3],
            alone.gradient(x[2:3], torch.empty(1, 0), k)[1],
        )


def test_shared_data_has_no_heterogeneity_and_own_truths_have_more():
    assert make("logistic", shared_data=True).describe()["zeta2"] == pytest.approx(0, abs=1e-20)
    near, far = (make("logistic", heterogeneity=h).describe()["zeta2"] for h in (0.0, 3.0))
    assert 0 < near < far
