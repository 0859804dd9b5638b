"""The step size of every step, from the config alone."""

import math

from expograph.config import Run


def step_size(run: Run, k: int) -> float:
    """The step size at step k: a linear warm-up to lr, then the decay.

    lr is `run.lr`, times n, sqrt(n) or the number of ranks if `run.lr_scale` says so. With
    t = k - warmup_steps, T = steps - warmup_steps and the drops of `step` at absolute steps:
        constant      lr
        cosine        lr (1 + cos(pi t / T)) / 2
        step          lr * decay_factor^(how many of decay_steps are <= k)
        inverse       lr / (1 + t / decay_steps[0])
        inverse_sqrt  lr / sqrt(1 + t / decay_steps[0])
    """
    n = run.nodes
    factors = {"none": 1, "nodes": n, "ranks": run.ranks, "sqrt_nodes": math.sqrt(n)}
    lr = run.lr * factors[run.lr_scale]
    if k < run.warmup_steps:
        return lr * (k + 1) / run.warmup_steps
    t = k - run.warmup_steps
    match run.decay:
        case "cosine":
            return lr * (1 + math.cos(math.pi * t / (run.steps - run.warmup_steps))) / 2
        case "step":
            return lr * run.decay_factor ** sum(drop <= k for drop in run.decay_steps)
        case "inverse":
            return lr / (1 + t / run.decay_steps[0])
        case "inverse_sqrt":
            return lr / math.sqrt(1 + t / run.decay_steps[0])
    return lr
