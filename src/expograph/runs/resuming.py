"""What a command asks for about checkpoints, and what it says of those that are there."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from expograph.config import ConfigError, Run
from expograph.runs import checkpoint, store
from expograph.runs.selection import Policy
from expograph.runs.spacing import Every


class Saving(NamedTuple):
    """What is asked for about checkpoints.

    Attributes:
        every: how often.
        source: key of a run on another engine whose checkpoints will do, too.
    """

    every: Every = Every()
    source: str | None = None


USUALLY = Saving()


def describe(runs: Sequence[Run], root: Path, policy: Policy) -> list[str]:
    """Lines about the checkpoints of runs that are about to be done."""
    going_on, lines = 0, []
    for run in () if policy.force else runs:
        place = checkpoint.folder(run, root)
        found = checkpoint.manifests(place) if place.is_dir() else []
        wrong = [checkpoint.misfit(one, run) for one in found]
        if None in wrong:
            going_on += 1
        elif found:
            lines.append(f"{run.label}: its checkpoint {wrong[0]}: starts anew")
    if going_on:
        lines.append(f"{going_on} {'run goes' if going_on == 1 else 'runs go'} on from checkpoints")
    return lines


def check_source(source: str, runs: Sequence[Run], root: Path) -> None:
    """Whether the run that a command asks for can go on from the checkpoints of run `source`.

    Raises:
        ConfigError: in one line, if it cannot.
    """
    place = store.runs_folder(root) / f"{source}{checkpoint.SUFFIX}"
    found = checkpoint.manifests(place)
    if not found:
        raise ConfigError(f"--resume-from {source}: no checkpoint in {place}")
    if len(runs) != 1:
        raise ConfigError(f"--resume-from {source}: is for one run, these are {len(runs)}")
    wrong = [checkpoint.misfit(one, runs[0]) for one in found]
    if None not in wrong:
        raise ConfigError(f"--resume-from {source}: the checkpoint {wrong[0]}")
