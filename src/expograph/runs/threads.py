"""How many threads a run has: chosen when it first starts, and the same whenever it is repeated.

The last digits of a run's numbers depend on it. A finished run's record says it; until then a note
beside the runs does, runs/<key>.threads, which outlives whatever ends the run.
"""

from contextlib import suppress
from pathlib import Path

from expograph.config import Run
from expograph.files import replace_text
from expograph.runs import store
from expograph.runs.cores import cores
from expograph.runs.estimate import CONVEX


def processes(runs: int, jobs: int | None = None) -> tuple[int, int]:
    """How many processes do so many runs, and how many threads there are for each."""
    jobs = max(1, min(jobs or cores(), runs))
    return jobs, max(1, cores() // jobs)


def of(run: Run, root: Path, free: int) -> int:
    """The threads that a run starts with; noted, unless a record says them.

    Args:
        run: about to be started.
        root: the results.
        free: threads there are for it if it has never been started.
    """
    if found := store.load(run, root):
        return found.threads
    note = _note(run, root)
    try:
        return max(1, int(note.read_text()))
    except (OSError, ValueError):
        chosen = 1 if run.problem.kind in CONVEX else free  # two only make it slower
        with suppress(OSError):  # a full disk: the run itself will say so
            note.parent.mkdir(parents=True, exist_ok=True)
            replace_text(note, f"{chosen}\n")
        return chosen


def forget(run: Run, root: Path) -> None:
    """Remove the note of a run whose record says its threads now."""
    _note(run, root).unlink(missing_ok=True)


def _note(run: Run, root: Path) -> Path:
    return store.runs_folder(root) / f"{run.key}.threads"
