"""How tables of a reader's compare with the committed ones, for a terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import get_args

from expograph.analysis.agreement import AGREE, DISAGREE, Agreement, Basis, Outcome, Pair
from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.analysis.written import heading_of, name_of, written

_COUNTS: dict[str, tuple[Outcome, ...]] = {  # column -> the outcomes that it counts
    "equal": ("equal",),
    "within the interval": ("within",),
    "outside it": ("outside",),
    "differs, no interval": ("differs",),
    "not compared": ("incomplete", "other settings"),
}


def summary(agreements: Iterable[Agreement]) -> TableResult:
    """A row a table: how many cells there are of each outcome, and the largest difference."""
    rows = []
    for agreement in agreements:
        for id in dict.fromkeys(pair.place.table for pair in agreement.pairs):
            pairs = [pair for pair in agreement.pairs if pair.place.table == id]
            found = Counter(pair.judged.outcome for pair in pairs)
            counts = [Cell(mean=len(pairs))]
            counts += [Cell(mean=sum(found[o] for o in wanted)) for wanted in _COUNTS.values()]
            cells = (*counts, Cell(text=_largest(pairs)))
            rows.append(Row(labels=(agreement.name, id), cells=cells))
    columns = [Column(name=name, format=".0f") for name in ("cells", *_COUNTS)]
    return TableResult(
        id="agreement",
        heading="cells that both have",
        labels=("table", "of"),
        columns=(*columns, Column(name="largest difference (joint interval)")),
        rows=tuple(rows),
    )


def disagreements(agreements: Iterable[Agreement]) -> TableResult:
    """A row a cell that is outside the joint interval, or differs and has none."""
    rows = [
        Row(
            labels=(agreement.name, pair.place.table, *_where(pair)),
            cells=(
                Cell(text=written(pair.ours, pair.place.column)),
                Cell(text=written(pair.theirs, pair.place.column)),
                Cell(text=_difference(pair)),
            ),
        )
        for agreement in agreements
        for pair in agreement.pairs
        if pair.judged.outcome in DISAGREE
    ]
    names = "here", "there", "difference (joint interval)"
    return TableResult(
        id="disagreements",
        heading="cells that disagree",
        labels=("table", "of", "row", "column"),
        columns=tuple(Column(name=name) for name in names),
        rows=tuple(rows),
    )


def not_compared(agreements: Iterable[Agreement]) -> list[str]:
    """A line for each reason why cells of a folder were not compared."""
    lines = []
    for agreement in agreements:
        reasons = Counter(
            pair.reason or "some of its runs are not done"
            for pair in agreement.pairs
            if pair.judged.outcome not in (*AGREE, *DISAGREE)
        )
        lines += [f"{agreement.name}: not compared, {_cells(n)}: {r}" for r, n in reasons.items()]
    return lines


def closing(agreements: Sequence[Agreement], verdicts: int, ours: object, theirs: object) -> str:
    """The result in a line.

    Args:
        agreements: of all folders.
        verdicts: how many claims have another verdict.
        ours, theirs: where the tables are.
    """
    pairs = [pair for a in agreements for pair in a.pairs]
    found = Counter(pair.judged.outcome for pair in pairs)
    compared = [pair for pair in pairs if pair.judged.outcome in (*AGREE, *DISAGREE)]
    bad = sum(found[outcome] for outcome in DISAGREE)
    parts = []
    if bad:
        parts.append(f"{bad} of {_cells(len(compared))} disagree")
    else:
        parts.append(f"all {_cells(len(compared))} agree")
    parts[0] += f": {found['equal']} equal, {found['within']} within the joint interval"
    if bad:
        parts[0] += f", {found['outside']} outside, {found['differs']} without an interval differ"
    for basis, words in zip(get_args(Basis)[1:], _BASES, strict=True):
        if count := sum(pair.basis == basis for pair in compared):
            parts.append(f"{count} {words}")
    others = sum(pair.basis == "other runs" and pair.judged.allowed is not None for pair in pairs)
    if found["outside"] and others:
        parts.append(f"1 in 20 of the {others} from other seeds may lie outside by chance")
    if verdicts:
        parts.append("1 verdict changed" if verdicts == 1 else f"{verdicts} verdicts changed")
    for place, count in (
        (ours, sum(a.only_ours for a in agreements)),
        (theirs, sum(a.only_theirs for a in agreements)),
    ):
        parts += [f"{place} has {count} more"] if count else []
    return "; ".join(parts)


_BASES = (  # of `Basis` but the first
    "rest on the same configs and seeds, trained twice",
    "rest on the very same training, whose agreement shows nothing",
)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _where(pair: Pair) -> tuple[str, str]:
    """A cell's row and column in words."""
    row = ", ".join(name_of(label) for label in pair.place.labels)
    return row, heading_of(pair.place.column.name)


def _largest(pairs: Sequence[Pair]) -> str:
    """The largest difference of numbers with where it is; "" if there are none."""
    sizes = [(abs(d), pair) for pair in pairs if (d := pair.judged.difference) is not None]
    if not sizes:
        return ""
    largest, pair = max(sizes, key=itemgetter(0))
    if not largest:
        return "none"
    return f"{_difference(pair)}: {', '.join(_where(pair))}"


def _difference(pair: Pair) -> str:
    """ "-1.35 (2.10)": the difference, and how large the joint interval lets it be."""
    difference, allowed = pair.judged.difference, pair.judged.allowed
    if difference is None:
        return ""
    text = f"{difference:+.3g}"
    return text if allowed is None else f"{text} ({allowed:.3g})"
