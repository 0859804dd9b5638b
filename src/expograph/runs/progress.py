"""Progress of a sweep with the time that is left: bars on a terminal, plain lines in a log.

What a sweep has reached also lies in a small file, its board, which `watch` and `expograph table`
read from another terminal.
"""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from expograph.config import Run
from expograph.files import alive, owner, replace_text
from expograph.runs.estimate import cost

LOG_EVERY = 15.0  # seconds between lines when the output is not a terminal
POST_EVERY = 1.0  # seconds between two states of the board
BOARDS = "running"  # the folder of the boards, under the results
STALE = 120.0  # seconds after which a board of another machine is taken for dead


class SweepProgress:
    """Context manager; call it as `sweep`'s `on_progress`.

    The estimates weigh runs by `estimate.cost`, so long and short runs may be mixed.

    Args:
        runs: all of the sweep.
        console: where to show it: a bar for the sweep and one for each run being done, or, if it
            is no terminal, a line every quarter of a minute.
        root: the results, under which the board lies while the context is entered; None for none.
        configs: paths of the configs, for the board.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        console: Console,
        root: Path | None = None,
        configs: Sequence[str] = (),
    ) -> None:
        self.runs, self.console, self.configs = runs, console, list(configs)
        self.total = sum(map(cost, runs))
        self.shares: dict[str, float] = {}
        self.finished: set[str] = set()
        self.running: dict[str, tuple[Run, int, float]] = {}  # run, its steps done, since when
        self.started = self.logged = time.monotonic()
        self.posted = 0.0
        self.file = root / BOARDS / f"{owner()}.json" if root else None
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
        self.bars: dict[str, TaskID] = {}

    def __call__(self, run: Run, step: int) -> None:
        if run.key in self.finished:
            return
        self.shares[run.key] = cost(run) * step / run.steps
        if step == run.steps:
            self.finished.add(run.key)
            self.running.pop(run.key, None)
            if run.key in self.bars:
                self.bar.remove_task(self.bars.pop(run.key))
        else:
            since = self.running.get(run.key, (run, 0, time.monotonic()))[2]
            self.running[run.key] = run, step, since
            self._show_run(run, step, since)
        done = sum(self.shares.values())
        left = self._left(done)
        self.bar.update(self.task, completed=done, description=self._count(), left=left)
        self._post(done, left)
        if not self.console.is_terminal and time.monotonic() - self.logged > LOG_EVERY:
            self.logged = time.monotonic()
            self.console.print(f"{done / self.total:4.0%}  {self._count()}  {left}{self._now()}")

    def reuse(self, run: Run) -> None:
        """Take a run that is finished already out of what is to be done."""
        self.total -= cost(run)
        self.finished.add(run.key)
        self.bar.update(self.task, total=max(self.total, 1e-9))

    def _count(self) -> str:
        return f"{len(self.finished)} of {len(self.runs)} runs"

    def _now(self) -> str:
        """For a log: the runs being done."""
        shown = [f"{r.label} at step {k} of {r.steps}" for r, k, _ in self.running.values()]
        return f"  now: {'; '.join(shown)}" if shown else ""

    def _show_run(self, run: Run, step: int, since: float) -> None:
        left = remaining(time.monotonic() - since, step / run.steps)
        if run.key not in self.bars:
            name = f"  {run.label.rsplit(' (', 1)[0]}"
            self.bars[run.key] = self.bar.add_task(name, total=run.steps, left="")
        self.bar.update(self.bars[run.key], completed=step, left=left)

    def _left(self, done: float) -> str:
        return remaining(time.monotonic() - self.started, done / max(self.total, 1e-9))

    def _post(self, done: float, left: str) -> None:
        if self.file is None or time.monotonic() - self.posted < POST_EVERY:
            return
        self.posted = time.monotonic()
        running = [
            {"run": r.label, "key": r.key, "step": k, "steps": r.steps}
            for r, k, _ in self.running.values()
        ]
        content = {
            "owner": owner(),
            "configs": self.configs,
            "share": done / max(self.total, 1e-9),
            "count": self._count(),
            "left": left,
            "running": running,
        }
        with suppress(OSError):  # a board that cannot be written ends no sweep
            self.file.parent.mkdir(parents=True, exist_ok=True)
            replace_text(self.file, json.dumps(content, indent=1) + "\n")

    def __enter__(self) -> "SweepProgress":
        if self.file:
            self._post(0.0, "just begun")
        self.bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.__exit__(kind, value, traceback)
        if self.file:
            with suppress(OSError):
                self.file.unlink(missing_ok=True)


def remaining(elapsed: float, share: float) -> str:
    """The time left of something of which `share` took `elapsed` seconds, in words."""
    if share < 0.01 or elapsed < 3:
        return "estimating the time left"
    seconds = elapsed * (1 - share) / share
    return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"{seconds:.0f} s left"


def boards(root: Path) -> list[dict[str, Any]]:
    """What the sweeps that are running under these results have reached, as they last wrote it."""
    found = []
    for path in sorted((root / BOARDS).glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            age = time.time() - path.stat().st_mtime
            living = alive(content["owner"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # it ended between the two lines, or is no board
        if living or (living is None and age < STALE):  # None: of another machine
            found.append(content)
        elif living is False:  # killed: nobody else will remove it
            with suppress(OSError):
                path.unlink(missing_ok=True)
    return found
