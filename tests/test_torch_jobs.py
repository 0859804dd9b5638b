"""Jobs over torch.distributed, on 1 to 6 ranks: equal numbers, and an end to every failure.

As `test_cluster` does for MPI; nothing here needs the cluster environment.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pandas as pd
import pytest
from jobs import BIN, ROOT, WORKER, alive, case, finish, launch, start

from expograph.cluster.launch import JobError, first_host, torch_place
from expograph.runs import store

pytestmark = pytest.mark.usefixtures("all_cores")
TRAIN = [sys.executable, "-m", "expograph", "train"]
CONFIG = """
name = "pair"
[run]
algorithm = "dmsgd"
steps = 12
lr = 0.02
beta = 0.9
record_every = 4
evaluate_every = 4
nodes = 3
[run.problem]
kind = "classification"
dataset = "digits"
model = "mlp"
batch_size = 16
[[sweep]]
topology = ["one_peer_exponential", "random_match"]
[[sweep]]
algorithm = ["psgd"]
topology = ["fully_connected"]
[table]
title = "t"
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "pair.toml"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize("ranks", [4, 6])
def test_the_engine_agrees_with_the_embedded_one(ranks):
    command = [sys.executable, "scripts/engines_agree.py", "--quick", "--carriers", "torch"]
    done = subprocess.run(
        [*command, "--ranks", str(ranks)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worst difference" in done.stdout


@pytest.mark.parametrize("launcher", ["sweep", "torchrun"])
def test_a_config_runs_unchanged_and_leaves_the_same_curves(config, tmp_path, launcher):
    torchrun = [str(BIN / "torchrun"), "--nproc-per-node", "3", "-m", *TRAIN[2:], "engine=torch"]
    sweep = [*TRAIN[:3], "sweep", "--engine", "torch", "--np", "4"]
    way = torchrun if launcher == "torchrun" else sweep
    results = ["--results", str(tmp_path / "results")]
    done = subprocess.run([*way, str(config), *results], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    here = subprocess.run([*TRAIN, str(config), *results], cwd=ROOT, capture_output=True)
    assert here.returncode == 0
    a, b = (pd.read_csv(tmp_path / "results" / n / "runs.csv") for n in ("pair_torch", "pair"))
    assert len(a) == 3 and a["topology"].tolist() == b["topology"].tolist()
    for column in ("train_loss", "consensus_distance", "bytes_sent_mean"):
        assert a[column].tolist() == pytest.approx(b[column].tolist(), rel=1e-4)


def test_a_job_tells_where_the_time_of_its_ranks_went(config, tmp_path):
    results, traces = tmp_path / "results", tmp_path / "traces"
    words = [*TRAIN, str(config), "engine=torch", "algorithm=dmsgd", "topology=random_match"]
    done = launch(
        3, *words, "--results", str(results), launcher="local", EXPOGRAPH_TRACE=str(traces)
    )
    assert done.returncode == 0, done.stderr
    assert "the ranks' training time: compute" in done.stdout
    run = json.loads(next(results.glob("runs/*/run.json")).read_text())
    assert len(run["seconds_by_rank"]) == 3
    for seconds in run["seconds_by_rank"]:
        assert all(value > 0 for value in seconds.values())
    first = run["seconds_by_rank"][0]
    parts = first["compute"] + first["packing"] + first["waiting"]
    assert parts == pytest.approx(run["final"]["train_seconds"], abs=1e-3)
    for rank in range(3):
        trace = json.loads((traces / f"{run['key']}.rank{rank}.json").read_text())
        names = [event["name"] for event in trace["traceEvents"] if event["ph"] == "X"]
        assert {name: names.count(name) for name in names} == {
            "packing": 12,
            "waiting": 12,
            "wire": 12,
        }
    shown = subprocess.run(
        [*TRAIN[:3], "run", run["key"], "--results", str(results)], capture_output=True, text=True
    )
    assert "by rank" in shown.stdout and "waiting" in shown.stdout, shown.stderr


@pytest.mark.parametrize(
    ("how", "rank", "said"),
    [
        ("raise", 1, "rank 1 on {host}: ArithmeticError: the gradient went wrong"),
        ("exit", 0, "rank 0 on {host}: SystemExit: 1"),
        ("kill", 2, "no answer from rank 2 on {host}"),
        ("kill", 0, "the store of rank 0 or of torchrun has gone"),
        ("stop", 1, "no answer from rank 1 on {host}"),
        ("slow", 0, "rank 0 on {host} is still at step 3"),
    ],
)
def test_a_failing_rank_ends_the_job_and_is_named(tmp_path, how, rank, said):
    process = start(
        3,
        *(sys.executable, WORKER, "fail", how, str(rank), str(tmp_path / "results")),
        launcher="local",
        EXPOGRAPH_TIMEOUT="4",
        EXPOGRAPH_TEST=str(tmp_path),
    )
    done = finish(process, timeout=60)
    assert done.returncode != 0
    assert said.format(host=socket.gethostname()) in done.stderr
    time.sleep(1)
    assert alive(f"EXPOGRAPH_TEST={tmp_path}") == []
    store.discard_leftovers(tmp_path / "results")
    assert list(tmp_path.glob("results/runs/*")) == []


def test_ranks_end_with_their_launcher(tmp_path):
    words = [sys.executable, WORKER, "start_late", "100"]
    process = start(2, *words, launcher="local", EXPOGRAPH_TEST=str(tmp_path))
    deadline = time.monotonic() + 30
    while len(alive(f"EXPOGRAPH_TEST={tmp_path}")) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.communicate()
    time.sleep(1)
    assert alive(f"EXPOGRAPH_TEST={tmp_path}") == []


def test_a_rank_that_never_starts_is_named(monkeypatch):
    done = launch(3, sys.executable, WORKER, "start_late", "100", launcher="local")
    assert done.returncode != 0
    assert "3 ranks have not met: rank 1 has not come" in done.stderr


def test_a_missing_rank_0_is_said(tmp_path):
    environment = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    done = subprocess.run(
        [sys.executable, WORKER, "alone"],
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0 and "rank 1 finds no rank 0 at 127.0.0.1:1" in done.stderr


def test_one_rank_trains_on_every_topology():
    assert case(1, "alone", launcher="local") == {"trained": True}


def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path):
    told = case(4, "resume", "torch", str(tmp_path), launcher="local")
    assert told["same"] and told["difference"] < 1e-5
    (whole, (again,), (other,)) = told["resumed"]
    assert whole == [] and 24 <= again < 40 and other == 18


def test_sigusr1_saves_and_the_same_command_goes_on(config, tmp_path):
    words = [*TRAIN, str(config), "engine=torch", "steps=600", "topology=random_match"]
    words += ["algorithm=dmsgd", "--results", str(tmp_path / "results")]
    process = start(3, *words, launcher="local")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("results/running/*")) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGUSR1)
    assert finish(process).returncode == 130
    assert list(tmp_path.glob("results/runs/*.checkpoint/*.json"))
    assert launch(3, *words, launcher="local").returncode == 0
    found = [json.loads(run.read_text()) for run in tmp_path.glob("results/runs/*/run.json")]
    assert sorted(len(run["resumed"]) for run in found) in ([0, 1], [1, 1])


def test_an_engine_without_a_launcher_says_how_to_launch(config):
    done = subprocess.run(
        [*TRAIN, str(config), "engine=torch"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "torchrun --nproc-per-node 3 scripts/train.py" in done.stderr


def test_places_by_launcher(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(JobError, match="launch with torchrun"):
        torch_place()
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "8")
    monkeypatch.setenv("SLURM_PROCID", "5")
    with pytest.raises(JobError, match="MASTER_ADDR and MASTER_PORT are not set"):
        torch_place()
    monkeypatch.setenv("SLURM_STEP_NODELIST", "gpu-b[07-08]")
    monkeypatch.setenv("SLURM_JOB_ID", "41234")
    place = torch_place()
    assert (place.rank, place.size, place.address, place.port) == (5, 8, "gpu-b07", 21234)
    assert first_host("a1,a2") == "a1" and first_host("n[3,5]") == "n3"
