"""Getting files from a network that may not answer: Debian's archive without root, time limits."""

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

NETWORK_TIMEOUT = 10  # seconds without an answer, after which a server counts as unreachable
FETCH_TIMEOUT = 900  # seconds for one whole command of apt


def debian_package(name: str, scratch: Path) -> Path:
    """Unpack a package of Debian's archive under `scratch` and return the folder it unpacks to.

    apt's package lists and caches are private to `scratch` where the system's don't do, so that
    neither root rights nor an earlier `apt-get update` are needed.

    Raises:
        RuntimeError: if this is no Debian-like system, or its archive can't be reached.
    """
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise RuntimeError("no apt-get and dpkg-deb on this machine")
    scratch = scratch.resolve()  # apt takes relative folders as relative to /
    for folder in ("lists/partial", "archives/partial"):
        (scratch / folder).mkdir(parents=True)
    options = {
        "Dir::Cache": scratch,
        "Acquire::http::Timeout": NETWORK_TIMEOUT,
        "Acquire::https::Timeout": NETWORK_TIMEOUT,
        "Acquire::Retries": 0,
        # root's apt would step down to the user _apt, who can't enter a private folder
        "APT::Sandbox::User": "root",
    }
    private = {
        **options,
        "Dir::State": scratch,
        "Dir::State::Lists": scratch / "lists",
        "APT::Update::Error-Mode": "any",  # else an update without a network "succeeds"
    }
    download = ("download", name)
    error = _apt(scratch, options, *download)
    if error:  # no lists, as in a bare container, or lists too old
        # update may fail: an unrelated source of the system may be down
        update_error = _apt(scratch, private, "update")
        error = _apt(scratch, private, *download)
        if error:
            raise RuntimeError("; ".join(filter(None, (update_error, error))))
    (package,) = scratch.glob("*.deb")
    _run(scratch, "dpkg-deb", "-x", package.name, "unpacked")
    return scratch / "unpacked"


def _apt(scratch: Path, options: dict, *command: str) -> str:
    """Run apt-get in `scratch`; why it failed, or "" if it did not."""
    settings = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    try:
        _run(scratch, "apt-get", "-q", *settings, *command)
    except RuntimeError as error:
        return str(error)
    return ""


def _run(folder: Path, *command: str) -> None:
    """Run a command quietly in `folder`; RuntimeError with its last words if it fails."""
    name = f"{command[0]} {command[-1]}"
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{name}: no end after {FETCH_TIMEOUT} s") from error
    if done.returncode:
        raise RuntimeError(f"{name}: {' '.join(done.stderr.strip().splitlines()[-2:])}")


@contextmanager
def network_timeout():
    """Let sockets give up: torchvision sets no timeout, and a silent firewall hangs it."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(NETWORK_TIMEOUT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
