"""Logistic regression and least squares on synthetic data, where the minimiser is known.

Worker i has the loss f_i of its own samples (`losses`), all minimise f = 1/n sum_i f_i together.
Its true weights are w_i = w + heterogeneity * N(0, I), w ~ N(0, I). A step's gradient is the full
local one plus N(0, noise^2 I): the noise variance is known exactly and the same everywhere.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from expograph.config import LeastSquares, Logistic
from expograph.problems.losses import LOSSES
from expograph.randomness import NOISE, PROBLEM, generator

NOISE_BLOCK = 256  # steps whose noise is drawn at once, at the address (seed, rank, block)


class Convex:
    """A synthetic convex problem, in float64. See `problem.Problem` for the interface."""

    metrics: ClassVar[dict[str, str]] = {
        "error_workers": "1/n sum of |x_i - x*|^2",
        "error_averaged": "|x_bar - x*|^2",
        "suboptimality": "f(x_bar) - f(x*)",
    }

    def __init__(
        self,
        settings: Logistic | LeastSquares,
        workers: int,
        ranks: Sequence[int],
        seed: int,
        device: str = "cpu",
    ) -> None:
        self.settings, self.workers, self.ranks, self.seed = settings, workers, ranks, seed
        self.device = torch.device(device)
        self.loss = LOSSES[settings.kind](settings)
        data = [self._worker_data(rank) for rank in range(workers)]
        self.features = torch.stack([a for a, _ in data])  # (n, m, d)
        self.labels = torch.stack([b for _, b in data])  # (n, m)
        self.minimiser, self.minimum = self._solve()
        if len(ranks) < workers:
            self.local = self.features[list(ranks)], self.labels[list(ranks)]
        else:
            self.local = self.features, self.labels
        self._noise: tuple[int, Tensor] = (-1, torch.empty(0))

    def initial(self) -> tuple[Tensor, Tensor]:
        x0 = torch.zeros(self.settings.dim, dtype=torch.float64, device=self.device)
        return x0, x0[:0]

    def gradient(self, x: Tensor, buffers: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        losses, gradients = self.loss.value_and_gradient(x, *self.local)
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
            "suboptimality": float(self._at_all(mean)[0].mean()) - self.minimum,
        }

    def describe(self) -> dict[str, Any]:
        """zeta2: 1/n sum_i |grad f_i(x*)|^2, the heterogeneity at the minimiser."""
        zeta2 = self._at_all(self.minimiser)[1].square().sum(dim=1).mean()
        return {"zeta2": float(zeta2), "sigma2": self.settings.noise**2 * self.settings.dim}

    def _worker_data(self, rank: int) -> tuple[Tensor, Tensor]:
        p = self.settings
        common = generator(self.seed, PROBLEM).standard_normal(p.dim)
        rng = generator(self.seed, PROBLEM, 0 if p.shared_data else rank + 1)
        own = common + p.heterogeneity * rng.standard_normal(p.dim)
        features = rng.standard_normal((p.samples, p.dim))
        labels = self.loss.labels(features @ own, rng)
        return (
            torch.from_numpy(features).to(self.device),
            torch.from_numpy(labels).to(self.device),
        )

    def _at_all(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Every worker's loss (n,) and gradient (n, d) at one x (d,)."""
        every = x.expand(len(self.features), -1)
        return self.loss.value_and_gradient(every, self.features, self.labels)

    def _solve(self) -> tuple[Tensor, float]:
        """Minimiser (d,) and minimum of f, by Newton's method to machine precision."""
        a = self.features.flatten(0, 1)  # (n m, d)
        x = torch.zeros(self.settings.dim, dtype=torch.float64, device=self.device)
        for _ in range(100):
            gradient = self._at_all(x)[1].mean(dim=0)
            hessian = self.loss.hessian(x, a)
            step = torch.linalg.lstsq(hessian, gradient.unsqueeze(1)).solution.squeeze(1)
            x = x - step
            if step.norm() <= 1e-13 * (1 + x.norm()):
                break
        return x, float(self._at_all(x)[0].mean())

    def _noise_at(self, k: int) -> Tensor:
        block, within = divmod(k, NOISE_BLOCK)
        if self._noise[0] != block:
            shape = (NOISE_BLOCK, self.settings.dim)
            draws = [
                generator(self.seed, NOISE, rank, block).standard_normal(shape)
                for rank in self.ranks
            ]
            noise = self.settings.noise * torch.from_numpy(np.stack(draws, axis=1))
            self._noise = block, noise.to(self.device)
        return self._noise[1][within]
