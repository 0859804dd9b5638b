"""Where a number comes from: code, versions and machine, as plain data."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

from expograph.config import Run
from expograph.runs.fingerprint import fingerprint

PACKAGES = ("torch", "torchvision", "numpy", "scipy")


def provenance(run: Run | None = None) -> dict[str, str | int | bool | None]:
    """Git commit, package versions, machine and command of this process.

    Args:
        run: whose code `code` is the fingerprint of; None for that of all runs.
    """
    commit, changed = repository(Path(__file__).parent)
    return {"commit": commit, "uncommitted_changes": changed, "code": fingerprint(run)} | _here()


@cache
def repository(folder: Path) -> tuple[str | None, bool | None]:
    """The commit of the repository that the source in `folder` belongs to, and whether it differs.

    Both None where there is no git, or only a repository around it that does not hold the source:
    an installed package's, or one that this was unpacked into.
    """
    here = Path(__file__).name
    if _git(folder, "ls-files", "--error-unmatch", "--", here) is None:
        return None, None
    changes = _git(folder, "status", "--porcelain", "--", ":/src", ":/configs")  # :/ is its top
    return _git(folder, "rev-parse", "HEAD"), None if changes is None else bool(changes)


@cache
def _here() -> dict[str, str | int | None]:
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # an extra that is not installed
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", *arguments]
    try:
        out = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return out.stdout.strip()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "unknown")
