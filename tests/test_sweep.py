"""Runs on disk and sweeps: found again, never half-written, picked up after failures."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from expograph import files
from expograph.config import Run
from expograph.runs import pool, results, store
from expograph.runs.assemble import records_of
from expograph.runs.pool import sweep
from expograph.runs.runner import execute


def tiny(seed: int = 0, **changes) -> Run:
    values = {
        "problem": {"kind": "logistic", "samples": 5},
        "topology": "one_peer_exponential",
        "nodes": 4,
        "algorithm": "dsgd_atc",
        "steps": 25,
        "lr": 0.1,
        "seed": seed,
        "evaluate_every": 10,
    }
    return Run.model_validate(values | changes)


def test_a_run_leaves_its_config_metrics_and_provenance(tmp_path):
    run = tiny()
    assert execute(run, tmp_path) == "done"
    folder = store.folder(run, tmp_path)
    assert sorted(p.name for p in folder.iterdir()) == ["metrics.csv", "run.json"]
    content = json.loads((folder / "run.json").read_text())
    assert Run.model_validate(content["run"]) == run  # a run can be rebuilt from its record
    assert content["provenance"]["torch"] and content["provenance"]["code"]
    metrics = pd.read_csv(folder / "metrics.csv")
    assert metrics["step"].tolist() == [0, 10, 20, 25]
    assert metrics["bytes_sent_max"].tolist() == [0, 800, 1600, 2000]  # 10 float64 a step
    assert metrics["error_workers"].notna().all()


def test_equal_runs_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        execute(tiny(topology="random_match"), tmp_path / name)
    a, b = (
        pd.read_csv(store.folder(tiny(topology="random_match"), tmp_path / name) / "metrics.csv")
        for name in ("a", "b")
    )
    pd.testing.assert_frame_equal(a.drop(columns="train_seconds"), b.drop(columns="train_seconds"))


def test_finished_runs_are_skipped_and_the_rest_done(tmp_path):
    runs = [tiny(seed) for seed in range(4)]
    execute(runs[1], tmp_path)
    stamp = (store.folder(runs[1], tmp_path) / "run.json").stat().st_mtime_ns
    seen = {}
    outcome = sweep(runs, tmp_path, jobs=2, on_progress=lambda r, step: seen.update({r.seed: step}))
    assert [r.seed for r in outcome.reused] == [1]
    assert sorted(r.seed for r in outcome.finished) == [0, 2, 3]
    assert seen == {0: 25, 2: 25, 3: 25}
    assert (store.folder(runs[1], tmp_path) / "run.json").stat().st_mtime_ns == stamp
    assert len(sweep(runs, tmp_path).reused) == 4
    assert set(results.summary(runs, tmp_path)["status"]) == {"done"}


def test_half_a_record_is_no_record(tmp_path):
    run = tiny()
    execute(run, tmp_path)
    path = store.folder(run, tmp_path) / "run.json"
    path.write_text(path.read_text()[:50])
    assert store.load(run, tmp_path) is None
    assert results.summary([run], tmp_path)["status"].tolist() == ["missing"]
    assert len(sweep([run], tmp_path, jobs=1).finished) == 1
    assert store.load(run, tmp_path).status == "done"


def test_divergence_is_a_status_not_a_crash(tmp_path):
    run = tiny(problem={"kind": "least_squares"}, lr=1e6, steps=2000)
    outcome = sweep([run, tiny()], tmp_path, jobs=1)
    assert outcome.diverged == [run] and outcome.finished == [tiny()]
    content = store.load(run, tmp_path)
    assert content.status == "diverged" and "diverged at step" in content.note
    assert results.summary([run], tmp_path).get("error_workers") is None


def test_a_failing_run_is_reported_and_the_others_finish(tmp_path):
    bad = tiny(
        problem={"kind": "classification", "dataset": "digits", "model": "linear"}, nodes=5000
    )
    outcome = sweep([bad, tiny(1), tiny(2)], tmp_path, jobs=1)
    assert len(outcome.finished) == 2
    ((run, cause),) = outcome.failed
    assert run == bad and "5000" in cause and "5000 nodes" in run.label
    assert store.load(bad, tmp_path) is None


def test_a_killed_sweep_goes_on_where_it_was(tmp_path):
    """SIGINT in the middle: exit code 130, no half run, and the same command finishes the rest."""
    config = tmp_path / "kill.toml"
    config.write_text(
        """
        name = "kill"
        [run]
        topology = "ring"
        nodes = 4
        algorithm = "dsgd_atc"
        steps = 12000
        lr = 0.1
        [run.problem]
        kind = "logistic"
        [[sweep]]
        seed = [0, 1, 2, 3, 4, 5]
        """
    )
    command = [sys.executable, "scripts/train.py", str(config), "--jobs", "1"]
    command += ["--results", str(tmp_path / "results")]
    first = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    runs = tmp_path / "results" / "runs"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not any(runs.glob("*/run.json")):
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGINT)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 130, errors
    assert "Traceback" not in errors
    kept = sorted(p.parent.name for p in runs.glob("*/run.json"))
    assert 1 <= len(kept) < 6
    stamps = {key: (runs / key / "run.json").stat().st_mtime_ns for key in kept}
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert f"{len(kept)} used again" in second.stdout
    assert {k: (runs / k / "run.json").stat().st_mtime_ns for k in kept} == stamps
    assert len(list(runs.glob("*/run.json"))) == 6
    assert not list(runs.glob(".*tmp"))


def test_nothing_of_a_sweep_outlives_kill_9(tmp_path):
    config = tmp_path / "kill.toml"
    config.write_text(
        """
        name = "kill"
        [run]
        problem = { kind = "logistic" }
        topology = "ring"
        nodes = 4
        algorithm = "dsgd_atc"
        steps = 10000000
        record_every = 1000000
        lr = 0.1
        """
    )
    command = [sys.executable, "scripts/train.py", str(config), "--results", str(tmp_path)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    session = first.pid
    while len(_processes(session)) < 3:  # itself, the resource tracker, a worker
        assert first.poll() is None
        time.sleep(0.1)
    time.sleep(3)
    first.kill()
    first.wait()
    deadline = time.monotonic() + 30
    while _processes(session) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not _processes(session)


def _processes(session: int) -> list[int]:
    """Processes of a session, zombies left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, owner = path.read_text().rsplit(")", 1)[1].split()[:4]
        except OSError:
            continue
        if int(owner) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


