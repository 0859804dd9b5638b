"""Files that a reader sees old or new, never half-written, and those that cannot be used.

Temporary names carry their writer: host, PID namespace, PID and start time of the process. What
lies in a folder that several machines share is removed only if its writer is certainly dead.
"""

import os
import re
import shutil
import socket
from functools import cache
from pathlib import Path

OWNER = re.compile(r"(?P<host>[\w-]+)\.(?P<namespace>\d+)\.(?P<pid>\d{1,9})\.(?P<start>\d+)")
LEFTOVER = re.compile(rf"\..+\.(?P<owner>{OWNER.pattern})(\.\w+)?\.tmp")


class DamagedFile(ValueError):
    """A file that we wrote is cut short or of another form; its message is one line, file first."""


def replace_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file so that a reader sees the old or the new one, never half of it."""
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: Path, content: bytes) -> None:
    """`replace_text` for what is no text."""
    new = temporary(path)
    try:
        new.write_bytes(content)
        new.replace(path)
    except BaseException:  # the disk is full, or Ctrl-C
        new.unlink(missing_ok=True)
        raise


def temporary(path: Path, what: str = "") -> Path:
    """A hidden name beside `path` that no other process uses and `remove_leftovers` knows."""
    return path.with_name(f".{path.name}.{owner()}{what and '.'}{what}.tmp")


def owner() -> str:
    """This process in words that stay its own: host.namespace.pid.start."""
    return _owner(os.getpid())


@cache
def _owner(pid: int) -> str:
    start = _started(pid)
    return f"{_host()}.{_namespace()}.{pid}.{start or 0}"


def alive(text: str) -> bool | None:
    """Whether the process with this `owner` text lives; None if that cannot be known here."""
    found = OWNER.fullmatch(text)
    if not found or found["host"] != _host() or int(found["namespace"]) != _namespace():
        return None
    if not Path("/proc/self/stat").exists():
        return None
    start = _started(int(found["pid"]))
    return start is not None and start == int(found["start"])


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders whose writers are dead; other names are left alone."""
    for path in folder.glob(".*.tmp"):
        found = LEFTOVER.fullmatch(path.name)
        if found and alive(found["owner"]) is False:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _host() -> str:
    return re.sub(r"[^\w-]", "_", socket.gethostname()) or "_"


@cache
def _namespace() -> int:
    """The number of the PID namespace; 0 where there are none."""
    try:
        return int(re.sub(r"\D", "", os.readlink("/proc/self/ns/pid")) or 0)
    except OSError:
        return 0


def _started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is no such process."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if state == "Z" else int(rest[18])  # field 22 of proc_pid_stat(5)
