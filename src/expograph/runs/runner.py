"""One run, done here or by every rank of a job; and a job's runs, one after the other."""

import hashlib
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from expograph.cluster.group import Group
from expograph.config import Run
from expograph.engines import Engine
from expograph.runs import divergence, store
from expograph.runs.assemble import assemble
from expograph.runs.divergence import Watched
from expograph.runs.interrupt import deferred
from expograph.runs.outcome import Outcome, Progress
from expograph.runs.own import register
from expograph.runs.provenance import provenance
from expograph.runs.resuming import USUALLY, Saving
from expograph.runs.saving import Saver
from expograph.runs.selection import USUAL, Policy
from expograph.runs.sharing import Queue, begin
from expograph.runs.tensorboard import Events, folder, seal
from expograph.runs.tracing import Traced
from expograph.runs.train import Diverged, Record

NO_MODELS = torch.empty(0)  # of records whose numbers alone are kept


def execute(
    run: Run,
    root: Path = store.ROOT,
    progress: Progress | None = None,
    group: Group | None = None,
    tensorboard: bool = False,
    saving: Saving = USUALLY,
) -> str:
    """Do one run and save it: here, or on every rank of a group, of which rank 0 saves.

    It goes on where it was left. With `tensorboard` its metrics also go to event files while it
    trains.

    Returns:
        Its status, "done" or "diverged".
    Raises:
        OSError: before the training, if there is no room for its results.
        KeyboardInterrupt: it was interrupted, and is saved in the middle.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    made = provenance(run)  # of the code as it was imported, not as it is after the training
    looks = register(run)  # this process may be one of a pool
    parts = assemble(run, group)
    engine = parts.engine
    watched = Watched(parts.problem, engine.agree_every)
    traced = Traced(engine) if group else None
    parts = parts._replace(problem=watched, engine=traced or engine)
    records: list[Record] = []
    status, note, where, models = "done", None, None, None
    shown = Events(run, folder(run, root)) if tensorboard and engine.root else nullcontext()
    place = store.reserved(run, root) if engine.root else nullcontext()
    threads = torch.get_num_threads()
    saver = Saver(run, root, engine, saving)
    try:
        with deferred() as interruption, place as reserved:
            saved = saver.restore(parts.problem)
            try:
                with shown as events:

                    def take(record: Record) -> None:
                        records.append(record)
                        if events:
                            events(record.step, record.values)
                        if progress:
                            progress(run, record.step)

                    for step, values in saved.records if saved else ():
                        take(Record(step, values, NO_MODELS))
                    before = saved.position.seconds if saved else 0.0
                    saver.begin(saved.position.step if saved else 0, records, interruption)
                    for record in parts.records(saved and saved.position, saver.after_step):
                        if record.step == run.steps:
                            models = digest(engine, record.x)
                        take(record._replace(x=NO_MODELS))  # only the numbers are kept
            except Diverged as e:
                status = "diverged"
                note, where = divergence.describe(watched, e.step, group)
            ranks = None
            if group and traced:
                trained = records[-1].values["train_seconds"] - before
                ranks = group.exchange(traced.seconds(trained), "the times of the ranks")
                traced.write(run.key, group.rank)
            if engine.root:
                facts: dict[str, Any] = {
                    "status": status,
                    "note": note,
                    "diverged": where,
                    "problem": parts.problem.describe(),
                    "started": started.isoformat(timespec="seconds"),
                    "seconds": round(saver.seconds + time.perf_counter() - clock, 2),
                    "threads": torch.get_num_threads(),
                    "transport": engine.transport,
                    "hosts": group.hosts if group else None,
                    "seconds_by_rank": ranks,
                    "models": models,
                    "resumed": saver.resumed,
                    "provenance": made,
                }
                if looks:
                    facts["looks"] = looks
                store.save(run, records, facts, root, reserved)
                if tensorboard:
                    seal(run, root)
            saver.finish()
    finally:
        torch.set_num_threads(threads)
    return status


def digest(engine: Engine, x: torch.Tensor) -> str:
    """The SHA-256 of all n models, of the SHA-256 of each; R of them, x (R, d), are held here."""
    own = [hashlib.sha256(row.cpu().contiguous().numpy()).digest() for row in x.detach()]
    every = engine.gather(torch.tensor([list(one) for one in own], dtype=torch.uint8))
    return hashlib.sha256(every.numpy().tobytes()).hexdigest()


def execute_all(
    runs: Sequence[Run],
    group: Group,
    root: Path = store.ROOT,
    policy: Policy = USUAL,
    on_progress: Progress | None = None,
    tensorboard: bool = False,
    saving: Saving = USUALLY,
) -> Outcome:
    """`pool.sweep` by the ranks of a job: every rank calls it, one run after the other.

    Rank 0 hands out the runs, and alone knows what became of all. A run that raises on any rank
    ends the whole job; the same command then goes on with what is left. Runs that another sweep of
    the same folder is at are left to it, and count as failed here if it is still at them at the
    end: ranks that wait would be taken for hung ones.
    """
    by_key = {run.key: run for run in runs}
    left, outcome = begin(runs, root, policy, tensorboard) if group.rank == 0 else ([], Outcome())
    tell = on_progress or (lambda run, step: None)
    queue = Queue(left, root, policy, outcome, tell)  # of the other ranks it is empty

    def advance(run: Run, step: int) -> None:
        tell(run, step)
        queue.look()

    def next_key() -> str | None:
        run = queue.next()
        return run.key if run else None

    try:
        while key := group.exchange(next_key(), "the next run")[0]:
            run = by_key[key]
            group.doing(run.label)
            outcome.note(run, execute(run, root, advance, group, tensorboard, saving))
            queue.release(run)
            tell(run, run.steps)
        queue.leave()
    finally:
        queue.close()
    return outcome
