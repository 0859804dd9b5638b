"""Every newer rule once more: worker by worker in numpy, from its paper's equations, with dense W.

A twin is a function of `Setting`; it gives the models (n, d) after its steps. Nothing of
`expograph.algorithms` is imported, but the coordinates that SPARTA draws.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from expograph.randomness import COORDINATES, generator

ADAM = {"beta2": 0.999, "eps": 1e-8}


class Setting(NamedTuple):
    """What a twin trains: gradient(i, k, x) of worker i, W_at(message) dense."""

    n: int
    steps: int
    x0: np.ndarray
    lr: float
    beta: float
    gradient: Callable[[int, int, np.ndarray], np.ndarray]
    W_at: Callable[[int], np.ndarray]
    seed: int = 0

    def gradients(self, k, x):
        return [self.gradient(i, k, x[i]) for i in range(self.n)]

    def start(self):
        return [self.x0.copy() for _ in range(self.n)]

    def zeros(self):
        return [0 * self.x0 for _ in range(self.n)]


def mix(W, v):
    return list(W @ np.stack(v))


def mean(v):
    return [sum(v) / len(v) for _ in v]


def gradient_tracking(t: Setting):
    """The form with g(x^0) first: x+ = W (x - lr y), y+ = W y + g(x+) - g(x)."""
    x = t.start()
    g = t.gradients(0, x)
    y = list(g)
    for k in range(t.steps):
        W = t.W_at(k)
        x = mix(W, [x[i] - t.lr * y[i] for i in range(t.n)])
        if k + 1 < t.steps:
            new = t.gradients(k + 1, x)
            y = [a + new[i] - g[i] for i, a in enumerate(mix(W, y))]
            g = new
    return x


def exact_diffusion(t: Setting):
    """x^{k+2} = V (2 x^{k+1} - x^k - lr (m^{k+1} - m^k)), V = (I + W) / 2."""
    x, last, m_last, m = t.start(), None, None, t.zeros()
    for k in range(t.steps):
        V = (np.eye(t.n) + t.W_at(k)) / 2
        g = t.gradients(k, x)
        m = [t.beta * m[i] + g[i] for i in range(t.n)]
        if last is None:
            new = [x[i] - t.lr * m[i] for i in range(t.n)]
        else:
            new = [2 * x[i] - last[i] - t.lr * (m[i] - m_last[i]) for i in range(t.n)]
        x, last, m_last = mix(V, new), x, m
    return x


def momentum_tracking(t: Setting):
    x = t.start()
    g = t.gradients(0, x)
    m = [(a - b) / (1 - t.beta) for a, b in zip(g, mean(g), strict=True)]
    c = list(m)
    for k in range(t.steps):
        W, g = t.W_at(k), t.gradients(k, x)
        m = [t.beta * m[i] + g[i] for i in range(t.n)]
        x = [a - t.lr * (m[i] - c[i]) for i, a in enumerate(mix(W, x))]
        c = [a + m[i] for i, a in enumerate(mix(W, [c[i] - m[i] for i in range(t.n)]))]
    return x


def decentlam(t: Setting):
    x, m = t.start(), t.zeros()
    for k in range(t.steps):
        g = t.gradients(k, x)
        moved = mix(t.W_at(k), [x[i] - t.lr * g[i] for i in range(t.n)])
        m = [t.beta * m[i] + (x[i] - moved[i]) / t.lr for i in range(t.n)]
        x = [x[i] - t.lr * m[i] for i in range(t.n)]
    return x


def sgp(t: Setting):
    x, w, m = t.start(), np.ones(t.n), t.zeros()
    for k in range(t.steps):
        P, g = t.W_at(k), t.gradients(k, [x[i] / w[i] for i in range(t.n)])
        m = [t.beta * m[i] + g[i] for i in range(t.n)]
        x, w = mix(P, [x[i] - t.lr * m[i] for i in range(t.n)]), P @ w
    return [x[i] / w[i] for i in range(t.n)]


def _sgd(t: Setting, k, x, m):
    g = t.gradients(k, x)
    m = [t.beta * m[i] + g[i] for i in range(t.n)]
    return [x[i] - t.lr * m[i] for i in range(t.n)], m


def gossip_pga(t: Setting, every=6):
    x, m = t.start(), t.zeros()
    for k in range(t.steps):
        x, m = _sgd(t, k, x, m)
        x = mean(x) if (k + 1) % every == 0 else mix(t.W_at(k), x)
    return x


def local_sgd(t: Setting, every=8, outer_lr=1.0, outer_beta=0.0):
    x, m, u = t.start(), t.zeros(), t.zeros()
    a = list(x)
    for k in range(t.steps):
        x, m = _sgd(t, k, x, m)
        if (k + 1) % every == 0:
            x = a = _nesterov(a, mix(t.W_at(k // every), x), u, outer_lr, outer_beta)
    return x


def _nesterov(a, mixed, u, lr, beta):
    """torch.optim.SGD(nesterov=True) on the outer gradients; u is changed."""
    new = []
    for i in range(len(a)):
        u[i] = beta * u[i] + (a[i] - mixed[i])
        new.append(a[i] - lr * ((a[i] - mixed[i]) + beta * u[i]))
    return new


def slowmo(t: Setting, every=12, slow_lr=1.0, slow_beta=0.5):
    x, m, u = t.start(), t.zeros(), t.zeros()
    a = list(x)
    for k in range(t.steps):
        x, m = _sgd(t, k, x, m)
        x = mix(t.W_at(k), x)
        if (k + 1) % every == 0:
            x = mean(x)
            u = [slow_beta * u[i] + (a[i] - x[i]) / t.lr for i in range(t.n)]
            x = a = [a[i] - slow_lr * t.lr * u[i] for i in range(t.n)]
    return x


def _direction(m, v, t, beta, beta2, eps):
    return (m / (1 - beta**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)


def accum_adam(t: Setting, cycle=4, beta2=0.999, eps=1e-8):
    """Moments are kept multiplied by their beta for the next cycle, as Decent-DP keeps them."""
    x, m, v, total = t.start(), t.zeros(), t.zeros(), t.zeros()
    for k in range(t.steps):
        g, combined = t.gradients(k, x), mix(t.W_at(k), x)
        for i in range(t.n):
            total[i] = total[i] + g[i] / cycle
            m_now, v_now = m[i] + (1 - t.beta) * g[i], v[i] + (1 - beta2) * g[i] ** 2
            begun = (k + cycle) // cycle
            x[i] = combined[i] - t.lr * _direction(m_now, v_now, begun, t.beta, beta2, eps)
            if (k + 1) % cycle == 0:
                m[i] = t.beta * (m[i] + (1 - t.beta) * total[i])
                v[i] = beta2 * (v[i] + (1 - beta2) * total[i] ** 2)
                total[i] = 0 * total[i]
    return x


def _adam(t: Setting, k, x, m, v, beta2, eps):
    g, new = t.gradients(k, x), []
    for i in range(t.n):
        m[i] = t.beta * m[i] + (1 - t.beta) * g[i]
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] ** 2
        new.append(x[i] - t.lr * _direction(m[i], v[i], k + 1, t.beta, beta2, eps))
    return new


def diloco(t: Setting, every=100, outer_lr=0.7, outer_beta=0.9, beta2=0.999, eps=1e-8):
    x, m, v, u = t.start(), t.zeros(), t.zeros(), t.zeros()
    a = list(x)
    for k in range(t.steps):
        x = _adam(t, k, x, m, v, beta2, eps)
        if (k + 1) % every == 0:
            x = a = _nesterov(a, mix(t.W_at(k // every), x), u, outer_lr, outer_beta)
    return x


def noloco(t: Setting, every=100, outer_lr=0.7, outer_beta=0.5, pull=1.0, beta2=0.999, eps=1e-8):
    x, m, v, u = t.start(), t.zeros(), t.zeros(), t.zeros()
    a = list(x)
    for k in range(t.steps):
        x = _adam(t, k, x, m, v, beta2, eps)
        if (k + 1) % every == 0:
            W = t.W_at(k // every)
            near, moved = mix(W, a), mix(W, [x[i] - a[i] for i in range(t.n)])
            u = [
                outer_beta * u[i] + outer_lr * moved[i] - pull * (a[i] - near[i])
                for i in range(t.n)
            ]
            x = a = [a[i] + u[i] for i in range(t.n)]
    return x


def nearest_levels(x, bits):
    unit = np.abs(x).max() / (2 ** (bits - 1) - 1)
    return np.round(x / unit) * unit if unit else 0 * x


def largest_kept(x, fraction):
    kept = np.argsort(-np.abs(x))[: max(1, round(fraction * len(x)))]
    return np.where(np.isin(np.arange(len(x)), kept), x, 0)


def choco_int(t: Setting, bits=8, consensus_lr=1.0):
    return _choco(t, lambda x: nearest_levels(x, bits), consensus_lr)


def choco_topk(t: Setting, fraction=0.1, consensus_lr=0.2):
    return _choco(t, lambda x: largest_kept(x, fraction), consensus_lr)


def _choco(t: Setting, Q, consensus_lr):
    x, m, hat = t.start(), t.zeros(), t.start()
    for k in range(t.steps):
        W = t.W_at(k)
        x, m = _sgd(t, k, x, m)
        hat = [hat[i] + Q(x[i] - hat[i]) for i in range(t.n)]
        pulls = [sum(W[i, j] * (hat[j] - hat[i]) for j in range(t.n)) for i in range(t.n)]
        x = [x[i] + consensus_lr * pulls[i] for i in range(t.n)]
    return x


def sparta(t: Setting, fraction=0.005):
    x, m = t.start(), t.zeros()
    for k in range(t.steps):
        x, m = _sgd(t, k, x, m)
        count = max(1, round(fraction * len(t.x0)))
        draws = generator(t.seed, COORDINATES, k)
        chosen = np.zeros(len(t.x0), dtype=bool)
        chosen[draws.choice(len(t.x0), count, replace=False, shuffle=False)] = True
        mixed = mix(t.W_at(k), x)
        x = [np.where(chosen, mixed[i], x[i]) for i in range(t.n)]
    return x


TWINS = {
    f.__name__: f
    for f in (
        gradient_tracking,
        exact_diffusion,
        momentum_tracking,
        decentlam,
        sgp,
        gossip_pga,
        local_sgd,
        slowmo,
        accum_adam,
        diloco,
        noloco,
        choco_int,
        choco_topk,
        sparta,
    )
}
