"""Check that changed code gives the numbers of older code, so that older runs stay in use.

examples:
  expograph equivalent record               by the older code: 100 steps of each laptop config
  expograph equivalent check results/equivalent/0123456789ab.json      by the changed code

`record` writes results/equivalent/<fingerprint of the code>.json. `check` does the same runs by the
present code. If losses and consensus distance agree within 1e-5, relative, after 100 steps,
accuracies within 0.05 points, and parameters within 1e-5 after 10 steps, it enters both codes in
results/equivalent.json, and runs of the older one are not stale any more. Where training makes
rounding errors larger than that, the first two may differ by ten times (the square root of the
steps) as much as four runs of the present code do whose first models are a last bit apart. Both
take some minutes.

exit status: 0 recorded, or equal; 1 the numbers differ, 2 the command or a file is wrong.
"""

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from expograph.config import ConfigError, Experiment, Run, experiments
from expograph.data import DataUnavailable
from expograph.engines import ENGINES
from expograph.runs import equivalents, reference, results, store
from expograph.runs.equivalents import Check
from expograph.runs.provenance import provenance
from expograph.runs.reference import Difference, Measured, Reference
from expograph.runs.selection import check_machine
from expograph.validation import first_mistake


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("action", choices=["record", "check"])
    parser.add_argument("file", nargs="?", type=Path, help="check: what `record` wrote")
    parser.add_argument("--configs", type=Path, default=Path("configs"), help="default: configs/")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")


def run(arguments: argparse.Namespace) -> int:
    """Record or check."""
    if (arguments.action == "check") != (arguments.file is not None):
        raise ConfigError("equivalent: `record` takes no file, `check` takes one")
    store.check_writable(arguments.results)
    if arguments.action == "record":
        return record(arguments)
    return check(reference.read(arguments.file), arguments.results)


def record(arguments: argparse.Namespace) -> int:
    """Do the short runs and write the reference file."""
    every = experiments(arguments.configs)
    laptop = [e for e in every if is_possible_here(e)]
    if not laptop:
        raise ConfigError(f"{arguments.configs}: no config that can be run here")
    path = reference.write(reference.record(every, laptop, ENGINES), arguments.results)
    print(f"{path}: short runs of {', '.join(e.name for e in laptop)}")
    return 0


def is_possible_here(experiment: Experiment) -> bool:
    """Whether it is a laptop's, and its data are here."""
    if experiment.scale != "laptop":
        return False
    try:
        check_machine(experiment.runs)
    except (ConfigError, DataUnavailable) as e:
        print(f"left out: {experiment.name}: {e}", file=sys.stderr)
        return False
    return True


def check(older: Reference, root: Path) -> int:
    """Repeat the short runs, print the comparison, and enter what is equal."""
    pairs, uncovered = reference.pairs(older)
    lines, equal = [], True
    measured = []
    for one in older.measured:
        run = _run(one)
        if older.still_means(run):
            measured.append(one)
        else:
            print(f"not compared, means something else now: {_named(run)}")
    for line, same in comparison(measured):
        print(line, flush=True)
        lines.append(line)
        equal &= same
    if not equal:
        print("not equivalent: nothing was entered", file=sys.stderr)
        return 1
    for label, modules in uncovered.items():
        print(f"not covered by the check, stays stale: {label}: {', '.join(modules)} changed")
    if not pairs:
        print("the code is the same for all runs that were compared: nothing to enter")
        return 0
    now = datetime.now(UTC).isoformat(timespec="seconds")
    made = {"at": now, "older": older.code, **provenance()}
    equivalents.enter(Check(pairs=pairs, made=made, output=lines), root)
    print(f"equivalent: {len(pairs)} fingerprints entered in {root / equivalents.FILE}")
    return 0


def comparison(older: list[Measured]) -> Iterator[tuple[str, bool]]:
    """A line for each short run, and whether it is equal; lines of what differs follow it."""
    runs = [_run(one) for one in older]
    newer = list(reference.measure_all(runs))
    pairs = list(zip(older, newer, strict=True))
    unlike = [i for i, pair in enumerate(pairs) if not _equal(reference.compare(*pair))]
    nudged = reference.measure_all([runs[i] for i in unlike], reference.NUDGES)
    for i, pair in enumerate(pairs):
        others = list(islice(nudged, len(reference.NUDGES))) if i in unlike else []
        found = reference.compare(*pair, others)
        equal = _equal(found)
        worst = max((d for d in found if not d.in_points), key=lambda d: d.apart)
        name = _named(runs[i])
        result = "differs" if not equal else "equal within rounding" if others else "equal"
        yield f"{result}: {name}: {len(found)} numbers, largest {_apart(worst)}", equal
        for d in (d for d in found if not d.equal):
            line = f"  {d.what}: {d.old:.9g}, now {d.new:.9g}, may be apart {d.within:.1e}"
            yield line, False


def _run(one: Measured) -> Run:
    try:
        return Run.model_validate(one.run)
    except ValidationError as e:
        raise ConfigError(
            f"a run of the file is none of this version: {first_mistake(e)}"
        ) from None


def _named(run: Run) -> str:
    return run.label.rsplit(" (", 1)[0]


def _equal(found: list[Difference]) -> bool:
    return all(difference.equal for difference in found)


def _apart(difference: Difference) -> str:
    return f"relative difference {difference.apart:.1e} ({difference.what})"
