"""The training loop: a problem, an algorithm, a schedule and an engine in, records out."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from expograph.algorithms import Algorithm
from expograph.algorithms.base import State
from expograph.engines import Engine
from expograph.engines.embedded import Embedded
from expograph.graphs.checks import CHECKED_STEPS, check_schedule
from expograph.graphs.topology import Topology
from expograph.problems.problem import Problem
from expograph.runs.contraction import checked

NEVER = 2**62  # a step that no run reaches


class Record(NamedTuple):
    """What was measured after `step` steps.

    Attributes:
        step: steps done, 0 .. steps.
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


class Position(NamedTuple):
    """All that training carries from one step to the next; draws are addressed by the step.

    Attributes:
        step: steps done.
        state: the algorithm's state by its fields' names: tensors of R rows, and plain numbers.
        buffers: (R, b) of the networks.
        sent: (R,) int64, bytes sent so far.
        seconds: of training so far.
        failed: the step at which a loss was first not finite, `NEVER` so far.
    """

    step: int
    state: Mapping[str, Any]
    buffers: Tensor
    sent: Tensor
    seconds: float
    failed: int


AfterStep = Callable[[int, Callable[[], Position]], None]  # (steps done, gives the position)


class Diverged(Exception):
    """A loss (seen at every step) or a model (seen when recorded) is not finite any more."""

    def __init__(self, step: int) -> None:
        super().__init__(f"diverged at step {step}: a worker's loss or model is not finite")
        self.step = step


def train(
    problem: Problem,
    algorithm: Algorithm,
    schedule: Topology,
    engine: Engine | None = None,
    *,
    steps: int,
    step_size: float | Callable[[int], float],
    beta: float = 0.0,
    record_every: int = 10,
    evaluate_every: int | None = None,
    start: Position | None = None,
    after_step: AfterStep | None = None,
) -> Iterator[Record]:
    """Train; yield a record before the first step, every `record_every` steps and at the end.

    Evaluation and metrics are neither timed nor counted as communication.

    Args:
        problem: what the workers minimise, built for the engine's ranks.
        algorithm: the update rule.
        schedule: the mixing matrices, over as many ranks as the problem has workers.
        engine: made for this schedule; the embedded one by default. In a job every rank trains
            with its own.
        steps: how many, at least 1.
        step_size: step k -> lr, or one lr for all.
        beta: momentum, 0 <= beta < 1.
        record_every: steps between records.
        evaluate_every: steps between evaluations of the problem's metrics, a multiple of
            `record_every`; None for the end only.
        start: where an earlier training of the same was left; its records are not yielded again.
        after_step: called after every step but the last, once its record was taken.
    Raises:
        ValueError: at once, in one line, where these do not fit together.
        Diverged: when a loss or a model is no longer finite, on every rank; earlier records stand.
        NotContracting: at a recorded step, if averaging has spread the workers.
    """
    engine = Embedded(schedule) if engine is None else engine
    _check_parts(problem, algorithm, schedule, engine)
    _check_numbers(algorithm, steps, step_size, beta, record_every, evaluate_every)
    lr_at = step_size if callable(step_size) else lambda k: step_size
    every = record_every, evaluate_every
    return _records(problem, algorithm, engine, steps, lr_at, beta, *every, start, after_step)


