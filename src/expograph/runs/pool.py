"""Many runs on one machine: one process a core, each handed one run after the other.

Every process has a pipe of its own to here, and nothing else is shared: a process that is killed
takes its own run with it and no other.
"""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from expograph.config import Run
from expograph.runs import store, threads
from expograph.runs.checkpoint import discard_leftovers
from expograph.runs.estimate import cost
from expograph.runs.outcome import Outcome, Progress
from expograph.runs.resuming import USUALLY, Saving
from expograph.runs.selection import USUAL, Plan, Policy
from expograph.runs.sharing import LOOK_EVERY, Queue, begin
from expograph.runs.worker import ENDED, FAILED, READY, serve

WORK = "expograph.runs.runner:execute"  # imported by the processes; here it would take seconds
GRACE = 120.0  # seconds that a process has to finish its step and save its run
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
    saving: Saving = USUALLY,
) -> Outcome:
    """Do every run that is not finished, `jobs` at a time, one process each.

    A run that raises is reported in the outcome and the others go on; one whose process dies is
    tried once more at the end, alone, from its last checkpoint. Runs that another sweep of the
    same folder is at are left to it, and waited for. On KeyboardInterrupt the running ones finish
    their step and are saved; the next call goes on with them.

    Args:
        jobs: processes; None for one a core, each with one thread, which beats one process with
            many threads on models this small.
        policy: what counts as finished.
        on_progress: called here as runs advance; a finished run reports its `steps`.
        tensorboard: write event files, also of the runs that are finished already.
        found: what `plan` gave, if the caller has it.
        saving: how often runs are saved in the middle.
    """
    left, outcome = begin(runs, root, policy, tensorboard, found)
    todo = sorted(left, key=cost, reverse=True)  # long runs first: no long tail on one core
    jobs, free = threads.processes(len(runs), jobs)
    pool = _Pool(root, tensorboard, free, on_progress, policy, saving)
    try:
        lost = pool.work_off(todo, jobs, outcome)
        for run in lost:
            if pool.work_off([run], 1, outcome):
                outcome.failed.append((run, DIED))
    finally:
        discard_leftovers(root)  # of processes that were ended in the middle of a run
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
        """Asked to, it ends: at once, or when the run that it trains is saved."""
        self.process.terminate()
        self.process.join(GRACE)
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Pool:
    """Does runs in processes, which it starts as they are needed."""

    def __init__(
        self,
        root: Path,
        tensorboard: bool,
        free: int,
        on_progress: Progress | None,
        policy: Policy,
        saving: Saving,
    ) -> None:
        self.root, self.free, self.policy = root, free, policy
        self.options = {"root": root, "tensorboard": tensorboard, "saving": saving}
        self.on_progress = on_progress or (lambda run, step: None)

    def work_off(self, todo: Sequence[Run], jobs: int, outcome: Outcome) -> list[Run]:
        """Do runs, noting in `outcome` what became of each but those whose process died.

        Returns:
            These.
        """
        queue = Queue(todo, self.root, self.policy, outcome, self.on_progress)
        workers: list[_Worker] = []
        lost: list[Run] = []
        failed_starts = 0
        try:
            while queue or any(worker.run for worker in workers):
                busy = sum(bool(worker.run) for worker in workers)
                while len(workers) < min(jobs, len(queue.waiting) + busy):
                    workers.append(_Worker(self.options))
                speaking = wait([worker.pipe for worker in workers], LOOK_EVERY)
                for worker in [w for w in workers if w.pipe in speaking]:
                    message = _receive(worker.pipe)
                    if message is not None:
                        failed_starts = 0
                        self._note(worker, message, outcome, queue)
                    else:
                        worker.end()
                        workers.remove(worker)
                        if worker.run:
                            queue.release(worker.run)
                            lost.append(worker.run)
                        failed_starts += not worker.ready
                queue.look()
                for worker in [w for w in workers if w.ready and not w.run]:
                    self._hand_out(queue, worker)
                if failed_starts >= MOST_FAILED_STARTS:
                    cause = f"{failed_starts} processes in a row died while they started"
                    outcome.failed += [(run, cause) for run in (*queue.waiting, *queue.elsewhere)]
                    break
            return lost
        finally:
            for worker in workers:
                worker.process.terminate()  # all at once, before each is waited for
            for worker in workers:
                worker.end()
            queue.close()

    def _hand_out(self, queue: Queue, worker: _Worker) -> None:
        if run := queue.next():
            worker.begin(run, threads.of(run, self.root, self.free))
        elif not queue:
            worker.dismiss()

    def _note(
        self, worker: _Worker, message: tuple[str, Any], outcome: Outcome, queue: Queue
    ) -> None:
        what, detail = message
        if what == READY:
            worker.ready = True
            return
        run = worker.run
        assert run is not None, f"{what}: of a process that has no run"
        if what in (ENDED, FAILED):
            worker.run = None
            if what == ENDED:
                outcome.note(run, detail)
                threads.forget(run, self.root)
            else:
                outcome.failed.append((run, detail))
            queue.release(run)
            self.on_progress(run, run.steps)
        elif detail:
            self.on_progress(run, detail)


def _receive(pipe: Connection) -> tuple[str, Any] | None:
    """The next message; None if the process is dead, perhaps in the middle of a message."""
    try:
        message: tuple[str, Any] = pipe.recv()
        return message
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
