"""Show one run: config, where it comes from, final metrics, curve; or train it again and compare.

examples:
  expograph run 6f5117bbf1ec6cca              a key, or how it begins: 6f51
  expograph run 6f51 --metric train_loss      another curve
  expograph run 6f51 --again                  train it again, compare every number

Keys stand in table.json, runs.csv and claims.json. What is said of a run is read from
results/runs/, or, in a fresh clone, from the records committed beside the tables. --again trains in
this process with as many threads as the run had, and writes nothing; runs of MPI engines are not
done again here.

exit status: 0 shown, or bit-identical; 1 trained again, and differs: the largest relative
difference of each metric is printed; 2 the key is unknown or ambiguous, or a file is damaged.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.config import ConfigError, Experiment
from expograph.config import experiments as experiments_in
from expograph.names import known
from expograph.report.screen import Screen, show
from expograph.runs import lookup, results
from expograph.runs.equivalents import Codes
from expograph.runs.lookup import Trace

if TYPE_CHECKING:
    from expograph.runs.again import Change

CURVES = ("accuracy_averaged", "map_50", "error_workers", "train_loss")  # shown, by preference
WIDTH, HEIGHT = 72, 18  # characters of the plot
WIDE = 100  # ratio of a positive metric's values from which its axis is logarithmic
MAKERS = ("torch", "numpy", "python", "system", "cpu", "cores", "code")  # that may change digits


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("key", metavar="KEY", help="of the run, or how it begins")
    parser.add_argument("--again", action="store_true", help="train it again and compare")
    parser.add_argument(
        "--import-own",
        action="store_true",
        help="with --again: import the modules that the run's record names, which runs their code",
    )
    parser.add_argument("--metric", help="whose curve is drawn")
    parser.add_argument("--configs", type=Path, default=Path("configs"), help="default: configs/")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")


def run(arguments: argparse.Namespace) -> int:
    """Show the run; with --again do it once more, 0 if that is bit-identical."""
    experiments = experiments_in(arguments.configs) if arguments.configs.is_dir() else []
    trace = lookup.find(arguments.key, arguments.results, experiments)
    console = Console()
    if arguments.again:
        return again(trace, console, arguments.import_own)
    console.print(Text(trace.run.label if trace.run else f"run {trace.key}", "bold"))
    homes = [e for e in experiments if any(one.key == trace.key for one in e.runs)]
    parts = {
        "config": trace.config,
        "where from": origin(trace, homes, arguments.results),
        "final metrics": trace.final,
    }
    for title, values in parts.items():
        console.print(listed(title, values))
    if trace.ranks:
        show(console, [Screen(times(trace.ranks))])
    drawn = curve(trace, arguments.metric, homes)
    if drawn:
        console.print(drawn, crop=False)
    return 0


def listed(title: str, values: dict[str, Any]) -> Group:
    """Names and values under a title, a line each; long values are folded, never cut."""
    lines = Table.grid(padding=(0, 2))
    for name, value in values.items():
        text = f"{value:.8g}" if isinstance(value, float) else str(value)
        lines.add_row(Text(f"  {name}"), Text(text, overflow="fold"))
    return Group(Text(title, "italic"), lines)


def origin(trace: Trace, homes: list[Experiment], root: Path) -> dict[str, Any]:
    """Who made a run, with what, and what rests on it."""
    made: dict[str, Any] = {"status": trace.note or trace.status, "read from": trace.source}
    made["experiments"] = ", ".join(str(e.path) for e in homes) or "none of the present configs"
    made["tables of"] = ", ".join(trace.folders) or "none"
    if trace.seconds is not None:
        made |= {"seconds": trace.seconds, "threads": trace.threads}
    made |= {k: v for k, v in trace.provenance.items() if v is not None}
    if trace.run and "code" in made and Codes(root).is_stale(trace.run, trace.provenance):
        made["code"] = f"{made['code']}, neither the present one nor equivalent to it"
    if trace.run is None:
        made["config"] = "not of this version"
    return made


def times(ranks: list[dict[str, float]]) -> TableResult:
    """A row a rank: the seconds of its training, by what they went into."""
    kinds = list(ranks[0])
    rows = [
        Row(labels=(str(rank),), cells=tuple(Cell(mean=seconds[kind]) for kind in kinds))
        for rank, seconds in enumerate(ranks)
    ]
    return TableResult(
        id="times",
        heading="seconds of training, by rank (wire overlaps with the others)",
        labels=("rank",),
        columns=tuple(Column(name=kind, format=".3f") for kind in kinds),
        rows=tuple(rows),
    )


def curve(trace: Trace, metric: str | None, homes: list[Experiment]) -> Text | None:
    """The curve of a metric, drawn in characters; None if there is none of two points or more.

    Raises:
        ConfigError: in one line, if there is none of the metric that is asked for.
    """
    frame = trace.curve
    there = [] if frame is None else [m for m in frame if m != "step" and frame[m].count() > 1]
    if metric is not None:
        try:
            known("curve", metric, there)
        except ValueError as e:
            raise ConfigError(f"run {trace.key}: {e}") from None
    if frame is None or not there:
        return None
    shown = [m for e in homes if e.table for m in e.table.metrics]
    name = metric or next((m for m in (*shown, *CURVES) if m in there), there[0])
    points = frame[["step", name]].dropna()
    return plot(points["step"].tolist(), points[name].tolist(), name)


def plot(steps: list[int], values: list[float], name: str) -> Text:
    """A metric against steps; on a logarithmic axis if it is positive and spans much."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(WIDTH, HEIGHT)
    if min(values) > 0 and max(values) > WIDE * min(values):
        plotext.yscale("log")
    plotext.plot(steps, values, marker="braille")
    plotext.title(name)
    plotext.xlabel("step")
    return Text.from_ansi(plotext.build())


