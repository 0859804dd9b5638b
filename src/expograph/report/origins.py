"""Where every run of an experiment comes from, for its page of runs."""

from pathlib import Path
from typing import Any

import pandas as pd

from expograph.analysis.grouping import plain
from expograph.analysis.written import heading_of, name_of
from expograph.config import Run
from expograph.config.facts import heading
from expograph.report import panels, reading
from expograph.report.reading import Group, Scale


def origins(scale: Scale, group: Group, root: Path) -> dict[str, Any]:
    """Everything about the runs of one scale: where from, what they share, each of them."""
    runs = scale.runs
    assert runs is not None, f"{scale.name} has not been run"
    keys = panels.settings(runs)
    heads = set(Run.model_fields)
    config = [c for c in runs if c.split(".")[0] in heads and c != "seed"]
    shared = {c: runs[c].iloc[0] for c in config if runs[c].nunique(dropna=False) == 1}
    told = {"key", "status", "seed", "commit", "code", "step", *config}
    metrics = [c for c in runs if c not in told and pd.api.types.is_numeric_dtype(runs[c])]
    metrics = [m for m in metrics if runs[m].notna().any()]
    makers = scale.provenance.get("made_by", [])
    settings = []
    for (_, setting), (_, members) in zip(
        panels.grouped(runs).iterrows(), runs.groupby(keys, sort=False, dropna=False), strict=True
    ):
        rows = [
            {
                "key": run["key"],
                "seed": run["seed"],
                "status": run["status"],
                "metrics": [_number(run[m]) for m in metrics],
                "makers": [
                    i
                    for i, maker in enumerate(makers)
                    if (maker.get("commit"), maker.get("code"))
                    == (run.get("commit"), run.get("code"))
                ],
                "record": reading.record(root / "runs" / str(run["key"]) / "run.json"),
            }
            for run in members.to_dict("records")
        ]
        words = [f"{heading_of(key)} {name_of(plain(setting[key]))}" for key in keys]
        varies = [c for c in config if c not in shared and c not in keys]
        words += [f"{heading_of(c)} {name_of(plain(members[c].iloc[0]))}" for c in varies]
        settings.append({"id": setting["run"], "words": ", ".join(words), "rows": rows})
    return {
        "scale": scale,
        "group": group,
        "shared": {k: v for k, v in shared.items() if not pd.isna(v)},
        "metrics": [(m, heading(m)) for m in metrics],
        "makers": makers,
        "settings": settings,
        "timed": any(row["record"] for setting in settings for row in setting["rows"]),
    }


def _number(value: Any) -> str:
    return "" if pd.isna(value) else f"{value:.5g}"
