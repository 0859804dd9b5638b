"""One run, done here or by every rank of a job; and a job's runs, one after the other."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import torch

from expograph.cluster.mpi_group import MpiGroup
from expograph.config import Run
from expograph.runs import store
from expograph.runs.assemble import assemble
from expograph.runs.outcome import Outcome, Progress
from expograph.runs.provenance import provenance
from expograph.runs.selection import USUAL, Policy, plan
from expograph.runs.tensorboard import Events, folder, replay, seal
from expograph.runs.train import Diverged, Record


def execute(
    run: Run,
    root: Path = store.ROOT,
    progress: Progress | None = None,
    group: MpiGroup | None = None,
    tensorboard: bool = False,
) -> str:
    """Do one run and save it: here, or on every rank of a group, of which rank 0 saves.

    With `tensorboard` its metrics also go to event files while it trains.

    Returns:
        Its status, "done" or "diverged".
    Raises:
        OSError: before the training, if there is no room for its results.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    made = provenance(run)  # of the code as it was imported, not as it is after the training
    parts = assemble(run, group)
    engine = parts.engine
    records: list[Record] = []
    status, note = "done", None
    shown = Events(run, folder(run, root)) if tensorboard and engine.root else nullcontext()
    with store.reserved(run, root) if engine.root else nullcontext() as place:
        try:
            with shown as events:
                for record in parts.records():
                    records.append(record._replace(x=None))  # only the numbers are kept
                    if events:
                        events(record.step, record.values)
                    if progress:
                        progress(run, record.step)
        except Diverged as e:
            status, note = "diverged", str(e)
        if engine.root:
            facts = {
                "status": status,
                "note": note,
                "problem": parts.problem.describe(),
                "started": started.isoformat(timespec="seconds"),
                "seconds": round(time.perf_counter() - clock, 2),
                "threads": torch.get_num_threads(),
                "transport": engine.transport,
                "hosts": group.hosts if group else None,
                "provenance": made,
            }
            store.save(run, records, facts, root, place)
            if tensorboard:
                seal(run, root)
    return status


def execute_all(
    runs: Sequence[Run],
    group: MpiGroup,
    root: Path = store.ROOT,
    policy: Policy = USUAL,
    on_progress: Progress | None = None,
    tensorboard: bool = False,
) -> Outcome:
    """`pool.sweep` by the ranks of a job: every rank calls it, one run after the other.

    What rank 0 finds finished is. A run that raises on any rank ends the whole job; the same
    command then goes on with what is left.
    """
    outcome = Outcome()
    if group.rank == 0:
        store.discard_leftovers(root)
        found = plan(runs, root, policy)
        own = {run.key for run in found.reused}
        decided = {run.key: run.key in own for run in (*found.reused, *found.recorded)}
    else:
        decided = {}
    decided = group.exchange(decided, "the list of finished runs")[0]
    for run in runs:
        if run.key in decided:
            (outcome.reused if decided[run.key] else outcome.recorded).append(run)
            if tensorboard and group.rank == 0 and decided[run.key]:
                replay(run, root)
            continue
        group.doing(run.label)
        outcome.note(run, execute(run, root, on_progress, group, tensorboard))
        if on_progress:
            on_progress(run, run.steps)
    return outcome
