"""Locks that say who holds them: files that outlive a killed process, and are recovered then.

A lock's text is its holder's `files.owner`: host, PID namespace, PID and start time. One whose
process is certainly dead is taken over; one of another host is respected, whatever its age.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from expograph.files import OWNER, alive, owner, temporary

BEAT_EVERY = 20.0  # seconds between two signs of life of a holder: the lock's modification time
SILENT = 300.0  # seconds without one, after which nobody waits for a holder on another host
HALF_WRITTEN = 10.0  # seconds that a lock without a holder's name may be in the making
TRIES = 10  # at a lock that others take and release all the time


def take(path: Path) -> str | None:
    """Take a lock.

    Returns:
        None if this process holds it now, else the `owner` who does ("" if it does not say).
    Raises:
        OSError: if no lock can be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    own = temporary(path)
    holder: str | None = ""
    try:
        own.write_text(owner())
        for _ in range(TRIES):
            if _is_new(own, path):
                return None
            holder = holder_of(path)
            if holder == owner():
                return None
            if holder is not None and not _is_left(path, holder):
                return holder
            if holder is not None:
                _remove(path, holder)
        return holder or ""
    finally:
        own.unlink(missing_ok=True)


def release(path: Path) -> None:
    """Give a lock back, if this process holds it."""
    if holder_of(path) == owner():
        with suppress(OSError):
            path.unlink(missing_ok=True)


def beat(path: Path) -> None:
    """Show that this process, which holds the lock, lives."""
    with suppress(OSError):
        os.utime(path)


def holder_of(path: Path) -> str | None:
    """The `owner` who holds a lock; None if nobody does, "" if it is not known who."""
    try:
        text = path.read_bytes()[:1000].decode("ascii", "replace").strip()
    except OSError:
        return None
    return text if OWNER.fullmatch(text) else ""


def is_silent(path: Path) -> bool:
    """Whether the holder has given no sign of life for long."""
    return _age(path) > SILENT


def named(holder: str) -> str:
    """A holder for people: "process 123 on host"."""
    found = OWNER.fullmatch(holder)
    return f"process {found['pid']} on {found['host']}" if found else "a process that is not named"


def remove_dead(folder: Path) -> None:
    """Remove the locks in a folder whose holders are certainly dead."""
    for path in folder.glob("*.lock"):
        holder = holder_of(path)
        if holder is not None and _is_left(path, holder):
            _remove(path, holder)


def _is_new(own: Path, path: Path) -> bool:
    """Make the lock, with its text at once, unless there is one."""
    try:
        os.link(own, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links: empty for a moment
        try:
            with path.open("x") as file:
                file.write(owner())
        except FileExistsError:
            return False
    return True


def _is_left(path: Path, holder: str) -> bool:
    """Whether nobody can hold the lock any more."""
    return alive(holder) is False if holder else _age(path) > HALF_WRITTEN


def _remove(path: Path, holder: str) -> None:
    """Remove a lock that was left by this holder, and no other: it may be another's by now."""
    grave = temporary(path, "dead")
    with suppress(OSError):
        path.rename(grave)
        if holder_of(grave) != holder:
            os.link(grave, path)
    grave.unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
