"""Logistic regression and least squares on synthetic data, where the minimiser is known.

Worker i holds m samples (a, b) and the loss f_i; all minimise f = 1/n sum_i f_i together.

    logistic       f_i(x) = 1/m sum log(1 + exp(-b a.x)) + l2/2 |x|^2,  b = +1 w.p. 1/(1 + e^-a.w_i)
    least squares  f_i(x) = 1/2m sum (a.x - b)^2,                       b = a.w_i + label noise

a ~ N(0, I), w_i = w + heterogeneity * N(0, I), w ~ N(0, I). A step's gradient is the full local
one plus N(0, noise^2 I): the noise variance is known exactly and the same everywhere.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from expograph.config import Logistic, Run
from expograph.randomness import NOISE, PROBLEM, generator

NOISE_BLOCK = 256  # steps whose noise is drawn at once, at the address (seed, rank, block)


class Convex:
    """A synthetic convex problem, in float64. See `problems.Problem` for the interface."""

    def __init__(self, run: Run, ranks: Sequence[int]) -> None:
        self.problem, self.seed, self.ranks = run.problem, run.seed, ranks
        self.device = torch.device(run.device)
        data = [self._worker_data(rank) for rank in range(run.ranks)]
        self.features = torch.stack([a for a, _ in data])  # (n, m, d)
        self.labels = torch.stack([b for _, b in data])  # (n, m)
        self.minimiser, self.minimum = self._solve()
        if len(ranks) < run.ranks:
            self.local = self.features[list(ranks)], self.labels[list(ranks)]
        else:
            self.local = self.features, self.labels
        self._noise: tuple[int, Tensor] = (-1, torch.empty(0))

    def initial(self) -> tuple[Tensor, Tensor]:
        x0 = torch.zeros(self.problem.dim, dtype=torch.float64, device=self.device)
        return x0, x0[:0]

    def gradient(self, x: Tensor, buffers: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        losses, gradients = self._losses_and_gradients(x, *self.local)
        return losses, gradients + self._noise_at(k), buffers

    def measure(
        self, x: Tensor, buffers: Tensor, mean: Tensor, mean_buffers: Tensor, final: bool
    ) -> Tensor:
        """(R, 1) squared distance of each local model to the minimiser."""
        return (x - self.minimiser).square().sum(dim=1, keepdim=True)

    def evaluate(self, mean: Tensor, measured: Tensor, final: bool) -> dict[str, float]:
        """Squared distances to the minimiser x*, and how far f is above its minimum at x_bar.

        error_workers = 1/n sum_i |x_i - x*|^2, error_averaged = |x_bar - x*|^2.
        """
        return {
            "error_workers": float(measured.mean()),
            "error_averaged": float((mean - self.minimiser).square().sum()),
            "suboptimality": float(self._value(mean)) - self.minimum,
        }

    def describe(self) -> dict:
        """zeta2: 1/n sum_i |grad f_i(x*)|^2, the heterogeneity at the minimiser."""
        x = self.minimiser.expand(len(self.features), -1)
        _, gradients = self._losses_and_gradients(x, self.features, self.labels)
        zeta2 = gradients.square().sum(dim=1).mean()
        return {"zeta2": float(zeta2), "sigma2": self.problem.noise**2 * self.problem.dim}

    def _worker_data(self, rank: int) -> tuple[Tensor, Tensor]:
        p = self.problem
        common = generator(self.seed, PROBLEM).standard_normal(p.dim)
        rng = generator(self.seed, PROBLEM, 0 if p.shared_data else rank + 1)
        own = common + p.heterogeneity * rng.standard_normal(p.dim)
        features = rng.standard_normal((p.samples, p.dim))
        if isinstance(p, Logistic):
            probability = 1 / (1 + np.exp(-features @ own))
            labels = np.where(rng.random(p.samples) < probability, 1.0, -1.0)
        else:
            labels = features @ own + p.label_noise * rng.standard_normal(p.samples)
        return (
            torch.from_numpy(features).to(self.device),
            torch.from_numpy(labels).to(self.device),
        )

    def _losses_and_gradients(self, x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """x (R, d), a (R, m, d), b (R, m) -> f_i(x_i) (R,) and its gradients (R, d)."""
        scores = torch.bmm(a, x.unsqueeze(2)).squeeze(2)  # (R, m)
        if isinstance(self.problem, Logistic):
            margins = b * scores
            losses = torch.nn.functional.softplus(-margins).mean(dim=1)
            losses = losses + self.problem.l2 / 2 * x.square().sum(dim=1)
            slopes = -b * torch.sigmoid(-margins)
        else:
            slopes = scores - b
            losses = slopes.square().mean(dim=1) / 2
        gradients = torch.bmm(slopes.unsqueeze(1), a).squeeze(1) / a.shape[1]
        if isinstance(self.problem, Logistic):
            gradients = gradients + self.problem.l2 * x
        return losses, gradients

    def _value(self, x: Tensor) -> Tensor:
        every = x.expand(len(self.features), -1)
        return self._losses_and_gradients(every, self.features, self.labels)[0].mean()

    def _solve(self) -> tuple[Tensor, float]:
        """Minimiser (d,) and minimum of f, by Newton's method to machine precision."""
        a = self.features.flatten(0, 1)  # (n m, d)
        x = torch.zeros(self.problem.dim, dtype=torch.float64, device=self.device)
        identity = torch.eye(len(x), dtype=torch.float64, device=self.device)
        for _ in range(100):
            every = x.expand(len(self.features), -1)
            gradient = self._losses_and_gradients(every, self.features, self.labels)[1].mean(dim=0)
            if isinstance(self.problem, Logistic):
                p = torch.sigmoid(a @ x)
                hessian = (a.T * (p * (1 - p))) @ a / len(a) + self.problem.l2 * identity
            else:
                hessian = a.T @ a / len(a)
            step = torch.linalg.lstsq(hessian, gradient.unsqueeze(1)).solution.squeeze(1)
            x = x - step
            if step.norm() <= 1e-13 * (1 + x.norm()):
                break
        return x, float(self._value(x))

    def _noise_at(self, k: int) -> Tensor:
        block, within = divmod(k, NOISE_BLOCK)
        if self._noise[0] != block:
            shape = (NOISE_BLOCK, self.problem.dim)
            draws = [
                generator(self.seed, NOISE, rank, block).standard_normal(shape)
                for rank in self.ranks
            ]
            noise = self.problem.noise * torch.from_numpy(np.stack(draws, axis=1))
            self._noise = block, noise.to(self.device)
        return self._noise[1][within]
