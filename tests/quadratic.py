"""A problem of a user's own, as small as one can be, for tests of algorithms and of the loop."""

import numpy as np
import torch


class Quadratic:
    """f_i(x) = 1/2 sum_c curvature_c (x_c - target_ic)^2, with gradient noise by address."""

    metrics = {"error": "|x_bar - x*|^2"}  # noqa: RUF012

    def __init__(self, workers: int, dim: int = 5, noise: float = 0.1) -> None:
        self.workers, self.ranks, self.dim, self.noise = workers, range(workers), dim, noise
        rng = np.random.default_rng(workers)
        self.curvature = rng.uniform(0.5, 2.0, dim)
        self.targets = rng.standard_normal((workers, dim))

    def gradient_of(self, i: int, k: int, x: np.ndarray) -> np.ndarray:
        """Worker i's stochastic gradient (d,) of step k at its x (d,)."""
        slope = self.curvature * (x - self.targets[i])
        if not self.noise:
            return slope
        return slope + self.noise * np.random.default_rng([i, k]).standard_normal(self.dim)

    def initial(self):
        x0 = torch.ones(self.dim, dtype=torch.float64)
        return x0, x0[:0]

    def gradient(self, x, buffers, k):
        rows = [self.gradient_of(i, k, row.numpy()) for i, row in enumerate(x)]
        losses = (x - torch.from_numpy(self.targets)).square().sum(dim=1)
        return losses, torch.from_numpy(np.stack(rows)), buffers

    def measure(self, x, buffers, mean, mean_buffers, final):
        return torch.zeros(len(x), 0)

    def evaluate(self, mean, measured, final):
        return {"error": float((mean - torch.from_numpy(self.targets.mean(axis=0))).square().sum())}

    def describe(self):
        return {}
