"""results/reliability.md: what was tried to lose something, how often, and what was lost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expograph.analysis.table_result import TableResult, Tables, load
from expograph.measure import soak

FOLDER = "reliability"
NOTES = {
    "kills": (
        "`make chaos KILLS=50`: runs are killed at random moments, every second time when a "
        "temporary file of a checkpoint is seen, up to four times a run, and then left to their "
        "end.",
        "While a checkpoint was written: what the kill left behind was half a checkpoint.",
        "Other numbers: runs of which any recorded number (times aside) or the SHA-256 of the "
        "final models is not that of a run that was never stopped. It, runs not finished and "
        "processes left are to be 0.",
    ),
    "soak": (
        "`make soak HOURS=1`: small runs, one after the other in one process; early and late are "
        "medians over a tenth of them, after the first tenth and at the end. Memory may grow by "
        f"{100 * (soak.GROWTH - 1):.0f} %, open files not at all.",
    ),
}


def with_table(root: Path, table: TableResult, made: Mapping[str, Any]) -> Tables:
    """The page under `root` with one of its tables made anew; the other stays."""
    before = load(root / FOLDER)
    tables = {one.id: one for one in before.tables} if before else {}
    origins = {**(before.made if before else {}), table.id: dict(made)}
    tables[table.id] = table
    notes = []
    for name in NOTES:
        if name in tables:
            by = origins[name]
            machine = f"{by['cpu']}, {by['cores']} cores; commit {by['commit']}"
            notes += [*NOTES[name], f"{tables[name].heading}: {machine}."]
    shown = tuple(tables[name] for name in NOTES if name in tables)
    return Tables(title="Reliability", tables=shown, notes=tuple(notes), made=origins)
