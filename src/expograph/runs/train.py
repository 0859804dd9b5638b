"""The training loop: wire problem, topology, algorithm and engine together and yield records."""

import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from expograph import problems
from expograph.algorithms import ALGORITHMS, init
from expograph.config import Run
from expograph.engines import Engine
from expograph.engines.embedded import Embedded
from expograph.graphs.topology import build
from expograph.step_size import step_size

NEVER = 2**62  # a step that no run reaches


class Record(NamedTuple):
    """What was measured after `step` steps.

    Attributes:
        step: steps done, 0 .. run.steps.
        values: metric name -> value. Always: consensus_distance = 1/n sum_i |x_i - x_bar|^2,
            bytes_sent_mean and bytes_sent_max (over ranks, since the start), train_seconds (since
            the start, without evaluation); after step 0 also train_loss (mean over the workers'
            batches of the last step) and lr. When evaluated: the problem's own metrics.
            Where the engine is not the root: what is measured of the averaged model is missing.
        x: (R, d) the models held here, for callers that want more; valid until the next record.
    """

    step: int
    values: dict[str, float]
    x: Tensor


class Diverged(Exception):
    """A loss (seen at every step) or a model (seen when recorded) is not finite any more."""

    def __init__(self, step: int) -> None:
        super().__init__(f"diverged at step {step}: a worker's loss or model is not finite")
        self.step = step


def train(
    run: Run, problem: problems.Problem | None = None, engine: Engine | None = None
) -> Iterator[Record]:
    """Train as `run` says; yield a record before the first step and every `run.record_every`.

    Evaluation and metrics are neither timed nor counted as communication. The problem's metrics
    come every `run.evaluate_every` steps (a multiple of record_every is best) and at the end.

    Args:
        run: the resolved config.
        problem: the run's problem for the engine's ranks, if the caller has built it already.
        engine: the embedded one by default; in a job every rank trains with its own.
    Raises:
        Diverged: when a loss or a model is no longer finite, on every rank; earlier records stand.
    """
    engine = engine or Embedded(build(run.topology, run.nodes, run.seed, run.local_size))
    problem = problem or problems.build(run, engine.ranks)
    algorithm = ALGORITHMS[run.algorithm]
    x0, b0 = map(engine.broadcast, problem.initial())
    state = init(x0.repeat(len(engine.ranks), 1))
    buffers = b0.repeat(len(engine.ranks), 1)
    losses = torch.zeros(len(engine.ranks))
    seconds, failed = 0.0, NEVER

    def grad(x: Tensor) -> Tensor:
        nonlocal losses, buffers
        losses, gradients, buffers = problem.gradient(x, buffers, k)
        return gradients

    def record(step: int, lr: float | None) -> Record:
        x, mean = state.x, engine.mean(state.x)
        sent = engine.gather(engine.sent)
        values = {
            "consensus_distance": float(engine.gather((x - mean).square().sum(dim=1)).mean()),
            "bytes_sent_mean": float(sent.double().mean()),
            "bytes_sent_max": int(sent.max()),
            "train_seconds": seconds,
        }
        if lr is not None:
            values |= {"train_loss": float(engine.gather(losses).mean()), "lr": lr}
        final = step == run.steps
        if final or (run.evaluate_every and step % run.evaluate_every == 0):
            mean_buffers = engine.mean(buffers)
            measured = engine.gather(problem.measure(x, buffers, mean, mean_buffers, final))
            if engine.root:
                values |= problem.evaluate(mean, measured, final)
        return Record(step, values, x)

    yield record(0, None)
    for k in range(run.steps):
        start = time.perf_counter()
        lr = step_size(run, k)
        state = algorithm.step(state, grad, engine.mixer(k), lr, run.beta)
        finite = math.isfinite(float(losses.sum()))
        seconds += time.perf_counter() - start
        step = k + 1
        recording = step % run.record_every == 0 or step == run.steps
        if not finite or (recording and not bool(state.x.isfinite().all())):
            failed = min(failed, step)
        if recording or step % engine.agree_every == 0:
            failed = int(engine.gather(torch.full((len(engine.ranks),), failed)).min())
            if failed <= step:
                raise Diverged(failed)
        if recording:
            yield record(step, lr)
