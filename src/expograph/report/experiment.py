"""What an experiment leaves in results/<name>/: summary, curves, tables, provenance."""

import json
from pathlib import Path

import pandas as pd
from rich.table import Table as Screen

from expograph.analysis.curves import mean_curves, single_curves
from expograph.config import METRICS, Experiment, published_numbers
from expograph.files import replace_text
from expograph.report import tables
from expograph.report.style import name_of
from expograph.runs import records, results
from expograph.runs.equivalents import stale
from expograph.runs.provenance import provenance
from expograph.runs.records import CURVES, RunRecord
from expograph.runs.thinning import BlockMeans

SINGLE = 200  # runs up to which the curves of each are kept: a file of a hundred kilobytes


def write_report(
    experiment: Experiment, root: Path, name: str, found: dict[str, RunRecord] | None = None
) -> list[Screen]:
    """Write results/<name>/ from records, which it keeps there too; its tables for a terminal.

    runs.csv has a row a run, curves.csv the curves averaged over seeds, seeds.csv those of each run
    where there are few, table.{md,csv,tex} the experiment's table, provenance.json the machine and
    code of the runs.

    Args:
        found: the records by key; by default those of the runs folder.
    """
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    found = results.find(experiment.runs, root) if found is None else found
    pivot = experiment.table is None or experiment.table.kind == "pivot"
    errors = [] if pivot else experiment.table.metrics[:1]
    records.write(folder / records.FILE, found.values(), errors)
    summary = results.summary(experiment.runs, root, found=found)
    by_key = {key: record.frame() for key, record in found.items() if record.status == "done"}
    replace_text(folder / "runs.csv", summary.to_csv(index=False, float_format="%.8g"))
    curves = mean_curves(summary, by_key, CURVES)
    replace_text(folder / "curves.csv", curves.to_csv(index=False, float_format="%.5g"))
    if len(experiment.runs) <= SINGLE:
        single = single_curves(by_key, CURVES)
        replace_text(folder / "seeds.csv", single.to_csv(index=False, float_format="%.4g"))
    replace_text(
        folder / "provenance.json", json.dumps(_provenance(experiment, found), indent=1) + "\n"
    )
    if experiment.table is None:
        return []
    frames, measured = frames_of(experiment, summary, errors_of(experiment, found))
    if measured is not None:
        replace_text(folder / "transients.csv", measured.to_csv(index=False))
    notes = _notes(experiment, summary, len(stale(experiment.runs, found, root)))
    tables.write(frames, notes, folder, experiment.table.title)
    return [screen(f"{name}: {heading}", frame) for heading, frame in frames.items()]


def frames_of(
    experiment: Experiment,
    summary: pd.DataFrame,
    errors: dict[str, BlockMeans],
    cell: tables.Cell = tables.cell,
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame | None]:
    """The tables of an experiment, heading -> frame, and the transients they rest on, if any.

    Args:
        summary: `results.summary` of its runs.
        errors: `errors_of` its runs; pivot tables need none.
        cell: what stands in a cell of a pivot table.
    """
    table = experiment.table
    if table.kind == "pivot":
        published = _published(experiment)
        frames = {
            METRICS[m]: tables.pivot(summary, table, m, published, cell) for m in table.metrics
        }
        found = tables.differences(summary, table, table.metrics[0]) if table.compare else None
        if found is not None and not found.empty:
            what = ", ".join(name_of(value) for value in table.compare.values())
            heading = f"{METRICS[table.metrics[0]]}: difference from {what}, same seeds"
            frames[heading] = found
        return frames, None
    measured = tables.transients(summary, errors, table)
    if table.kind == "theory":
        return {table.title: tables.theory_table(summary, measured)}, measured
    return {
        "transient iterations": tables.transient_table(measured, table.rows),
        "their growth: n^exponent": tables.exponents(measured),
    }, measured


def errors_of(experiment: Experiment, found: dict[str, RunRecord]) -> dict[str, BlockMeans]:
    """What transient iterations are measured from; nothing for a pivot table."""
    if experiment.table.kind == "pivot":
        return {}
    metric = experiment.table.metrics[0]
    return {k: r.blocks[metric].means_of() for k, r in found.items() if metric in r.blocks}


def _published(experiment: Experiment) -> tables.Published:
    return tables.Published(experiment.table.published, published_numbers(experiment.path))


def _notes(experiment: Experiment, summary: pd.DataFrame, of_other_code: int) -> str:
    published = _published(experiment)
    seeds = summary["seed"].nunique()
    lines = [
        f"From `{experiment.path}`: {len(summary)} runs, {seeds} seeds. ± is the half-width "
        "of the 95 % Student-t interval over seeds."
    ]
    if experiment.table.compare:
        lines.append(
            "Differences are means over pairs of runs with the same seed, with their 95 % interval "
            "and the p of the paired t-test."
        )
    if engines := {run.engine for run in experiment.runs} - {"embedded"}:
        lines.append(f"Engine: {', '.join(sorted(engines))}, one MPI rank a node.")
    lines += experiment.table.notes
    if published.source:
        lines.append(
            f"Published: {published.caption}; {published.source}. A different scale: the "
            "orders of the rows may be compared, the numbers may not."
        )
    if of_other_code:
        lines.append(
            f"Caution: {of_other_code} of these runs were made by other code than what is here now;"
            " `make reproduce-table` does them again."
        )
    return "\n".join(f"- {line}" for line in lines) + "\n"


def _provenance(experiment: Experiment, found: dict[str, RunRecord]) -> dict:
    makers = {tuple(record.provenance.items()) for record in found.values()}
    return {
        "config": str(experiment.path),
        "runs": len(experiment.runs),
        "finished": len(found),
        "run_seconds": round(sum(r.seconds for r in found.values()), 1),
        "seeds": sorted({run.seed for run in experiment.runs}),
        "made_by": [dict(maker) for maker in sorted(makers, key=str)],
        "summarised_by": provenance(),
    }


def screen(title: str, frame: pd.DataFrame) -> Screen:
    """A table for a terminal."""
    shown = Screen(title=title, title_justify="left")
    for column in frame.columns:
        shown.add_column(name_of(column))
    for row in frame.itertuples(index=False):
        shown.add_row(*map(str, row))
    return shown
