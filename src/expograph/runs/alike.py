"""Before its first step: have all ranks of a job the same runs, code, libraries and data?

Ranks that differ would train together all the same, and the result would pass for rank 0's.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from expograph import data
from expograph.cluster.group import Group
from expograph.cluster.launch import JobError
from expograph.config import Run
from expograph.data import Dataset, Folder
from expograph.runs.checkpoint import here


def check(runs: Sequence[Run], group: Group) -> None:
    """Compare with rank 0; every rank calls it.

    Raises:
        JobError: on every rank, naming the first rank and what it has that rank 0 has not.
    """
    every = group.exchange(facts(runs), "the comparison of the ranks")
    for rank, theirs in enumerate(every):
        for what, ours in every[0].items():
            found = theirs.get(what)
            if found != ours:
                where = f"rank {rank} on {group.hosts[rank]}"
                raise JobError(f"{where} has {what} {found}, rank 0 on {group.hosts[0]} {ours}")


def facts(runs: Sequence[Run]) -> dict[str, str]:
    """What this process would train with: what -> its version or the start of its SHA-256."""
    made = [here(run) for run in runs]
    images = {run.problem.dataset for run in runs if hasattr(run.problem, "dataset")}
    every = (run.value("problem.backbone_weights") for run in runs)
    weights = {path for path in every if path is not None}
    return {
        "runs": _short(run.key.encode() for run in runs),
        "code": _short(one["code"].encode() for one in made),
        **{name: str(version) for name, version in made[0]["versions"].items()},
        **{f"the data {name}": _short(_content(data.load(name))) for name in sorted(images)},
        **{f"the file {path}": _short([Path(path).read_bytes()]) for path in sorted(weights)},
    }


def _short(parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:12]


def _content(found: Any) -> Iterable[Any]:
    """What a data set consists of, as bytes; of pictures that stay on disk names and labels."""
    if isinstance(found, Dataset):
        arrays = found.train_images, found.train_labels, found.test_images, found.test_labels
        yield from map(np.ascontiguousarray, arrays)
    elif isinstance(found, Folder):
        for path, label in (*found.train, *found.test):
            yield f"{Path(path).name} {label}\n".encode()
    else:
        yield np.ascontiguousarray(found.train_labels)
        for target in found.test_targets:
            yield from (np.ascontiguousarray(value) for value in target.values())
