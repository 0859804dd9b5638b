"""Runs that several sweeps of one folder share: each is done by whoever locks it first.

results/runs/<key>.lock      while a run is being done: by whom
"""

import logging
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from expograph.config import Run
from expograph.files import alive
from expograph.runs import locks, store
from expograph.runs.checkpoint import discard_leftovers, discard_unneeded
from expograph.runs.outcome import Outcome, Progress
from expograph.runs.selection import Plan, Policy, plan
from expograph.runs.tensorboard import replay

LOOK_EVERY = 1.0  # seconds between two looks at what other sweeps do
TELL_AFTER = 5.0  # seconds of waiting for them, after which that is said

log = logging.getLogger(__name__)


def lock_of(run: Run, root: Path) -> Path:
    """The lock of a run."""
    return store.runs_folder(root) / f"{run.key}.lock"


def begin(
    runs: Sequence[Run], root: Path, policy: Policy, tensorboard: bool, found: Plan | None = None
) -> tuple[list[Run], Outcome]:
    """What is left to do of some runs, and an outcome that has those that are finished already.

    What dead processes have left is removed, and checkpoints that nobody needs.

    Args:
        tensorboard: write event files of the finished ones.
        found: what `plan` gave, if the caller has it.
    """
    discard_leftovers(root)
    locks.remove_dead(store.runs_folder(root))
    found = found or plan(runs, root, policy)
    discard_unneeded(found, root, policy)
    for run in found.reused if tensorboard else ():
        replay(run, root)
    return found.todo, Outcome(reused=found.reused, recorded=found.recorded)


class Queue:
    """Runs to be done, handed out one by one: of those that are left, one that nobody else is at.

    Attributes:
        waiting: not yet looked at.
        elsewhere: locked by other sweeps when they were looked at last.
    """

    def __init__(
        self,
        todo: Sequence[Run],
        root: Path,
        policy: Policy,
        outcome: Outcome,
        on_progress: Progress,
    ) -> None:
        """`outcome` gets what others have done meanwhile, and what cannot be waited for."""
        self.waiting, self.elsewhere = deque(todo), deque[Run]()
        self._root, self._outcome, self._on_progress = root, outcome, on_progress
        self._policy = policy._replace(committed=())  # what others did lies among the runs
        self._held: set[Path] = set()
        self._beaten = self._looked = self._found = time.monotonic()
        self._told = False

    def __bool__(self) -> bool:
        return bool(self.waiting or self.elsewhere)

    def next(self) -> Run | None:
        """A run for this process, locked; None if there is none now."""
        while self.waiting:
            run = self.waiting.popleft()
            if not self._lock(run):
                self.elsewhere.append(run)
            elif self._is_finished(run):
                self.release(run)
            else:
                self._found = time.monotonic()
                return run
        return None

    def release(self, run: Run) -> None:
        """A run handed out has ended."""
        path = lock_of(run, self._root)
        self._held.discard(path)
        locks.release(path)

    def close(self) -> None:
        """Release what is still held."""
        for path in self._held:
            locks.release(path)
        self._held.clear()

    def leave(self) -> None:
        """Wait for nobody: what others are at counts as failed here."""
        for run in self.elsewhere:
            path = lock_of(run, self._root)
            who = locks.named(locks.holder_of(path) or "")
            self._outcome.failed.append((run, f"{path}: {who} does it"))
        self.elsewhere.clear()

    def look(self) -> None:
        """Show that this process lives, and see what has become of the runs of others."""
        now = time.monotonic()
        if now - self._beaten > locks.BEAT_EVERY:
            self._beaten = now
            for path in self._held:
                locks.beat(path)
        if self.elsewhere and now - self._looked > LOOK_EVERY:
            self._looked = now
            for _ in range(len(self.elsewhere)):
                self._ask(self.elsewhere.popleft())
            self._tell(now)

    def _ask(self, run: Run) -> None:
        """Whether a run that another sweep had is done or free now, or to be given up."""
        path = lock_of(run, self._root)
        holder = locks.holder_of(path)
        lives = alive(holder) if holder else None
        if self._is_finished(run):
            return
        if holder is None or lives is False:
            self.waiting.append(run)
        elif lives is None and locks.is_silent(path):
            self._outcome.failed.append(
                (run, f"{path}: {locks.named(holder)} does it, and has been silent for "
                f"{locks.SILENT / 60:.0f} minutes; if that is over, remove the file")
            )  # fmt: skip
        else:
            self.elsewhere.append(run)

    def _tell(self, now: float) -> None:
        """Say once whom this waits for, if all that is left is done by others."""
        if not self.elsewhere or self._held or self._told or now - self._found < TELL_AFTER:
            return
        self._told = True
        path = lock_of(self.elsewhere[0], self._root)
        who = locks.named(locks.holder_of(path) or "")
        log.warning("%d runs are being done by %s (%s): waiting", len(self.elsewhere), who, path)

    def _lock(self, run: Run) -> bool:
        path = lock_of(run, self._root)
        try:
            if locks.take(path) is not None:
                return False
        except OSError:  # a disk that is full or cannot be written: the run itself will say so
            return True
        self._held.add(path)
        return True

    def _is_finished(self, run: Run) -> bool:
        """Whether another sweep has done it since it was planned here; noted, if so."""
        if self._policy.force or store.load(run, self._root) is None:
            return False
        if not plan([run], self._root, self._policy).reused:
            return False
        self._outcome.reused.append(run)
        self._on_progress(run, run.steps)
        return True
