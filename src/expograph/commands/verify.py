"""Do your tables agree with the committed ones?

examples:
  expograph verify                          results/mine/ against results/
  expograph verify table2 table3            these only
  expograph verify --results ../other/results --against results

Cells that both have are compared: the same table, row and column. Means over seeds agree if their
difference lies within the joint interval, the 95 % interval of a difference of two independent
means: t(k) sqrt(e1^2 + e2^2) with the standard errors e = half-width / t(n - 1) and Welch's k; one
seed and a mean, if it lies in the mean's prediction interval. Numbers without an interval are equal
within 1e-5, relative, or differ. Cells whose runs were made with other settings, or are still
missing, are not compared. Of claims (claims.json, where both have one) the verdicts are compared.
Measurements of machines are compared only if they are named.

exit status: 0 all agree, 1 something disagrees, 2 there is nothing to compare or a file is damaged.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from expograph.analysis import agreement
from expograph.analysis.agreement import AGREE, CONFIG, DISAGREE, Agreement, Side
from expograph.config import ConfigError
from expograph.names import known
from expograph.report.agreement import closing, disagreements, not_compared, summary
from expograph.report.screen import Screen, show
from expograph.runs import results

if TYPE_CHECKING:
    from expograph.claims import Finding

LEDGER = "claims.json"
MINE = "mine"  # the folder under the results that `make reproduce-table` writes


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument(
        "names", nargs="*", metavar="EXPERIMENT", help="default: all that both have"
    )
    parser.add_argument(
        "--results", type=Path, default=results.ROOT / MINE, help="yours (default: results/mine/)"
    )
    parser.add_argument(
        "--against", type=Path, default=results.ROOT, help="the others (default: results/)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare and print; 0 if all agree."""
    ours, theirs = arguments.results, arguments.against
    agreements, left_out = compared(ours, theirs, arguments.names)
    verdicts = changed_verdicts(ours, theirs, arguments.names)
    console = Console()
    tables = [summary(agreements), disagreements(agreements)]
    show(console, [Screen(table) for table in tables if table.rows])
    lines = not_compared(agreements)
    if left_out:
        lines.append(f"left out, measurements of a machine: {', '.join(left_out)}")
    for mine, other in verdicts:
        lines.append(f"claim {mine.id}: {mine.verdict}, {other.verdict} in {theirs}")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    outcomes = {pair.judged.outcome for each in agreements for pair in each.pairs}
    if not outcomes & {*AGREE, *DISAGREE}:
        raise ConfigError(f"{ours}: none of its cells can be compared with those of {theirs}")
    line = closing(agreements, len(verdicts), ours, theirs)
    console.print(line, markup=False, soft_wrap=True)
    return int(bool(outcomes & {*DISAGREE} or verdicts))


def compared(ours: Path, theirs: Path, names: list[str]) -> tuple[list[Agreement], list[str]]:
    """The folders that both have, compared, and those left out as measurements of a machine.

    Raises:
        ConfigError: there is no such folder, or nothing in common.
        DamagedFile: a table or a file of records is damaged.
    """
    for place in (ours, theirs):
        if not place.is_dir():
            raise ConfigError(f"{place}: no such folder; `make reproduce-table` makes results/mine")
    if ours.resolve() == theirs.resolve():
        raise ConfigError(f"--results {ours}: is the folder that it is held --against")
    there = set(agreement.folders(theirs))
    pairs = [(name, agreement.counterpart(name)) for name in agreement.folders(ours)]
    pairs = [(name, other) for name, other in pairs if other in there]
    if not pairs:
        raise ConfigError(f"{ours}: has no table that {theirs} has too; `make reproduce-table`?")
    for name in names:
        try:
            known("table", name, dict.fromkeys(word for pair in pairs for word in pair))
        except ValueError as e:
            raise ConfigError(f"{ours} and {theirs}: {e}") from None
    found, left_out = [], []
    for name, other in pairs:
        if names and not {name, other} & set(names):
            continue
        sides = Side.read(ours / name), Side.read(theirs / other)
        if names or all(CONFIG in side.tables.made for side in sides):
            found.append(agreement.compare(name, *sides))
        else:
            left_out.append(name)
    return found, left_out


def changed_verdicts(
    ours: Path, theirs: Path, names: list[str]
) -> list[tuple["Finding", "Finding"]]:
    """The claims that both ledgers have, of the experiments if any are named, and that changed."""
    if not all((place / LEDGER).is_file() for place in (ours, theirs)):
        return []
    from expograph import claims  # imports torch, as measuring them takes

    here, there = claims.load(ours), claims.load(theirs)
    if here is None or there is None:
        return []
    pairs = claims.changed(here, there)
    return [pair for pair in pairs if not names or Path(pair[0].config or "").stem in names]
