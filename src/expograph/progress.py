"""Progress of a sweep with the time that is left: a bar on a terminal, plain lines in a log."""

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from expograph.config import Run
from expograph.sweep import cost

LOG_EVERY = 15.0  # seconds between lines when the output is not a terminal


class SweepProgress:
    """Context manager; call it as `sweep`'s `on_progress`.

    The estimate weighs runs by `sweep.cost`, so long and short runs may be mixed.
    """

    def __init__(self, runs: Sequence[Run], console: Console) -> None:
        self.runs, self.console = runs, console
        self.total = sum(map(cost, runs))
        self.shares: dict[str, float] = {}
        self.finished: set[str] = set()
        self.started = self.logged = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=max(self.total, 1e-9), left="")

    def __call__(self, run: Run, step: int) -> None:
        if run.key in self.finished:
            return
        self.shares[run.key] = cost(run) * step / run.steps
        if step == run.steps:
            self.finished.add(run.key)
        done = sum(self.shares.values())
        count = f"{len(self.finished)} of {len(self.runs)} runs"
        left = self._left(done)
        self.bar.update(self.task, completed=done, description=count, left=left)
        if not self.console.is_terminal and time.monotonic() - self.logged > LOG_EVERY:
            self.logged = time.monotonic()
            self.console.print(f"{done / self.total:4.0%}  {count}  {left}")

    def reuse(self, run: Run) -> None:
        """Take a run that is finished already out of what is to be done."""
        self.total -= cost(run)
        self.finished.add(run.key)
        self.bar.update(self.task, total=max(self.total, 1e-9))

    def _left(self, done: float) -> str:
        elapsed = time.monotonic() - self.started
        if done < 0.01 * self.total or elapsed < 3:
            return "estimating the time left"
        seconds = elapsed * (self.total - done) / done
        return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"{seconds:.0f} s left"

    def __enter__(self) -> "SweepProgress":
        self.bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.__exit__(kind, value, traceback)
