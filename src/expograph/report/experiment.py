"""What an experiment leaves in results/<name>/: records, summary, curves, tables, provenance."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from expograph.analysis import transients
from expograph.analysis.curves import mean_curves, single_curves
from expograph.analysis.experiment import tables_of
from expograph.analysis.remarks import remarks
from expograph.config import Experiment
from expograph.report import rendering, unchanged
from expograph.report.layout import visible
from expograph.report.screen import Screen
from expograph.runs import contents, records, results
from expograph.runs.equivalents import stale
from expograph.runs.provenance import provenance
from expograph.runs.records import CURVES, RunRecord
from expograph.runs.store import ON_DISK

SINGLE = 200  # runs up to which the curves of each are kept: a file of a hundred kilobytes


def write_report(
    experiment: Experiment,
    root: Path,
    name: str,
    found: Mapping[str, RunRecord] | None = None,
    overrides: Sequence[str] = (),
    place: Path | None = None,
) -> list[Screen]:
    """Write results/<name>/ from records, which it keeps there too; its tables for a terminal.

    runs.csv has a row a run, curves.csv the curves averaged over seeds, seeds.csv those of each run
    where there are few, table.json the experiment's tables, table.{md,csv,tex} and transients.csv
    what is made of it, provenance.json the machine and code of the runs. Where all numbers are
    those that are there already, nothing is written.

    Args:
        found: the records by key; by default those of the runs folder.
        overrides: the words that made this variation of the config.
        place: another folder than the results to write <name>/ into.
    """
    folder = (place or root) / name
    found = results.find(experiment.runs, root) if found is None else found
    pivot = experiment.table is None or experiment.table.kind == "pivot"
    errors = [] if pivot else experiment.required_table.metrics[:1]
    summary = results.summary(experiment.runs, root, found=found)
    by_key = {key: record.frame() for key, record in found.items() if record.status == "done"}
    texts = {
        "runs.csv": summary.to_csv(index=False, float_format=ON_DISK),
        "curves.csv": mean_curves(summary, by_key, CURVES).to_csv(index=False, float_format="%.5g"),
    }
    if len(experiment.runs) <= SINGLE:
        single = single_curves(by_key, CURVES)
        texts["seeds.csv"] = single.to_csv(index=False, float_format="%.4g")
    files = {name: text.encode() for name, text in texts.items()}
    files[records.FILE] = records.encoded(found.values(), errors)
    made = _provenance(experiment, found, overrides)
    shown = []
    if experiment.table is not None:
        tables = tables_of(
            experiment,
            summary,
            results.errors_of(found),
            of_other_code=len(stale(experiment.runs, found, root)),
            remarks=remarks(found.values()),
        )
        about = {key: made[key] for key in ("config", "runs", "finished")} | provenance()
        files |= rendering.files_of(tables.model_copy(update={"made": about}))
        if experiment.table.kind != "pivot":
            measured = transients.frame(tables[transients.MEASURED])
            files["transients.csv"] = measured.to_csv(index=False).encode()
        shown = [Screen(table, name) for table in visible(tables)]
    made["files"] = contents.checksums(files)
    files[contents.PROVENANCE] = (json.dumps(made, indent=1) + "\n").encode()
    unchanged.write(folder, files, rendering.STALE)
    return shown


def _provenance(
    experiment: Experiment, found: Mapping[str, RunRecord], overrides: Sequence[str]
) -> dict:
    makers = {tuple(record.provenance.items()) for record in found.values()}
    return {
        "config": str(experiment.path),
        "overrides": list(overrides),
        "runs": len(experiment.runs),
        "finished": len(found),
        "run_seconds": round(sum(record.seconds for record in found.values()), 1),
        "seeds": sorted({run.seed for run in experiment.runs}),
        "made_by": [dict(maker) for maker in sorted(makers, key=str)],
        "summarised_by": provenance(),
    }
