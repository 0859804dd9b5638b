"""The state of a training on disk: what some ranks carry from step to step, and what was recorded.

A file holds tensors, numbers and text (torch.save); reading it runs no code (weights_only). Rows
can be read by other processes than those that wrote them: an engine's state by another engine.
"""

import hashlib
import json
import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from expograph.files import temporary
from expograph.runs.checkpoint import File, Manifest, say_damaged
from expograph.runs.train import Position


class Saved(NamedTuple):
    """What a process goes on from.

    Attributes:
        position: of the training, for the ranks that it holds.
        records: what was recorded so far, (step, values), as the process that wrote it had it.
    """

    position: Position
    records: list[tuple[int, dict[str, float]]]


def size_of(position: Position) -> int:
    """Bytes of a state, about."""
    tensors = [*position.state.values(), position.buffers]
    return sum(x.nbytes for x in tensors if isinstance(x, Tensor))


def write(
    place: Path, position: Position, ranks: range, records: Iterable[tuple[int, dict[str, float]]]
) -> File:
    """Write the state of some ranks, whole or not at all.

    Raises:
        OSError: if it cannot be written.
    """
    content = position._asdict() | {
        "state": dict(position.state),
        "first": ranks.start,
        "stop": ranks.stop,
        "records": json.dumps(list(records)),
    }
    target = place / f"{position.step}.{ranks.start}.pt"
    new = temporary(target)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with new.open("w+b") as file:
            torch.save(content, file)
            file.seek(0)
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        new.replace(target)
    except RuntimeError as e:  # torch's word for a full disk
        raise OSError(str(e).splitlines()[0]) from None
    finally:
        new.unlink(missing_ok=True)
    return File(first=ranks.start, stop=ranks.stop, sha256=checksum)


def read(place: Path, manifest: Manifest, ranks: range, device: torch.device) -> Saved | None:
    """The part of a checkpoint that is some ranks'; None, named in the log, if it is damaged."""
    parts = []
    for file in manifest.files:
        if file.first < ranks.stop and ranks.start < file.stop:
            part = _read_file(place / f"{manifest.step}.{file.first}.pt", file, manifest.step)
            if part is None:
                return None
            parts.append(part)
    try:
        content = _rows(parts, ranks)
        records = [(int(step), dict(values)) for step, values in json.loads(parts[0]["records"])]
        state = {name: _placed(value, device) for name, value in content["state"].items()}
        buffers = _placed(content["buffers"], device)
        position = Position(**content | {"state": state, "buffers": buffers})
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RuntimeError):
        say_damaged(place / f"{manifest.step}.json")
        return None
    return Saved(position, records)


def _read_file(path: Path, file: File, step: int) -> dict[str, Any] | None:
    try:
        with path.open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256:
                part: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
                if (part["first"], part["stop"], part["step"]) == (file.first, file.stop, step):
                    return part
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, EOFError, pickle.PickleError):
        pass
    say_damaged(path)
    return None


def _rows(parts: Sequence[dict[str, Any]], ranks: range) -> dict[str, Any]:
    """A `Position` as a dict, of the rows of some ranks: out of one part, or of several in order.

    As the parts were if there is one and it has these very ranks: to the last bit, layout too.
    """
    whole = {name: parts[0][name] for name in Position._fields}
    first, stop = parts[0]["first"], parts[-1]["stop"]
    if first > ranks.start or stop < ranks.stop:
        raise ValueError("some ranks are missing")
    if (len(parts), first, stop) == (1, ranks.start, ranks.stop):
        return whole

    def rows(values: list[Any]) -> Any:
        if not isinstance(values[0], Tensor):
            return values[0]
        return torch.cat(values)[ranks.start - first : ranks.stop - first].clone()

    for name in ("buffers", "sent"):
        whole[name] = rows([part[name] for part in parts])
    whole["state"] = {
        name: rows([part["state"][name] for part in parts]) for name in parts[0]["state"]
    }
    whole["failed"] = min(part["failed"] for part in parts)
    return whole


def _placed(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value
