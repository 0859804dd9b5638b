"""Many runs on one machine: skip what is finished, spread the rest over processes, survive."""

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from multiprocessing.managers import SyncManager
from pathlib import Path
from typing import Any

import torch

from expograph.cluster.job import Job
from expograph.config import Run
from expograph.memory import keep_freed_memory
from expograph.runs import results
from expograph.runs.assemble import assemble
from expograph.runs.provenance import provenance
from expograph.runs.tensorboard import Events, folder, replay
from expograph.runs.train import Diverged, Record

Progress = Callable[[Run, int], None]  # (run, its steps done so far)


@dataclass
class Outcome:
    """What became of a sweep; a failed run comes with the last line of its error."""

    reused: list[Run] = field(default_factory=list)
    finished: list[Run] = field(default_factory=list)
    diverged: list[Run] = field(default_factory=list)
    failed: list[tuple[Run, str]] = field(default_factory=list)

    def describe(self) -> str:
        """One line of counts."""
        counts = {
            "finished": self.finished,
            "used again": self.reused,
            "diverged": self.diverged,
            "failed": self.failed,
        }
        return ", ".join(f"{len(runs)} {word}" for word, runs in counts.items() if runs)


def execute(
    run: Run,
    root: Path = results.ROOT,
    progress: Progress | None = None,
    job: Job | None = None,
    tensorboard: bool = False,
) -> str:
    """Do one run and save it: here, or on every rank of a job, of which rank 0 saves.

    With `tensorboard` its metrics also go to event files while it trains.

    Returns:
        Its status, "done" or "diverged".
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    assembly = assemble(run, job)
    engine = assembly.engine
    records: list[Record] = []
    status, note = "done", None
    try:
        with (
            Events(run, folder(run, root))
            if tensorboard and engine.root
            else nullcontext() as events
        ):
            for record in assembly.records():
                records.append(record._replace(x=None))  # only the numbers are kept
                if events:
                    events(record.step, record.values)
                if progress:
                    progress(run, record.step)
    except Diverged as e:
        status, note = "diverged", str(e)
    if not engine.root:
        return status
    facts = {
        "status": status,
        "note": note,
        "problem": assembly.problem.describe(),
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - clock, 2),
        "threads": torch.get_num_threads(),
        "transport": engine.transport,
        "hosts": job.hosts if job else None,
        "provenance": provenance(),
    }
    results.save(run, records, facts, root)
    return status


def execute_all(
    runs: Sequence[Run],
    job: Job,
    root: Path = results.ROOT,
    force: bool = False,
    on_progress: Progress | None = None,
    tensorboard: bool = False,
) -> Outcome:
    """`sweep` by the ranks of a job: every rank calls it, one run after the other.

    Rank 0's results decide what is finished. A run that raises on any rank ends the whole job;
    the same command then goes on with what is left.
    """
    outcome = Outcome()
    if job.rank == 0:
        results.discard_leftovers(root)
    finished = [not force and results.load(run, root) is not None for run in runs]
    finished = job.exchange(finished, "the list of finished runs")[0]
    for run, reuse in zip(runs, finished, strict=True):
        if reuse:
            outcome.reused.append(run)
            if tensorboard and job.rank == 0:
                replay(run, root)
            continue
        job.doing(run.label)
        status = execute(run, root, on_progress, job, tensorboard)
        (outcome.diverged if status == "diverged" else outcome.finished).append(run)
        if on_progress:
            on_progress(run, run.steps)
    return outcome


# Seconds a training sample takes on one core, a convex step, and what it takes more for each
# worker: for estimates, nothing else.
SECONDS_PER_SAMPLE = {
    "linear": 2e-5,
    "mlp": 6e-5,
    "cnn": 1.7e-4,
    "resnet8_bn": 4.5e-4,
    "resnet8_gn": 4.5e-4,
    "retinanet_small": 2e-3,
    "faster_rcnn_small": 3e-3,
}
SECONDS_PER_STEP, SECONDS_PER_WORKER_STEP = 1e-4, 2e-6


def is_known(run: Run) -> bool:
    """Whether `cost` knows how long the run's samples take, or only guesses."""
    return getattr(run.problem, "model", "linear") in SECONDS_PER_SAMPLE


