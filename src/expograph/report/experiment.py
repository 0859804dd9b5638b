"""What an experiment leaves in results/<name>/: summary, curves, tables, provenance."""

import json
from pathlib import Path

import pandas as pd

from expograph.analysis import transients
from expograph.analysis.experiment import tables_of
from expograph.config import Experiment
from expograph.files import replace_text
from expograph.report import rendering
from expograph.report.layout import visible
from expograph.report.screen import Screen
from expograph.runs import results
from expograph.runs.provenance import code_fingerprint, provenance

SINGLE = 200  # runs up to which the curves of each are kept: a file of a hundred kilobytes
CURVES = ("accuracy_averaged", "map_50", "consensus_distance", "train_loss", "error_workers")


def write_report(experiment: Experiment, root: Path, name: str) -> list[Screen]:
    """Write results/<name>/ from the runs that are there; its tables for a terminal.

    runs.csv has a row a run, curves.csv the curves averaged over seeds, seeds.csv those of each run
    where there are few, table.json the experiment's tables, table.{md,csv,tex} and transients.csv
    what is made of it, provenance.json the machine and code of the runs.
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
    made = _provenance(experiment, root)
    replace_text(folder / "provenance.json", json.dumps(made, indent=1) + "\n")
    if experiment.table is None:
        return []
    codes = summary["code"].dropna() if "code" in summary else pd.Series(dtype=str)
    of_other_code = int((codes != code_fingerprint()).sum())
    tables = tables_of(experiment, summary, by_key, of_other_code=of_other_code)
    made = {key: made[key] for key in ("config", "runs", "finished")} | provenance()
    rendering.write(tables.model_copy(update={"made": made}), folder)
    if experiment.table.kind != "pivot":
        measured = transients.frame(tables[transients.MEASURED])
        replace_text(folder / "transients.csv", measured.to_csv(index=False))
    return [Screen(table, name) for table in visible(tables)]


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
