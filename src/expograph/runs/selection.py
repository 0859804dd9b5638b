"""Which of some runs are to be done: what is finished, what is stale, what this machine lacks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from expograph import data
from expograph.config import ConfigError, Run
from expograph.config.facts import algorithm
from expograph.graphs import preflight, topology
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
    committed: dict[str, records.RunRecord] = {}
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
    """What a config can ask for and may not be had: sound graphs, data, samples, a GPU.

    Raises:
        ConfigError, DataUnavailable, ScheduleError: in one line, before anything runs.
    """
    check_graphs(runs)
    images = [(run, name) for run in runs if (name := run.value("problem.dataset"))]
    sizes = {name: len(data.load(name).train_labels) for name in {name for _, name in images}}
    for run, name in images:
        size = sizes[name]
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


def check_graphs(runs: Sequence[Run]) -> None:
    """That the mixing matrices of the runs are what their algorithms need.

    Raises:
        ConfigError, ScheduleError: in one line, before anything runs.
    """
    needed = [algorithm(run.algorithm) for run in runs]
    graphs = {
        (run.topology, run.nodes, run.local_size, facts.stochastic, facts.needs): run
        for run, facts in zip(runs, needed, strict=True)
    }
    for (*_, stochastic, needs), run in graphs.items():
        try:
            schedule = topology.build(run.topology, run.nodes, run.seed, run.local_size)
        except ValueError as e:  # of a size or with parameters that the graph does not have
            raise ConfigError(f"topology: {run.topology}, {run.nodes} nodes: {e}") from None
        preflight.check(schedule, stochastic, needs)
