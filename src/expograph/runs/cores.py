"""How many cores this process may use: under taskset or in a container not all of them."""

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """The cores of its affinity, or of its control group's quota if that is less; at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(max(1, min(affinity or 1, *_quotas())))


def _quotas(groups: Path = CGROUPS, of_process: Path = Path("/proc/self/cgroup")) -> list[float]:
    """Cores that this process's control group and those above it allow, rounded up."""
    try:
        lines = of_process.read_text().splitlines()
    except OSError:
        lines = []
    found = [math.inf]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups if not controllers else groups / "cpu"  # version 2, or 1
        folder = root / path.lstrip("/")
        found += [_quota(at) for at in (folder, *folder.parents) if at.is_relative_to(root)]
    return found


def _quota(folder: Path) -> float:
    try:
        version_2 = folder / "cpu.max"
        if version_2.exists():
            quota, period = version_2.read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        allowed = int(quota)  # "max" without a limit; -1 in version 1
        return math.ceil(allowed / int(period)) if allowed > 0 else math.inf
    except (OSError, ValueError):
        return math.inf
