"""What is committed: results that figures and notebooks can be made from, without training."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from expograph import claims
from expograph.analysis.table_result import load
from expograph.config import experiments

RESULTS = Path("results")
TABLES = [
    experiment.name
    for experiment in experiments("configs")
    if experiment.scale == "laptop" and (RESULTS / experiment.name / "runs.csv").exists()
]


@pytest.mark.parametrize("name", TABLES)
def test_committed_tables_have_every_run_and_name_their_maker(name):
    runs = pd.read_csv(RESULTS / name / "runs.csv")
    assert set(runs["status"]) <= {"done", "diverged"}
    assert len(TABLES) >= 15
    assert runs["seed"].nunique() >= (1 if name.startswith("tuning") else 3)
    made = json.loads((RESULTS / name / "provenance.json").read_text())
    assert made["runs"] == made["finished"] == len(runs)
    assert all(p["torch"] and p["cpu"] and p["commit"] for p in made["made_by"])
    for suffix in ("md", "csv", "tex"):
        assert (RESULTS / name / f"table.{suffix}").stat().st_size > 200


def test_no_absolute_path_is_committed():
    for path in RESULTS.rglob("*"):
        if path.is_file() and not {"runs", "custom", "mine"} & set(path.parts):
            content = path.read_bytes()
            assert bytes(Path.home()) not in content, path
            assert bytes(Path.cwd()) not in content, path


def test_figures_are_drawn_from_committed_results_alone(tmp_path):
    for name in ("table1", "table2"):
        (tmp_path / name).mkdir()
        shutil.copy(RESULTS / name / "curves.csv", tmp_path / name / "curves.csv")
    done = subprocess.run(
        [sys.executable, "-m", "expograph", "figure", "--results", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    drawn = {p.name for p in (tmp_path / "figures").iterdir()}
    for figure in ("spectral_gap", "consensus_error", "table1_curves", "table2_curves"):
        assert {f"{figure}.png", f"{figure}.svg", f"{figure}.pdf"} <= drawn


def test_the_ledger_rests_on_runs_that_are_listed():
    ledger = claims.load(RESULTS)
    known = {key for name in TABLES for key in pd.read_csv(RESULTS / name / "runs.csv")["key"]}
    parts = [part for finding in ledger.claims for part in finding.parts]
    used = {key for part in parts for key in part.runs}
    assert used and used <= known
    stated = [claim.id for claim in claims.read(Path("configs/claims.toml"))]
    assert [finding.id for finding in ledger.claims] == stated
    assert "not measured" not in {part.holds for part in parts}


@pytest.mark.parametrize(
    ("folder", "id", "labels"),
    [
        ("bench", "ratios", 2),
        ("bench_comm/one_machine", "times", 3),
        ("bench_comm/testbed_1gbit", "links", 1),
        ("bench_comm/testbed_100mbit", "ratios", 3),
        ("cost_model", "hours", 2),
        ("dry_run", "needs", 5),
        ("engines", "agreement", 5),
    ],
)
def test_what_was_measured_of_machines_is_committed_as_data(folder, id, labels):
    tables = load(RESULTS / folder)
    assert len(tables[id].labels) == labels and tables[id].rows and tables.made["cpu"]
