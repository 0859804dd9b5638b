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
        return sum(
            map(len, (self.reused, self.recorded, self.finished, self.diverged, self.failed))
        )

    def describe(self) -> str:
        """One line of counts."""
        counts = {
            "finished": self.finished,
            "used again": self.reused,
            "taken from committed records": self.recorded,
            "diverged": self.diverged,
            "failed": self.failed,
        }
        return ", ".join(f"{len(runs)} {word}" for word, runs in counts.items() if runs)
