"""What became of a sweep's runs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from expograph.config import Run

Progress = Callable[[Run, int], None]  # (run, its steps done so far)


@dataclass
class Outcome:
    """What became of a sweep's runs; a failed one comes with its error in one line."""

    reused: list[Run] = field(default_factory=list)
    recorded: list[Run] = field(default_factory=list)  # committed records that were accepted
    finished: list[Run] = field(default_factory=list)
    diverged: list[Run] = field(default_factory=list)
    failed: list[tuple[Run, str]] = field(default_factory=list)

    def note(self, run: Run, status: str) -> None:
        """Enter a run that ended with this status."""
        (self.diverged if status == "diverged" else self.finished).append(run)

    @property
    def count(self) -> int:
        """Of how many runs it is known what became of them."""
        known = (*self.reused, *self.recorded, *self.finished, *self.diverged)
        return len(known) + len(self.failed)

    def describe(self) -> str:
        """One line of counts."""
        counts = {
            "finished": len(self.finished),
            "used again": len(self.reused),
            "taken from committed records": len(self.recorded),
            "diverged": len(self.diverged),
            "failed": len(self.failed),
        }
        return ", ".join(f"{count} {word}" for word, count in counts.items() if count)