def test_a_killed_process_fails_its_own_run_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "WORK", "test_sweep:_die_on_seed_1")
    outcome = sweep([tiny(seed) for seed in range(4)], tmp_path, jobs=2)
    assert outcome.failed == [(tiny(1), "its process died (killed, or out of memory?)")]
    assert sorted(run.seed for run in outcome.finished) == [0, 2, 3]


def _die_on_seed_1(run: Run, **options) -> str:
    if run.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return execute(run, **options)


def test_leftovers_of_dead_writers_are_removed_and_others_kept(tmp_path):
    """Dead means: of this host and PID namespace, and no such process with that start time."""
    host, namespace, pid, _ = files.owner().split(".")
    runs = tmp_path / "runs"
    dead = [f".abc.{host}.{namespace}.999999999.5.tmp", f".abc.{host}.{namespace}.{pid}.5.tmp"]
    kept = [
        f".abc.{files.owner()}.tmp",
        f".abc.elsewhere.{namespace}.999999999.5.tmp",
        f".abc.{host}.17.999999999.5.tmp",
        f".abc.{host}.{namespace}.{10**30}.5.tmp",  # strange names
        ".x.tmp",
    ]
    for name in (*dead, *kept):
        (runs / name).mkdir(parents=True)
    sweep([], tmp_path)
    assert sorted(path.name for path in runs.iterdir()) == sorted(kept)


@pytest.mark.parametrize("topology", ["ring", "one_peer_exponential", "random_match"])
@pytest.mark.parametrize("nodes", [1, 3, 5, 6, 7, 12])
def test_any_number_of_nodes_trains(topology, nodes):
    *_, last = records_of(tiny(topology=topology, nodes=nodes))
    assert last.step == 25 and np.isfinite(last.values["error_workers"])


def test_memory_stays_flat_over_a_long_sweep_in_one_process(tmp_path):
    """Resident memory after 60 runs is that after 20, within a little: nothing piles up."""
    code = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from test_sweep import tiny
from expograph.memory import keep_freed_memory
from expograph.runs.runner import execute
keep_freed_memory()
peaks = []
for seed in range(60):
    execute(tiny(seed, problem={"kind": "logistic", "samples": 2000}, nodes=32), Path(sys.argv[1]))
    lines = Path("/proc/self/status").read_text().splitlines()
    peaks.append(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")))
print(peaks[19], peaks[-1])
"""
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    early, late = map(int, out.stdout.split())
    assert late < 1.1 * early
