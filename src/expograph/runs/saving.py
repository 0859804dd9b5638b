"""A run is saved while it trains, and taken up where it was left, by all its processes together.

In a job the ranks decide together: every quarter of a second or so, at a step that all of them
know, they tell each other whether one was interrupted and whether it is time to save. Each writes
its own rows; rank 0 writes the manifest once it has heard that all have.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from expograph.config import Run
from expograph.engines import Engine, embedded
from expograph.problems import Problem
from expograph.runs import checkpoint, saved_state
from expograph.runs.checkpoint import KEPT, File, Manifest
from expograph.runs.interrupt import Interruption
from expograph.runs.resuming import Saving
from expograph.runs.saved_state import Saved
from expograph.runs.spacing import Spacing
from expograph.runs.train import Position, Record

LOOK = 0.25  # seconds from one agreement of the ranks to the next, about

log = logging.getLogger(__name__)


class Saver:
    """The checkpoints of a run that is being done: `after_step` is for `train`."""

    def __init__(self, run: Run, root: Path, engine: Engine, saving: Saving) -> None:
        """Every process of the run has one, and calls the same methods in the same order."""
        self.run, self.root, self.engine, self.saving = run, root, engine, saving
        self.group = getattr(engine, "group", None)
        self.place = checkpoint.folder(run, root)
        self.resumed: tuple[int, ...] = ()
        self.seconds = 0.0  # that earlier parts of the run took
        self._kept: list[int] = []
        self._spacing: Spacing | None = None
        self._began = self._asked_at = time.perf_counter()
        self._asked = self._next = 0
        self._failed = False

    def restore(self, problem: Problem) -> Saved | None:
        """The newest checkpoint that is whole and of this run, this code and these libraries.

        Sets torch's threads to what they were. None if there is none: the run begins anew.
        """
        found = self._candidates() if self.engine.root else []
        found = self._exchanged(found)[0]
        device = problem.initial()[0].device
        for place, text in found:
            manifest = Manifest.model_validate_json(text)
            saved = saved_state.read(Path(place), manifest, self.engine.ranks, device)
            if not all(self._exchanged(saved is not None)):
                continue
            self.resumed, self.seconds = (*manifest.resumed, manifest.step), manifest.seconds
            if manifest.of.engine == self.run.engine:
                torch.set_num_threads(manifest.threads)
            if Path(place) == self.place:
                self._kept = [manifest.step]
            return saved
        return None

    def begin(self, step: int, records: Sequence[Record], interruption: Interruption) -> None:
        """The training begins at a step; `records` is the list that grows with it."""
        self._records, self._interruption = records, interruption
        self._asked, self._asked_at = step, time.perf_counter()

    def after_step(self, step: int, position: Callable[[], Position]) -> None:
        """Save if it is time, or if a process was interrupted.

        Raises:
            KeyboardInterrupt: on every process, once the interrupted run is saved.
        """
        if step < self._next:
            return
        if self._spacing is None:
            self._spacing = Spacing(self.saving.every, saved_state.size_of(position()))
        stop, due = self._interruption.number is not None, self._spacing.due(step)
        if self.group:
            stop, due = self._agreed(step, stop, due)
        if stop or due:
            began = time.perf_counter()
            self._save(position())
            self._spacing.saved(time.perf_counter() - began)
        if stop:
            self._exchanged(None)  # rank 0 has written the manifest
            raise KeyboardInterrupt

    def finish(self) -> None:
        """The run's results are written: its checkpoints are not needed any more."""
        self._exchanged(None)
        if self.group is None or self.group.local_rank == 0:  # each host may have its own disk
            checkpoint.discard(self.run, self.root)

    def _candidates(self) -> list[tuple[str, str]]:
        """(folder, manifest as JSON), the newest first."""
        sources = [self.run.key, *filter(None, [self.saving.source])]
        places = [self.place.with_name(f"{key}{checkpoint.SUFFIX}") for key in sources]
        found = [(place, one) for place in places for one in checkpoint.manifests(place)]
        fitting = [pair for pair in found if checkpoint.misfit(pair[1], self.run) is None]
        fitting.sort(key=lambda pair: -pair[1].step)
        return [(str(place), one.model_dump_json()) for place, one in fitting]

    def _agreed(self, step: int, stop: bool, due: bool) -> tuple[bool, bool]:
        """What the ranks decide, and at which step they ask each other again."""
        now = time.perf_counter()
        pace = (now - self._asked_at) / max(1, step - self._asked)
        told = self.engine.gather(torch.tensor([[float(stop), float(due), pace]]).double())
        ahead = int(LOOK / max(float(told[:, 2].max()), 1e-9))
        ahead = max(1, min(ahead, 2 * (step - self._asked)))  # a pace may have been an exception
        self._asked, self._asked_at, self._next = step, now, step + ahead
        if every := self.saving.every.steps:
            self._next = min(self._next, step + every - step % every)
        return bool(told[:, 0].any()), bool(told[0, 1])

    def _save(self, position: Position) -> None:
        ranks, file = self.engine.ranks, None
        try:
            checkpoint.prune(self.place, self._kept, ranks)
            records = [(r.step, r.values) for r in self._records] if self.engine.root else []
            file = saved_state.write(self.place, position, ranks, records)
        except OSError as e:
            self._complain(e)
        files = self._exchanged(file and file.model_dump())
        if None in files:
            return
        self._kept = [*self._kept, position.step][-KEPT:]
        if not self.engine.root:
            return
        manifest = Manifest(
            format=checkpoint.FORMAT,
            run=self.run.model_dump(),
            step=position.step,
            threads=torch.get_num_threads(),
            block=embedded.BLOCK,
            seconds=self.seconds + time.perf_counter() - self._began,
            resumed=self.resumed,
            files=tuple(File(**one) for one in files),
            **checkpoint.here(self.run),
        )
        try:
            checkpoint.write_manifest(self.place, manifest)
            checkpoint.prune(self.place, self._kept, ranks)
        except OSError as e:
            self._complain(e)

    def _complain(self, error: OSError) -> None:
        """Once: a run that cannot be saved goes on."""
        if not self._failed:
            log.warning("%s: a checkpoint was not written: %s", self.place, error.strerror or error)
        self._failed = True

    def _exchanged(self, value: Any) -> list[Any]:
        """Every process's value, by rank."""
        return self.group.exchange(value, "a checkpoint") if self.group else [value]
