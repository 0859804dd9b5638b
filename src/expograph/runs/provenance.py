"""Where a number comes from: code, versions and machine, as plain data."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent
NUMERIC = (  # the code that a run's numbers depend on
    "algorithms",
    "data",
    "engines",
    "graphs",
    "networks",
    "problems",
    "randomness.py",
    "step_size.py",
    "runs/assemble.py",
    "runs/train.py",
)


@cache
def code_fingerprint() -> str:
    """12 hex digits over the text of the modules in `NUMERIC`."""
    digest = hashlib.sha256()
    for name in NUMERIC:
        path = SOURCE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


@cache
def provenance() -> dict[str, str | int | bool | None]:
    """Git commit, package versions, machine and command of this process."""
    packages = ("torch", "torchvision", "numpy", "scipy")
    changes = _git("status", "--porcelain", "--", ":/src", ":/configs")  # :/ is the repository
    return {
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": None if changes is None else bool(changes),
        "code": code_fingerprint(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def _git(*arguments: str) -> str | None:
    try:
        out = subprocess.run(
            ["git", *arguments], cwd=SOURCE, capture_output=True, text=True, check=True, timeout=10
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