def again(trace: Trace, console: Console, import_own: bool = False) -> int:
    """Train a run again, print what differs; 0 if nothing does.

    Args:
        import_own: whether modules of a user's own that the record names may be imported.
    Raises:
        ConfigError, DataUnavailable: in one line, if it cannot be done here.
    """
    if trace.run is None:
        raise ConfigError(f"run {trace.key}: its config is none of this version: {trace.source}")
    if trace.run.engine != "embedded":
        where = f"{trace.run.ranks} ranks of {trace.run.engine}"
        raise ConfigError(f"run {trace.key}: is one of {where}; only embedded ones are done again")
    if (parts := trace.run.own_parts) and not import_own:
        raise ConfigError(
            f"run {trace.key}: to train it runs the code of {', '.join(parts)}, which its record "
            "names: add --import-own if you trust it"
        )
    from expograph.runs.again import compare, train_again  # with torch, which takes seconds
    from expograph.runs.own import register
    from expograph.runs.progress import SweepProgress
    from expograph.runs.provenance import provenance
    from expograph.runs.selection import check_machine

    register(trace.run)
    check_machine([trace.run])
    threads = trace.threads or 1
    took = f", which took {trace.seconds:.0f} s" if trace.seconds else ""
    console.print(f"{trace.run.label}: {trace.run.steps} steps, {threads} threads{took}")
    with SweepProgress([trace.run], console) as progress:
        made = train_again(trace.run, threads, progress)
    changes = compare(trace, made)
    different = [change for change in changes if change.relative > 0]
    if different:
        show(console, [Screen(changed(different))])
    if made.status != trace.status:
        console.print(f"status: {made.status}, was {trace.status}")
    if not different and made.status == trace.status:
        records = 1 if trace.curve is None else len(trace.curve)
        digits = "" if trace.curve is not None else " to the 8 digits kept"
        console.print(
            f"bit-identical{digits}: {len(changes)} metrics, {records} records of {trace.source}",
            soft_wrap=True,
        )
        return 0
    now = provenance(trace.run)
    others = [k for k in MAKERS if k in trace.provenance and trace.provenance[k] != now.get(k)]
    reason = f"; made by other {', '.join(others)}" if others else ""
    worst = max((change.relative for change in different), default=0.0)
    console.print(
        f"differs: {len(different)} of {len(changes)} metrics, largest relative difference "
        f"{worst:.2g}{reason}",
        soft_wrap=True,
    )
    return 1


def changed(changes: list["Change"]) -> TableResult:
    """A row a metric: where its two trainings are furthest apart."""
    columns = [Column(name=n, format=".9g") for n in ("recorded", "again")]
    columns.append(Column(name="largest relative difference", format=".2g"))
    rows = []
    for change in sorted(changes, key=lambda change: -change.relative):
        where = "the last" if change.step is None else str(change.step)
        numbers = change.old, change.new, change.relative
        cells = [Cell(text=format(n, c.format)) for n, c in zip(numbers, columns, strict=True)]
        rows.append(Row(labels=(change.metric,), cells=(*cells, Cell(text=where))))
    return TableResult(
        id="again",
        heading="what differs",
        labels=("metric",),
        columns=(*columns, Column(name="at step")),
        rows=tuple(rows),
    )
