"""What readers of a table should know of single runs: which diverged, whose workers drift apart."""

import math
from collections.abc import Iterable

from expograph.config import Run
from expograph.runs.records import RunRecord

GROWTH = 10.0  # of consensus distance, over the second half of a run, from which it is remarked
ROUNDING = 1e-10  # consensus distance below which its growth is one of rounding errors
SHOWN = 3  # runs that a line names


def remarks(found: Iterable[RunRecord]) -> list[str]:
    """A line on runs that diverged and one on workers that drift apart, where there are any."""
    found = list(found)
    diverged = [(r, r.note or "diverged") for r in found if r.status == "diverged"]
    grown = [(r, growth(r)) for r in found if r.status == "done"]
    grown = sorted([pair for pair in grown if pair[1] > GROWTH], key=lambda pair: -pair[1])
    lines = []
    if diverged:
        lines.append(f"Diverged: {_named(diverged)}.")
    if grown:
        told = [(record, f"by {ratio:.3g} times") for record, ratio in grown]
        lines.append(
            "Caution: workers drift apart, their consensus distance grew by more than "
            f"{GROWTH:g} times over the second half of the run: {_named(told)}."
        )
    return lines


def growth(record: RunRecord) -> float:
    """Consensus distance of the last record over that in the middle of the run; 0 if unknown."""
    values = record.curve.get("consensus_distance", [])
    pairs = zip(record.curve["step"], values, strict=False)
    points = [
        (k, v) for k, v in pairs if k is not None and v is not None
    ]  # every record has a step
    if len(points) < 2:
        return 0.0
    last, end = points[-1]
    middle = [value for step, value in points if step <= last / 2][-1:]
    if not middle or not math.isfinite(end) or min(middle[0], end) <= ROUNDING:
        return 0.0
    return end / middle[0]


def _named(runs: list[tuple[RunRecord, str]]) -> str:
    named = [f"{Run.model_validate(record.run).label} {what}" for record, what in runs[:SHOWN]]
    more = [f"and {len(runs) - SHOWN} more"] if len(runs) > SHOWN else []
    return "; ".join([*named, *more])