def cost(run: Run) -> float:
    """Rough seconds of work, to order a sweep and to tell the time that is left."""
    if run.problem.kind in ("logistic", "least_squares"):
        return run.steps * (SECONDS_PER_STEP + SECONDS_PER_WORKER_STEP * run.ranks)
    per_sample = SECONDS_PER_SAMPLE.get(run.problem.model, 1e-2)
    accumulation = getattr(run.problem, "accumulation", 1)
    trained = run.steps * run.ranks * run.problem.batch_size * accumulation
    return per_sample * (trained + 1000 * run.ranks)  # the local models' evaluation at the end


def sweep(
    runs: Sequence[Run],
    root: Path = results.ROOT,
    jobs: int | None = None,
    force: bool = False,
    on_progress: Progress | None = None,
    tensorboard: bool = False,
) -> Outcome:
    """Do every run that is not finished, `jobs` at a time, one process each.

    A run that raises is reported in the outcome and the others go on. On KeyboardInterrupt the
    running ones are stopped and nothing of them is kept; finished ones stay.

    Args:
        jobs: processes; None for one a core, each with one thread, which beats one process with
            many threads on models this small.
        force: do finished runs again.
        on_progress: called here as runs advance; a finished run reports its `steps`.
        tensorboard: write event files, also of the runs that are finished already.
    """
    outcome = Outcome()
    results.discard_leftovers(root)
    todo = []
    for run in runs:
        if not force and results.load(run, root):
            outcome.reused.append(run)
            if tensorboard:
                replay(run, root)
        else:
            todo.append(run)
    todo.sort(key=cost, reverse=True)  # long runs first: no long tail on one core
    work = partial(_work, root=root, tensorboard=tensorboard)
    while todo:
        suspects, todo = _round(todo, work, jobs or os.cpu_count() or 1, on_progress, outcome)
        for run in suspects:  # one of them lost its process: each again, alone
            if _round([run], work, 1, on_progress, outcome)[0]:
                outcome.failed.append((run, "its process died (killed, or out of memory?)"))
    return outcome


def _round(
    todo: list[Run],
    work: Callable[[Run], str],
    jobs: int,
    on_progress: Progress | None,
    outcome: Outcome,
) -> tuple[list[Run], list[Run]]:
    """Do `todo` in one pool of processes, noting in `outcome` what became of each run.

    Returns:
        Nothing twice, or, if a process died and took the pool with it: the runs that were being
        done, and those that had not begun.
    """
    jobs = min(jobs, len(todo))
    threads = max(1, (os.cpu_count() or 1) // jobs)
    context = multiprocessing.get_context("spawn")
    manager = SyncManager(ctx=context)
    manager.start(_end_with_parent)
    with manager:
        reports = manager.Queue()
        pool = ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_start_worker, initargs=(threads, reports)
        )
        try:
            futures = {pool.submit(work, run): run for run in todo}
            return _collect(futures, reports, on_progress, outcome)
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _collect(
    futures: dict[Future, Run], reports: Any, on_progress: Progress | None, outcome: Outcome
) -> tuple[list[Run], list[Run]]:
    by_key = {run.key: run for run in futures.values()}
    pending, begun, lost = set(futures), set(), []
    while pending:
        done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        while not reports.empty():
            key, step = reports.get()
            begun.add(key)
            if on_progress and step:
                on_progress(by_key[key], step)
        for future in done:
            run = futures[future]
            try:
                status = future.result()
            except BrokenProcessPool:
                lost.append(run)
                continue
            except Exception as e:
                cause = "".join(traceback.format_exception_only(e)).strip()
                outcome.failed.append((run, cause))
            else:
                (outcome.diverged if status == "diverged" else outcome.finished).append(run)
            if on_progress:
                on_progress(run, run.steps)
    suspects = [run for run in lost if run.key in begun]
    if lost and not suspects:  # died before its first word
        return lost, []
    return suspects, [run for run in lost if run.key not in begun]


_reports: Any = None  # the worker process's end of the queue


def _end_with_parent() -> None:
    """From now on this process ends soon after its parent was killed: nobody waits for it."""
    parent = multiprocessing.parent_process().pid

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _start_worker(threads: int, reports: Any) -> None:
    global _reports
    _reports = reports
    _end_with_parent()
    torch.set_num_threads(threads)
    keep_freed_memory()


def _work(run: Run, root: Path, tensorboard: bool) -> str:
    last = time.monotonic()
    _reports.put((run.key, 0))

    def progress(run: Run, step: int) -> None:
        nonlocal last
        if time.monotonic() - last > 0.5:  # a queue message costs a round trip
            last = time.monotonic()
            _reports.put((run.key, step))

    return execute(run, root, progress, tensorboard=tensorboard)
