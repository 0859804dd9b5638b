"""Do two makings of the same tables agree? Cell by cell, a reader's against the committed ones.

Two numbers with intervals agree if their difference is no larger than the joint interval allows:

- means over seeds with half-widths: the 95 % interval of the difference of two independent means
  (`statistics.half_width_of_difference`, Welch);
- one seed against a mean over n: h sqrt(n + 1), the 95 % prediction interval of one more value;
- intervals [l, u] that are not symmetric: for a > b, (a - b)^2 <= (a - l_a)^2 + (u_b - b)^2
  (Zou and Donner, Statistics in Medicine 27, 2008), an open end allowing anything; what is only
  known to lie beyond the end of a measurement agrees with a number if their intervals overlap.

The two are taken to be independent. Where they share seeds they are not, and the interval allows
more than 95 %. Numbers without intervals are equal within `ROUNDING`, or differ.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from expograph.analysis.statistics import half_width_of_another, half_width_of_difference
from expograph.analysis.table_result import (
    FILE,
    Cell,
    Column,
    TableError,
    TableResult,
    Tables,
    load,
)
from expograph.config import Run
from expograph.runs import records
from expograph.runs.destination import CUSTOM
from expograph.runs.records import RunRecord
from expograph.runs.results import flatten

ROUNDING = 1e-5  # relative: what sums in another order make of float32 numbers
NEUTRAL = {"seed", "engine", "device", "record_every", "evaluate_every"}  # of a cell's settings
UNREAD = {"runs", "running", "tensorboard", "report", "figures", "mine"}  # folders without tables
CONFIG = "config"  # that `Tables.made` names, unless they are measurements of a machine

Outcome = Literal["equal", "within", "outside", "differs", "incomplete", "other settings"]
AGREE: tuple[Outcome, ...] = ("equal", "within")
DISAGREE: tuple[Outcome, ...] = ("outside", "differs")
Basis = Literal["other runs", "same seeds", "same runs"]


class Place(NamedTuple):
    """Where a cell stands: the table's id, the labels of its row, its column."""

    table: str
    labels: tuple[Any, ...]
    column: Column


class Judged(NamedTuple):
    """How two cells compare.

    Attributes:
        outcome: "equal" within rounding; "within" or "outside" the joint interval; "differs" where
            there is no interval.
        difference: the first number minus the second; None unless both are numbers.
        allowed: how large the joint interval lets it be; None if there is none.
    """

    outcome: Outcome
    difference: float | None = None
    allowed: float | None = None


class Pair(NamedTuple):
    """A cell that both have.

    Attributes:
        place: where it stands.
        ours, theirs: the two cells.
        judged: how they compare; not by their numbers if runs are still missing ("incomplete") or
            were made with other settings.
        basis: whether they rest on other runs; on runs of the same configs and seeds, trained
            twice; or on the very same training.
        reason: the first setting in which the runs differ: "lr: 0.1, not 0.03".
    """

    place: Place
    ours: Cell
    theirs: Cell
    judged: Judged
    basis: Basis
    reason: str | None = None


class Agreement(NamedTuple):
    """Two folders of tables, compared.

    Attributes:
        name: of the first folder, relative to where it was looked for.
        pairs: the cells that both have, in order.
        only_ours, only_theirs: how many cells the other lacks.
    """

    name: str
    pairs: list[Pair]
    only_ours: int
    only_theirs: int


class Side(NamedTuple):
    """A folder's tables, and the records of their runs by key."""

    tables: Tables
    records: Mapping[str, RunRecord]

    @classmethod
    def read(cls, folder: Path) -> "Side":
        """A folder with a table.json.

        Raises:
            DamagedFile: one line naming the file.
        """
        tables = load(folder)
        if tables is None:  # listed, but a link to nothing
            raise TableError(f"{folder / FILE}: is a link to a file that is not there")
        return cls(tables, records.read(folder / records.FILE))


def folders(root: Path) -> list[str]:
    """Every folder under `root` that has a table.json, relative to it, in order."""
    found = []
    for place, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in UNREAD)
        if FILE in files:
            found.append(Path(place).relative_to(root).as_posix())
    return sorted(found)


def counterpart(name: str) -> str:
    """The folder that one is held against: of a variation, custom/<name>/..., it is <name>."""
    top, _, rest = name.partition("/")
    return rest.split("/")[0] if top == CUSTOM else name


def compare(name: str, ours: Side, theirs: Side) -> Agreement:
    """Compare the cells of tables with the same id, labels of the row, and column."""
    mine, other = _cells(ours.tables.tables), _cells(theirs.tables.tables)
    pairs = [
        _pair(place, cell, other[address][1], ours, theirs)
        for address, (place, cell) in mine.items()
        if address in other
    ]
    return Agreement(name, pairs, len(mine.keys() - other.keys()), len(other.keys() - mine.keys()))


def judge(ours: Cell, theirs: Cell) -> Judged:
    """Compare two cells, each with a number, with what it lies beyond, or with a text."""
    if ours.mean is None or theirs.mean is None:
        return Judged(_without_numbers(ours, theirs))
    difference = ours.mean - theirs.mean
    if abs(difference) <= ROUNDING * max(abs(ours.mean), abs(theirs.mean)):
        return Judged("equal", difference, allowed_between(ours, theirs))
    allowed = allowed_between(ours, theirs)
    if allowed is None:
        return Judged("differs", difference)
    return Judged("within" if abs(difference) <= allowed else "outside", difference, allowed)


