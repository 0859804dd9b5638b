"""The tables of an experiment with their notes, from the summary and curves of its runs."""

from collections.abc import Sequence

import pandas as pd

from expograph.analysis.growth import by_rows, exponents
from expograph.analysis.published import published_of
from expograph.analysis.stage import stage_table
from expograph.analysis.table_result import TableResult, Tables
from expograph.analysis.tables import cell_of, differences, live_cell, pivot
from expograph.analysis.theory_table import theory_table
from expograph.analysis.transients import Errors, by_nodes, measure
from expograph.analysis.tuning import chosen_table
from expograph.config import Experiment


def tables_of(
    experiment: Experiment,
    summary: pd.DataFrame,
    errors: Errors,
    *,
    of_other_code: int = 0,
    remarks: Sequence[str] = (),
    live: bool = False,
) -> Tables:
    """What the runs of an experiment with a table say.

    Args:
        summary: `results.summary` of its runs.
        errors: `results.errors_of` its runs; pivot tables need none.
        of_other_code: how many runs were made by other code than what is here now.
        remarks: lines on single runs, for the notes.
        live: whether runs are still to come: a pivot table then shows means so far.
    """
    table = experiment.required_table
    if table.kind == "pivot":
        found = _pivots(experiment, summary, live)
        if experiment.tunes:
            found.insert(0, chosen_table(summary, table))
    else:
        measured = measure(summary, errors, table)
        found = [measured]
        if table.kind == "theory":
            found = [theory_table(summary, measured, table.title), measured]
        else:
            rows = table.rows
            grown = by_rows(summary, errors, table)
            found = [by_nodes(measured, rows), exponents(measured, rows, grown), measured]
    return Tables(
        title=table.title,
        tables=tuple(one for one in found if one.rows),
        notes=(*notes_of(experiment, summary, of_other_code), *remarks),
    )


def _pivots(experiment: Experiment, summary: pd.DataFrame, live: bool) -> list[TableResult]:
    table, published = experiment.required_table, published_of(experiment)
    make_cell = live_cell if live else cell_of
    first, *others = table.metrics  # what was published is of the first
    found = [pivot(summary, table, first, published, make_cell)]
    found += [pivot(summary, table, metric, None, make_cell) for metric in others]
    if table.compare:
        found.append(differences(summary, table, table.metrics[0]))
    if table.within is not None:
        found.append(stage_table(summary, table, table.metrics[0]))
    return found


def notes_of(experiment: Experiment, summary: pd.DataFrame, of_other_code: int) -> list[str]:
    """What a reader of the tables must know, a line each; `words` between backticks are code."""
    published = published_of(experiment)
    number = summary["seed"].nunique()
    seeds = "1 seed" if number == 1 else f"{number} seeds"
    lines = [
        f"From `{experiment.path}`: {len(summary)} runs, {seeds}. ± is the half-width "
        "of the 95 % Student-t interval over seeds."
    ]
    if experiment.required_table.compare:
        lines.append(
            "Differences are means over pairs of runs with the same seed, with their 95 % interval "
            "and the p of the paired t-test."
        )
    if engines := {run.engine for run in experiment.runs} - {"embedded"}:
        lines.append(f"Engine: {', '.join(sorted(engines))}, one MPI rank a node.")
    lines += experiment.required_table.notes
    if published.source:
        lines.append(
            f"Published: {published.caption}; {published.source}. A different scale: the "
            "orders of the rows may be compared, the numbers may not."
        )
    if of_other_code:
        lines.append(
            f"Caution: {of_other_code} of these runs were made by other code than what is here "
            f"now; `expograph sweep {experiment.path}` does them again."
        )
    return lines
