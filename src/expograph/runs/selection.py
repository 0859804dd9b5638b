"""Which of some runs are to be done: what is finished, what is stale, what this machine lacks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from expograph import data
from expograph.config import ConfigError, Run
from expograph.runs import records, store
from expograph.runs.equivalents import Codes


class Policy(NamedTuple):
    """What counts as finished.

    Attributes:
        force: nothing does.
        keep_stale: runs made by other code do too.
        committed: folders under the results, one an experiment, whose committed records do.
    """

    force: bool = False
    keep_stale: bool = False
    committed: tuple[str, ...] = ()


USUAL = Policy()


@dataclass
class Plan:
    """Some runs, sorted by what is to be done.

    Attributes:
        todo: to be done.
        stale: those of them that are finished, by other code.
        reused: finished in the runs folder.
        recorded: finished in committed records.
        kept: those of `reused` and `recorded` that were made by other code.
    """

    todo: list[Run] = field(default_factory=list)
    stale: list[Run] = field(default_factory=list)
    reused: list[Run] = field(default_factory=list)
    recorded: list[Run] = field(default_factory=list)
    kept: list[Run] = field(default_factory=list)

    def describe(self) -> list[str]:
        """Lines about runs that were made by other code."""
        lines = []
        if self.stale:
            lines.append(
                f"{_count(self.stale)} made by other code: done again; --keep-stale uses them"
            )
        if self.kept:
            lines.append(f"{_count(self.kept)} made by other code: used, as --keep-stale says")
        return lines


def _count(runs: Sequence[Run]) -> str:
    return f"{len(runs)} run was" if len(runs) == 1 else f"{len(runs)} runs were"


def plan(runs: Sequence[Run], root: Path = store.ROOT, policy: Policy = USUAL) -> Plan:
    """Sort the runs by what is to be done.

    Raises:
        DamagedFile: if the list of equivalent code or a file of committed records is damaged.
    """
    found, codes = Plan(), Codes(root)
    committed = {}
    for name in policy.committed:
        committed |= records.read(root / name / records.FILE)
    for run in runs:
        sources = ((found.reused, store.load(run, root)), (found.recorded, committed.get(run.key)))
        there = [
            (codes.is_stale(run, record.provenance), where)
            for where, record in sources
            if record and not policy.force
        ]
        usable = [one for one in there if policy.keep_stale or not one[0]]
        if usable:
            stale, where = min(usable, key=lambda one: one[0])
            where.append(run)
            found.kept += [run] if stale else []
        else:
            found.todo.append(run)
            found.stale += [run] if there else []
    return found


def check_machine(runs: Sequence[Run]) -> None:
    """What a config can ask for and this machine may not have: data, samples, a GPU.

    Raises:
        ConfigError, DataUnavailable: in one line, before anything runs.
    """
    images = [run for run in runs if hasattr(run.problem, "dataset")]
    names = {run.problem.dataset for run in images}
    sizes = {name: len(data.load(name).train_labels) for name in names}
    for run in images:
        size = sizes[run.problem.dataset]
        if run.ranks > size:
            raise ConfigError(f"nodes: {run.ranks} workers cannot share {size} training images")
        weights = getattr(run.problem, "backbone_weights", None)
        if weights and not Path(weights).is_file():
            raise ConfigError(
                f"backbone_weights: {weights} is not there; it is what "
                "torch.save(torchvision.models.resnet50(weights='DEFAULT').state_dict(), ...) makes"
            )
    if any(run.device == "cuda" for run in runs):
        import torch  # takes seconds, which runs on the CPU need not wait for here

        if not torch.cuda.is_available():
            raise ConfigError("device: 'cuda' was asked for, and torch sees no GPU; use device=cpu")