def _records(
    problem: Problem,
    algorithm: Algorithm,
    engine: Engine,
    steps: int,
    lr_at: Callable[[int], float],
    beta: float,
    record_every: int,
    evaluate_every: int | None,
    start: Position | None,
    after_step: AfterStep | None,
) -> Iterator[Record]:
    """The loop itself."""
    held = len(engine.ranks)
    x0, b0 = map(engine.broadcast, problem.initial())
    state = algorithm.init(x0.repeat(held, 1))
    buffers = b0.repeat(held, 1)
    losses = torch.zeros(held)
    first, seconds, failed = 0, 0.0, NEVER
    sent_before: Tensor | int = 0
    if start:
        state, buffers, sent_before = _filled(state, start.state), start.buffers, start.sent
        first, seconds, failed = start.step, start.seconds, start.failed

    def grad(x: Tensor) -> Tensor:
        nonlocal losses, buffers
        losses, gradients, buffers = problem.gradient(x, buffers, k)
        return gradients

    def record(step: int, lr: float | None) -> Record:
        x = algorithm.model(state)
        mean, sent = engine.mean(x), engine.gather(engine.sent + sent_before)
        values = {
            "consensus_distance": float(engine.gather((x - mean).square().sum(dim=1)).mean()),
            "bytes_sent_mean": float(sent.double().mean()),
            "bytes_sent_max": int(sent.max()),
            "train_seconds": seconds,
        }
        if lr is not None:
            values |= {"train_loss": float(engine.gather(losses).mean()), "lr": lr}
        final = step == steps
        if final or (evaluate_every and step % evaluate_every == 0):
            mean_buffers = engine.mean(buffers)
            measured = engine.gather(problem.measure(x, buffers, mean, mean_buffers, final))
            if engine.root:
                values |= problem.evaluate(mean, measured, final)
        return Record(step, values, x)

    def position() -> Position:
        sent = engine.sent + sent_before
        return Position(step, _fields(state), buffers, sent, seconds, failed)

    if not start:
        yield record(0, None)
    for k in range(first, steps):
        began = time.perf_counter()
        lr, step = lr_at(k), k + 1
        recording = step % record_every == 0 or step == steps
        mix = engine.mixer(k // algorithm.every)
        if recording and algorithm.stochastic == "doubly":
            mix = checked(mix, engine, step)
        state = algorithm.step(state, grad, mix, lr, beta)
        finite = math.isfinite(float(losses.sum()))
        seconds += time.perf_counter() - began
        if not finite or (recording and not bool(algorithm.model(state).isfinite().all())):
            failed = min(failed, step)
        if recording or step % engine.agree_every == 0:
            failed = engine.least(failed)
            if failed <= step:
                raise Diverged(failed)
        if recording:
            yield record(step, lr)
        if after_step and step < steps:
            after_step(step, position)


def _fields(state: State) -> dict[str, Any]:
    """A state by its fields' names; of a rule whose state is one tensor, that."""
    if isinstance(state, Tensor):
        return {"x": state}
    if not hasattr(state, "_asdict"):
        raise TypeError(f"the algorithm's state is a {type(state).__name__}, no NamedTuple")
    fields: dict[str, Any] = state._asdict()
    return fields


def _filled(state: State, fields: Mapping[str, Any]) -> State:
    """A state of the same form with these fields."""
    return fields["x"] if isinstance(state, Tensor) else state._replace(**fields)


def _check_parts(
    problem: Problem, algorithm: Algorithm, schedule: Topology, engine: Engine
) -> None:
    """Whether they belong together, whatever the numbers."""
    if engine.topology is not schedule:
        theirs = engine.topology
        raise ValueError(
            f"the engine was made for another schedule, {theirs.name} over {theirs.n} ranks, than "
            f"the {schedule.name} over {schedule.n} to train with: make it for the same object"
        )
    if problem.workers != schedule.n:
        raise ValueError(
            f"the problem has {problem.workers} workers, {schedule.name} connects {schedule.n}"
        )
    if list(problem.ranks) != list(engine.ranks):
        raise ValueError(
            f"the problem holds the workers {list(problem.ranks)}, the engine {list(engine.ranks)}"
        )
    if algorithm.exact:
        for k in range(schedule.period or CHECKED_STEPS):
            if not schedule.at(k).is_exact_average:
                raise ValueError(
                    f"the algorithm is for exact averaging at each step, {schedule.name} over "
                    f"{schedule.n} ranks does not at step {k}"
                )
    check_schedule(schedule, algorithm.stochastic, algorithm.needs)


def _check_numbers(
    algorithm: Algorithm,
    steps: int,
    step_size: float | Callable[[int], float],
    beta: float,
    record_every: int,
    evaluate_every: int | None,
) -> None:
    counts = {"steps": steps, "record_every": record_every, "evaluate_every": evaluate_every}
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    if evaluate_every and evaluate_every % record_every:
        raise ValueError(
            f"evaluate_every = {evaluate_every} must be a multiple of record_every, {record_every}"
        )
    if not callable(step_size) and not 0 < step_size < math.inf:
        raise ValueError(f"step_size must be positive and finite, got {step_size}")
    if not 0 <= beta < 1:
        raise ValueError(f"beta must be in [0, 1), got {beta}")
    if beta and not algorithm.momentum:
        raise ValueError(f"the algorithm has no momentum: beta must be 0, got {beta}")
