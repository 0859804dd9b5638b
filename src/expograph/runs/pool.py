"""Many runs on one machine: one process a core, each handed one run after the other.

Every process has a pipe of its own to here, and nothing else is shared: a process that is killed
takes its own run with it and no other.
"""

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from expograph.config import Run
from expograph.runs import store, threads
from expograph.runs.estimate import cost
from expograph.runs.outcome import Outcome, Progress
from expograph.runs.selection import USUAL, Plan, Policy, plan
from expograph.runs.tensorboard import replay
from expograph.runs.worker import ENDED, FAILED, READY, serve

WORK = "expograph.runs.runner:execute"  # imported by the processes; here it would take seconds
MOST_FAILED_STARTS = 5  # processes in a row that die before they are ready: something is wrong
DIED = "its process died (killed, or out of memory?)"


def sweep(
    runs: Sequence[Run],
    root: Path = store.ROOT,
    jobs: int | None = None,
    policy: Policy = USUAL,
    on_progress: Progress | None = None,
    tensorboard: bool = False,
    found: Plan | None = None,
) -> Outcome:
    """Do every run that is not finished, `jobs` at a time, one process each.

    A run that raises is reported in the outcome and the others go on; one whose process dies is
    tried once more at the end, alone. On KeyboardInterrupt the running ones are stopped and
    nothing of them is kept; finished ones stay.

    Args:
        jobs: processes; None for one a core, each with one thread, which beats one process with
            many threads on models this small.
        policy: what counts as finished.
        on_progress: called here as runs advance; a finished run reports its `steps`.
        tensorboard: write event files, also of the runs that are finished already.
        found: what `plan` gave, if the caller has it.
    """
    store.discard_leftovers(root)
    found = found or plan(runs, root, policy)
    outcome = Outcome(reused=found.reused, recorded=found.recorded)
    for run in found.reused if tensorboard else ():
        replay(run, root)
    todo = sorted(found.todo, key=cost, reverse=True)  # long runs first: no long tail on one core
    jobs, free = threads.processes(len(runs), jobs)
    pool = _Pool(root, tensorboard, free, on_progress)
    try:
        lost = pool.work_off(todo, jobs, outcome)
        for run in lost:
            if pool.work_off([run], 1, outcome):
                outcome.failed.append((run, DIED))
    finally:
        store.discard_leftovers(root)  # of processes that were ended in the middle of a run
    return outcome


class _Worker:
    """A process, this end of its pipe, and the run it is at."""

    def __init__(self, options: dict[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, WORK, options), daemon=True)
        self.run: Run | None = None
        self.ready = False
        with _interrupts_are_ours():
            self.process.start()
        theirs.close()  # so that the pipe ends with the process

    def begin(self, run: Run, threads: int) -> None:
        """Hand it a run."""
        self.run = run
        self._send((run, threads))

    def dismiss(self) -> None:
        """Let it end: there are no more runs."""
        self._send(None)

    def _send(self, message: tuple[Run, int] | None) -> None:
        with suppress(OSError):  # it is dead; its pipe will say so
            self.pipe.send(message)

    def end(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


class _Pool:
    """Does runs in processes, which it starts as they are needed."""

    def __init__(
        self, root: Path, tensorboard: bool, free: int, on_progress: Progress | None
    ) -> None:
        self.root, self.free = root, free
        self.options = {"root": root, "tensorboard": tensorboard}
        self.on_progress = on_progress or (lambda run, step: None)

    def work_off(self, todo: Sequence[Run], jobs: int, outcome: Outcome) -> list[Run]:
        """Do runs, noting in `outcome` what became of each but those whose process died.

        Returns:
            These.
        """
        waiting, lost = deque(todo), []
        workers: list[_Worker] = []
        failed_starts = 0
        try:
            while waiting or any(worker.run for worker in workers):
                while len(workers) < min(jobs, len(waiting) + sum(bool(w.run) for w in workers)):
                    workers.append(_Worker(self.options))
                by_pipe = {worker.pipe: worker for worker in workers}
                for pipe in wait(list(by_pipe)):
                    worker = by_pipe[pipe]
                    message = _receive(pipe)
                    if message is not None:
                        failed_starts = 0
                        self._note(worker, message, outcome)
                    else:
                        worker.end()
                        workers.remove(worker)
                        lost += [worker.run] if worker.run else []
                        failed_starts += not worker.ready
                    if worker in workers and worker.ready and not worker.run:
                        self._hand_out(waiting, worker)
                if failed_starts >= MOST_FAILED_STARTS:
                    cause = f"{failed_starts} processes in a row died while they started"
                    outcome.failed += [(run, cause) for run in waiting]
                    waiting.clear()
            return lost
        finally:
            for worker in workers:
                worker.end()

    def _hand_out(self, waiting: deque[Run], worker: _Worker) -> None:
        if waiting:
            run = waiting.popleft()
            worker.begin(run, threads.of(run, self.root, self.free))
        else:
            worker.dismiss()

    def _note(self, worker: _Worker, message: tuple[str, Any], outcome: Outcome) -> None:
        what, detail = message
        run = worker.run
        if what == READY:
            worker.ready = True
            return
        if what in (ENDED, FAILED):
            worker.run = None
            if what == ENDED:
                outcome.note(run, detail)
                threads.forget(run, self.root)
            else:
                outcome.failed.append((run, detail))
            self.on_progress(run, run.steps)
        elif detail:
            self.on_progress(run, detail)


def _receive(pipe: Connection) -> tuple[str, Any] | None:
    """The next message; None if the process is dead, perhaps in the middle of a message."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None


@contextmanager
def _interrupts_are_ours() -> Iterator[None]:
    """A process started here does not see Ctrl-C: it is ended by this one."""
    resource_tracker.ensure_running()  # started with the first process, it would unblock signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
