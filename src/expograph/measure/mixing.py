"""Speed of mixing and of what else a step does beside the gradient, as ratios within one run.

Averaging is compared with one pass over the memory (torch.add of two arrays into one of them) and
with the dense product W X; a small network's averaging and update with its gradient; and the
closed-form gradients of the convex problems with autograd.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from expograph import algorithms
from expograph.config import Logistic
from expograph.engines.embedded import Embedded
from expograph.graphs.topology import build
from expograph.measure.ratios import Ratio
from expograph.measure.speed import BETA, LR, run_of
from expograph.measure.timing import interleaved
from expograph.problems.convex import Convex
from expograph.runs.assemble import assemble

AVERAGING = {  # topology -> (time / torch.add, dense product / time) that is aimed at
    "one_peer_exponential": ("<= 1.25", ">= 4"),
    "random_match": ("<= 2", ">= 2"),
    "static_exponential": ("<= 2", ">= 2"),
    "grid": ("", ">= 2"),
    "torus": ("", ">= 2"),
    "hypercube": ("", ">= 2"),
    "half_random": ("", ">= 1"),
}


def of_averaging(n: int = 64, d: int = 1_000_000, rounds: int = 9) -> list[Ratio]:
    """One step of averaging, against one pass over the memory and against the dense product."""
    rows = []
    x, y, out = (torch.randn(n, d) for _ in range(3))
    for name, (over_add, over_dense) in AVERAGING.items():
        found = interleaved(
            rounds,
            add=lambda: torch.add(x, y, alpha=0.5, out=y),
            dense=_dense_product(name, x, out),
            time=_averaging(name, n, d),
        )
        group = f"averaging, n = {n}, d = {d:,}"
        rows += [
            found.ratio(group, f"{name}: time / torch.add", "time", "add", target=over_add),
            found.ratio(group, f"{name}: dense W X / time", "dense", "time", target=over_dense),
        ]
    return rows


def of_update(nodes: tuple[int, ...] = (8, 16, 32), rounds: int = 30, **problem) -> list[Ratio]:
    """Averaging and update of a small network, against its gradient."""
    settings = {"kind": "classification", "dataset": "fashion_mnist", "model": "mlp"} | problem
    return [_of_update(settings, n, rounds) for n in nodes]


def _of_update(settings: dict, n: int, rounds: int) -> Ratio:
    built = assemble(run_of(settings, n)).problem
    x, buffers = (initial.repeat(n, 1) for initial in built.initial())
    gradients = built.gradient(x, buffers, 0)[1]
    rule, engine = algorithms.build("vanilla_dmsgd"), Embedded(build("one_peer_exponential", n))
    update = _steps(lambda s, k: rule.step(s, lambda _: gradients, engine.mixer(k), LR, BETA))
    found = interleaved(
        rounds,
        gradient=lambda: built.gradient(x, buffers, 0),
        update=update(rule.init(x)),
    )
    group = f"{settings['model']}, d = {x.shape[1]:,}, vanilla DmSGD"
    what = f"one_peer_exponential, n = {n}: averaging and update / gradient"
    return found.ratio(group, what, "update", "gradient", target="<= 0.3")


def of_gradients(n: int = 1024, dim: int = 100, rounds: int = 7) -> list[Ratio]:
    """Closed-form gradients of logistic regression, against autograd of the same losses."""
    settings = Logistic(kind="logistic", dim=dim, samples=50)
    problem = Convex(settings, n, range(n), seed=0)
    x = torch.randn(n, dim, dtype=torch.float64)
    found = interleaved(
        rounds,
        closed=lambda: problem.loss.value_and_gradient(x, *problem.local),
        together=lambda: by_autograd(problem, settings.l2, x),
        loop=lambda: by_autograd_one_by_one(problem, settings.l2, x),
    )
    group = f"logistic regression, n = {n:,}, d = {dim}"
    return [
        found.ratio(group, "autograd in a loop / closed form", "loop", "closed", target=">= 5"),
        found.ratio(group, "autograd of all at once / closed form", "together", "closed"),
    ]


def by_autograd(problem: Convex, l2: float, x: Tensor) -> Tensor:
    """Gradients (n, d) of all workers' losses at once."""
    x = x.clone().requires_grad_()
    margins = problem.labels * torch.bmm(problem.features, x.unsqueeze(2)).squeeze(2)
    values = softplus(-margins).mean(dim=1) + l2 / 2 * x.square().sum(dim=1)
    return torch.autograd.grad(values.sum(), x)[0]


def by_autograd_one_by_one(problem: Convex, l2: float, x: Tensor) -> Tensor:
    """Gradients (n, d), one worker after the other, as a straightforward script."""
    gradients = []
    for row, a, b in zip(x, problem.features, problem.labels, strict=True):
        row = row.clone().requires_grad_()
        value = softplus(-b * (a @ row)).mean() + l2 / 2 * row.square().sum()
        gradients.append(torch.autograd.grad(value, row)[0])
    return torch.stack(gradients)


def _dense_product(name: str, x: Tensor, out: Tensor) -> Callable[[], Tensor]:
    W = torch.from_numpy(build(name, len(x)).at(0).dense()).to(x)
    return lambda: torch.mm(W, x, out=out)


def _averaging(name: str, n: int, d: int) -> Callable[[], None]:
    engine = Embedded(build(name, n))
    return _steps(lambda x, k: engine.mixer(k)(x))(torch.randn(n, d))


def _steps(step: Callable) -> Callable:
    """state -> a call without arguments that takes the next step."""

    def start(state) -> Callable[[], None]:
        k = 0

        def run() -> None:
            nonlocal state, k
            state, k = step(state, k), k + 1

        return run

    return start
