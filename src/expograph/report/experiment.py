"""What an experiment leaves in results/<name>/: summary, curves, tables, provenance."""

import json
from pathlib import Path

import pandas as pd
from rich.table import Table as Screen

from expograph.config import METRICS, Experiment, published_numbers
from expograph.files import replace_text
from expograph.report import tables
from expograph.report.style import name_of
from expograph.runs import results
from expograph.runs.provenance import code_fingerprint, provenance

SINGLE = 200  # runs up to which the curves of each are kept: a file of a hundred kilobytes
CURVES = ("accuracy_averaged", "map_50", "consensus_distance", "train_loss", "error_workers")


def write_report(experiment: Experiment, root: Path, name: str) -> list[Screen]:
    """Write results/<name>/ from the runs that are there; its tables for a terminal.

    runs.csv has a row a run, curves.csv the curves averaged over seeds, seeds.csv those of each run
    where there are few, table.{md,csv,tex} the experiment's table, provenance.json the machine and
    code of the runs.
    """
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    summary = results.summary(experiment.runs, root)
    by_key = results.curves(experiment.runs, root)
    replace_text(folder / "runs.csv", summary.to_csv(index=False, float_format="%.8g"))
    curves = results.mean_curves(summary, by_key, CURVES)
    replace_text(folder / "curves.csv", curves.to_csv(index=False, float_format="%.5g"))
    if len(experiment.runs) <= SINGLE:
        single = results.single_curves(by_key, CURVES)
        replace_text(folder / "seeds.csv", single.to_csv(index=False, float_format="%.4g"))
    replace_text(
        folder / "provenance.json", json.dumps(_provenance(experiment, root), indent=1) + "\n"
    )
    if experiment.table is None:
        return []
    frames, measured = frames_of(experiment, summary, by_key)
    if measured is not None:
        replace_text(folder / "transients.csv", measured.to_csv(index=False))
    tables.write(frames, _notes(experiment, summary), folder, experiment.table.title)
    return [screen(f"{name}: {heading}", frame) for heading, frame in frames.items()]


def frames_of(
    experiment: Experiment,
    summary: pd.DataFrame,
    by_key: dict[str, pd.DataFrame],
    cell: tables.Cell = tables.cell,
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame | None]:
    """The tables of an experiment, heading -> frame, and the transients they rest on, if any.

    Args:
        summary: `results.summary` of its runs.
        by_key: `results.curves` of its runs.
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
    measured = tables.transients(summary, by_key, table)
    if table.kind == "theory":
        return {table.title: tables.theory_table(summary, measured)}, measured
    return {
        "transient iterations": tables.transient_table(measured, table.rows),
        "their growth: n^exponent": tables.exponents(measured),
    }, measured


def _published(experiment: Experiment) -> tables.Published:
    return tables.Published(experiment.table.published, published_numbers(experiment.path))


def _notes(experiment: Experiment, summary: pd.DataFrame) -> str:
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
    codes = set(summary["code"].dropna()) if "code" in summary else set()
    if codes - {code_fingerprint()}:
        lines.append(
            "Caution: some of these runs were made by other code than what is here now; "
            "`make reproduce-table FORCE=1` does them again."
        )
    return "\n".join(f"- {line}" for line in lines) + "\n"


def _provenance(experiment: Experiment, root: Path) -> dict:
    found = [c for run in experiment.runs if (c := results.load(run, root))]
    makers = {tuple(c["provenance"].items()) for c in found}
    return {
        "config": str(experiment.path),
        "runs": len(experiment.runs),
        "finished": len(found),
        "run_seconds": round(sum(c["seconds"] for c in found), 1),
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
