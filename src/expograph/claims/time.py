"""Claims about time: measured steps of averaging, and the hours of the cost model."""

from collections import defaultdict
from pathlib import Path
from typing import Annotated

from pydantic import Field

from expograph.analysis.table_result import TableResult
from expograph.claims import evidence
from expograph.claims.arguments import Folder, Share
from expograph.claims.outcome import Part, every, sure

ONE_PEER = "one-peer exponential"  # averagings, as `make testbed` calls them
OTHERS = ("BlueFog allreduce", "Horovod allreduce", "ring", "static exponential")
PREDICTIONS = {"predictive": "calibrated on one cell", "left out": "fitted to all other cells"}


def fastest(
    root: Path,
    measured: Annotated[list[Folder], Field(min_length=1)],
    from_elements: Annotated[int, Field(ge=1, le=10**9)],
    hours: Folder,
    within: Share,
) -> list[Part]:
    """Steps on the virtual cluster, and how much the paper's hours and ours say one-peer saves.

    In the cost model one-peer is the fastest by construction; what it can be wrong about is by how
    much. `measured` and `hours` are folders under root.
    """
    parts = [_fastest_step(root / name, from_elements) for name in measured]
    table = evidence.table(root / hours, "hours", "cost-model")
    published = _saved(table, "published")
    for column, text in PREDICTIONS.items():
        ours = _saved(table, column)
        parts.append(
            Part(
                column,
                f"by as much as published, within {within:.0%}, in the cost model {text}",
                every(sure(abs(q / published[n] - 1) <= within) for n, q in ours.items()),
                "parallel SGD's hours over one-peer's, ours against published: "
                + ", ".join(f"{q:.2f} against {published[n]:.2f} at {n}" for n, q in ours.items()),
            )
        )
    return parts


def _fastest_step(folder: Path, from_elements: int) -> Part:
    times = evidence.table(folder, "times", "testbed")
    by_size: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for row in times.means():
        if row["elements"] >= from_elements:
            by_size[row["ranks"], row["elements"]][row["averaging"]] = row["ms"]
    quotients = {
        elements: min(ms[name] for name in OTHERS) / ms[ONE_PEER]
        for (_, elements), ms in sorted(by_size.items())
    }
    return Part(
        folder.name,
        f"fastest averaging from {from_elements:,} elements on, {folder.name}",
        every(sure(q > 1) for q in quotients.values()),
        "next fastest over one-peer: "
        + ", ".join(f"{q:.2f} at {elements:,}" for elements, q in quotients.items()),
    )


def _saved(hours: TableResult, column: str) -> dict[int, float]:
    """Parallel SGD's hours over one-peer's, by the number of nodes."""
    by_cell = {(row["topology"], row["nodes"]): row[column] for row in hours.means()}
    sizes = sorted({nodes for _, nodes in by_cell})
    return {n: by_cell["fully_connected", n] / by_cell["one_peer_exponential", n] for n in sizes}