def allowed_between(ours: Cell, theirs: Cell) -> float | None:
    """How far two numbers may be apart by their joint interval; None if they have none."""
    cells = ours, theirs
    if any(map(_is_asymmetric, cells)):
        high, low = sorted(cells, key=lambda cell: cell.number, reverse=True)
        return math.hypot(_below(high), _above(low))
    of_many = [(c.half_width, c.count) for c in cells if c.half_width is not None and c.count]
    if len(of_many) == 2:
        return half_width_of_difference(*zip(*of_many, strict=True))
    if len(of_many) == 1 and any(cell.count == 1 for cell in cells):
        return half_width_of_another(*of_many[0])
    return None


def _is_asymmetric(cell: Cell) -> bool:
    return cell.low is not None or cell.high is not None or cell.beyond is not None


def _below(cell: Cell) -> float:
    """From a number down to the end of its interval; 0 without one."""
    return cell.half_width or (0.0 if cell.low is None else cell.number - cell.low)


def _above(cell: Cell) -> float:
    """From a number up to the end of its interval, which may be open; 0 without one."""
    if cell.high is None and cell.beyond is not None:
        return math.inf
    return cell.half_width or (0.0 if cell.high is None else cell.high - cell.number)


def _without_numbers(ours: Cell, theirs: Cell) -> Outcome:
    """The outcome of two cells of which at least one has no number."""
    if ours.mean is None and theirs.mean is None:
        same = (ours.text, ours.beyond) == (theirs.text, theirs.beyond)
        return "equal" if same else "differs"
    number, open_ended = (ours, theirs) if theirs.mean is None else (theirs, ours)
    if open_ended.beyond is None:
        return "differs"
    lowest = open_ended.beyond if open_ended.low is None else open_ended.low
    return "within" if lowest <= number.number + _above(number) else "outside"


Cells = dict[str, tuple[Place, Cell]]  # by an address that the two sides have in common


def _cells(tables: Iterable[TableResult]) -> Cells:
    """The cells in which something of ours stands."""
    found: Cells = {}
    for table in tables:
        for row in table.rows:
            labels = sorted(zip(table.labels, row.labels, strict=True), key=lambda pair: pair[0])
            for column, cell in zip(table.columns, row.cells, strict=True):
                if cell.mean is None and cell.beyond is None and cell.text is None:
                    continue
                under = column.name if column.key is None else [column.key, column.value]
                address = json.dumps([table.id, labels, under])
                found[address] = Place(table.id, row.labels, column), cell
    return found


def _pair(place: Place, ours: Cell, theirs: Cell, mine: Side, other: Side) -> Pair:
    basis = _basis(ours, theirs, mine.records, other.records)
    if _is_incomplete(ours, mine.records) or _is_incomplete(theirs, other.records):
        return Pair(place, ours, theirs, Judged("incomplete"), basis)
    reason = None
    if basis == "other runs":
        reason = _unlike(_settings(ours, mine.records), _settings(theirs, other.records))
    judged = judge(ours, theirs) if reason is None else Judged("other settings")
    return Pair(place, ours, theirs, judged, basis, reason)


def _basis(ours: Cell, theirs: Cell, mine: Mapping, other: Mapping) -> Basis:
    keys = set(ours.runs)
    if not keys or keys != set(theirs.runs):
        return "other runs"
    there = [(mine[key], other[key]) for key in keys if key in mine and key in other]
    same = len(there) == len(keys) and all(_is_one_training(*pair) for pair in there)
    return "same runs" if same else "same seeds"


def _is_one_training(a: RunRecord, b: RunRecord) -> bool:
    """Whether two records are of one training: the clock tells two apart."""
    return (a.final, a.seconds, a.provenance) == (b.final, b.seconds, b.provenance)


def _is_incomplete(cell: Cell, found: Mapping[str, RunRecord]) -> bool:
    """Whether runs of a cell are still to come."""
    missing = cell.mean is None and bool(found) and not set(cell.runs) <= found.keys()
    return cell.planned is not None or missing


def _settings(cell: Cell, found: Mapping[str, RunRecord]) -> list[dict[str, Any]] | None:
    """The configs of a cell's runs without what is `NEUTRAL`; None where not all are known."""
    if not cell.runs or not set(cell.runs) <= found.keys():
        return None
    runs = (flatten(Run.model_validate(found[key].run).model_dump()) for key in cell.runs)
    return [{k: v for k, v in run.items() if k not in NEUTRAL} for run in runs]


def _unlike(ours: list[dict] | None, theirs: list[dict] | None) -> str | None:
    """The first setting that only one of two cells' runs have, in words; None if there is none."""
    if ours is None or theirs is None:
        return None
    for key in dict.fromkeys(key for run in (*ours, *theirs) for key in run):
        here, there = ([run.get(key) for run in runs] for runs in (ours, theirs))
        if any(value not in there for value in here) or any(value not in here for value in there):
            return f"{key}: {_words(here)}, not {_words(there)}"
    return None


def _words(values: list[Any]) -> str:
    return " and ".join(dict.fromkeys(str(value) for value in values))
