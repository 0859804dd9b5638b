"""The engines under a real bfrun, on 1 to 8 ranks: equal numbers, and an end to every failure.

Needs `make cluster-env`; without it every test here is skipped, and says so. EXPOGRAPH_CLUSTER=1
(continuous integration) makes that a failure instead.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from jobs import BIN, ROOT, WORKER, alive, case, finish, launch, start

from expograph.runs import store

TRAIN = [sys.executable, str(ROOT / "scripts" / "train.py")]

missing = [name for name in ("bfrun", "mpirun") if not (BIN / name).exists()]
if missing and os.environ.get("EXPOGRAPH_CLUSTER") == "1":
    raise RuntimeError("EXPOGRAPH_CLUSTER=1, and there is no cluster environment")
pytestmark = [
    pytest.mark.skipif(bool(missing), reason="no cluster environment: make cluster-env"),
    pytest.mark.usefixtures("all_cores"),
]


# ---- equal numbers ----


@pytest.mark.parametrize("ranks", [4, 6, 8])
def test_engines_agree_with_the_embedded_one(ranks, tmp_path):
    """A part of `make engines-agree`: all algorithms, all topologies, random ones too."""
    command = [sys.executable, "scripts/engines_agree.py", "--quick", "--ranks", str(ranks)]
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worst difference" in done.stdout


@pytest.mark.parametrize(("ranks", "local_size"), [(4, 2), (8, 2), (6, 3), (2, 2)])
def test_servers_of_several_ranks_agree_with_the_embedded_engine(ranks, local_size):
    """Ranks of one host as several servers; as one server, the last, every average is exact."""
    told = case(ranks, "servers", str(local_size))
    assert told["runs"] == 32 and told["on_hosts"] == (ranks == local_size)
    assert told["difference"] < 1e-12 and told["spread"] == 0 and told["bytes_equal"]


def test_servers_that_are_hosts_use_bluefogs_machines(tmp_path):
    """Daemons of this machine that Open MPI, and so BlueFog, takes for four hosts."""
    agent = tmp_path / "agent"
    # instead of ssh; the daemons of one machine would write the same file in one temporary folder
    agent.write_text(
        f'#!/bin/sh\nexport TMPDIR={tmp_path}/$1\nmkdir -p $TMPDIR\nshift\nexec /bin/sh -c "$*"\n'
    )
    agent.chmod(0o755)
    settings = {
        "plm_rsh_agent": agent,
        "btl": "tcp,self",  # shared memory would mix the hosts up
        "btl_tcp_if_include": "lo",
        "oob_tcp_if_include": "lo",
    }
    options = [word for key, value in settings.items() for word in ("--mca", key, str(value))]
    hosts = ["--prefix", str(BIN.parent), "-H", ",".join(f"127.0.0.{h}:2" for h in range(11, 15))]
    worker = [sys.executable, WORKER, "servers", "2"]
    done = launch(8, *options, *hosts, *worker, launcher="mpirun")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["runs"] == 32 and told["on_hosts"]
    assert told["difference"] < 1e-12 and told["spread"] == 0 and told["bytes_equal"]


CONFIG = """
name = "pair"
[run]
algorithm = "dmsgd"
steps = 12  # and steady ones: batch norm on tiny batches multiplies every rounding
lr = 0.005
beta = 0.9
record_every = 4
evaluate_every = 4
nodes = 2
[run.problem]
kind = "classification"
dataset = "digits"
model = "resnet8_bn"
batch_size = 16
[[sweep]]
topology = ["one_peer_exponential", "random_match"]
[[sweep]]
algorithm = ["psgd"]
topology = ["fully_connected"]
[table]
title = "t"
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("a folder, 'quoted'") / "pair.toml"  # bfrun goes by a shell
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize(
    ("engine", "launcher"), [("bluefog", "bfrun"), ("mpi", "mpirun"), ("bluefog", "mpirun")]
)
def test_a_config_runs_unchanged_and_leaves_the_same_curves(config, tmp_path, engine, launcher):
    """Batch norm, evaluation on the way, several runs in one job, paths with spaces and quotes."""
    results = tmp_path / "it's here"
    words = [str(config), "--results", str(results)]
    done = launch(2, *TRAIN, *words, f"engine={engine}", launcher=launcher)
    assert done.returncode == 0, done.stderr
    assert "3 finished" in done.stdout and done.stdout.count("ranks on 1 hosts") == 1
    subprocess.run([*TRAIN, *words, "--jobs", "1"], cwd=ROOT, check=True, capture_output=True)
    keys = ["algorithm", "topology"]
    columns = ["accuracy_averaged", "accuracy_worker_worst", "bytes_sent_max", "bytes_sent_mean"]
    ours = pd.read_csv(results / f"pair_{engine}" / "runs.csv").set_index(keys)
    theirs = pd.read_csv(results / "pair" / "runs.csv").set_index(keys)
    assert len(ours) == 3 and set(ours["status"]) == {"done"}
    pd.testing.assert_frame_equal(ours[columns], theirs[columns], rtol=0, atol=0.6)
    for column in ("consensus_distance", "train_loss"):
        pd.testing.assert_series_equal(ours[column], theirs[column], rtol=1e-3, atol=1e-9)
    content = json.loads((results / "runs" / ours["key"].iloc[0] / "run.json").read_text())
    assert content["transport"] == "host memory" and len(content["hosts"]) == 2
    again = launch(2, *TRAIN, *words, f"engine={engine}", launcher=launcher)
    assert "3 used again" in again.stdout
    assert not list(results.glob("runs/.*"))


@pytest.mark.parametrize("engine", ["bluefog", "mpi"])
def test_a_config_with_servers_runs_as_a_job_of_all_ranks(config, tmp_path, engine):
    words = [str(config), "nodes=2", "local_size=2", "problem.model=linear"]
    words += ["--results", str(tmp_path)]
    done = launch(4, *TRAIN, *words, f"engine={engine}")
    assert done.returncode == 0, done.stderr
    subprocess.run([*TRAIN, *words, "--jobs", "1"], cwd=ROOT, check=True, capture_output=True)
    variation = "local_size=2,nodes=2,problem.model=linear"
    folder = tmp_path / "custom" / "pair"
    ours = pd.read_csv(folder / f"engine={engine},{variation}" / "runs.csv")
    theirs = pd.read_csv(folder / variation / "runs.csv")
    for column in ("consensus_distance", "train_loss", "bytes_sent_max", "bytes_sent_mean"):
        assert len(ours) == 3 and ours[column].tolist() == pytest.approx(
            theirs[column].tolist(), rel=1e-5, abs=1e-9
        )
    assert (ours["bytes_sent_mean"] == ours["bytes_sent_max"] / 2).all()  # leaders only
    wrong = launch(2, *TRAIN, *words, f"engine={engine}")
    assert wrong.returncode == 2 and "this job has 2: bfrun -np 4" in wrong.stderr


@pytest.mark.parametrize(("engine", "runs"), [("bluefog", 3), ("horovod", 1)])
def test_a_sweep_starts_its_jobs_without_a_prepared_path(config, tmp_path, engine, runs):
    """As make does it: nothing of the environment is activated."""
    words = ["sweep", str(config), "--engine", engine, "--np", "2", "--results", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "expograph", *words, "problem.model=linear", "steps=4"],
        cwd=ROOT,
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"{runs} finished" in done.stdout
    (table,) = tmp_path.glob("custom/pair/*/runs.csv")
    assert len(pd.read_csv(table)) == runs


def test_horovod_is_parallel_sgd(config, tmp_path):
    words = [str(config), "algorithm=psgd", "topology=fully_connected", "--results", str(tmp_path)]
    assert launch(2, *TRAIN, *words, "engine=horovod").returncode == 0
    refused = launch(2, *TRAIN, str(config), "engine=horovod", "topology=ring")
    assert refused.returncode == 2 and "topology must be fully_connected" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_one_rank_trains_on_every_topology():
    assert case(1, "alone") == {"trained": True}


def test_every_graph_is_mixed_along_its_own_edges():
    """Also with several peers of different weights, and where columns alone sum to one."""
    assert case(4, "graphs")["mixed"] > 100
    assert case(5, "graphs", "null_cascade", "directed_random", "simple_base(k=2)")["mixed"] > 10


@pytest.mark.parametrize("accumulation", ["1", "3"])
def test_the_topology_asked_for_advances_once_a_step(accumulation):
    """Rank 0 of 4 hears 3, 2, 3, 2, ... also when a step accumulates three gradients."""
    heard = [[3], [2]] * 4
    assert case(4, "peers", accumulation) == {"bluefog": heard, "mpi": heard}


def test_the_message_travels_during_the_gradient():
    assert case(2, "overlap") == {"order": ["sent", "gradient", "awaited"] * 2}


def test_many_calls_in_a_row():
    """A short soak; `make soak` makes 10,000 at 8 ranks."""
    told = case(4, "soak", "600")
    assert told["calls"] == 600 and told["error"] < 1e-9


# ---- every failure ends the job ----


@pytest.mark.parametrize(
    ("how", "rank", "said"),
    [
        ("raise", 1, "rank 1 on {host}: ArithmeticError: the gradient went wrong"),
        ("exit", 0, "rank 0 on {host}: SystemExit: 1"),
        ("kill", 2, "rank 2"),
        ("stop", 1, "no answer from rank 1 on {host}"),
        ("slow", 0, "rank 0 on {host} is still at step 3"),
    ],
)
def test_a_failing_rank_ends_the_job_and_is_named(tmp_path, how, rank, said):
    marker = f"EXPOGRAPH_TEST={tmp_path}"
    limit = 4.0
    process = start(
        3,
        *(sys.executable, WORKER, "fail", how, str(rank), str(tmp_path / "results")),
        EXPOGRAPH_TIMEOUT=str(limit),
        EXPOGRAPH_TEST=str(tmp_path),
    )
    done = finish(process, timeout=60)
    assert done.returncode != 0
    assert said.format(host=socket.gethostname()) in done.stderr
    time.sleep(1)
    assert alive(marker) == []
    store.discard_leftovers(tmp_path / "results")  # as the next command does
    assert list(tmp_path.glob("results/runs/*")) == []  # nothing half-written, nothing called done


def test_a_rank_that_never_starts_is_named():
    done = launch(3, sys.executable, WORKER, "start_late", "100", EXPOGRAPH_TIMEOUT="3")
    assert done.returncode != 0
    assert "3 ranks have not met within 3 s" in done.stderr and "rank 1 is missing" in done.stderr


@pytest.mark.parametrize(
    ("kind", "local_size", "said"),
    [
        ("source", 1, "custom, step 2: rank 1 waits for rank 2, which sends to [6]"),
        ("weights", 1, "custom, step 2: the weights that rank 0 takes in sum to 1.1"),
        ("source", 2, "custom, step 2: rank 0 sends to rank 2, which waits for nobody"),
        ("weights", 2, "custom, step 2: the weights that rank 0 takes in sum to 1.1"),
    ],
)
def test_a_schedule_on_which_ranks_disagree_is_found_before_the_first_step(kind, local_size, said):
    words = ["mismatch", kind, str(local_size)]
    done = launch(8, sys.executable, WORKER, *words, EXPOGRAPH_TIMEOUT="30")
    assert done.returncode != 0 and said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (["lr=0.5"], "has runs"),
        (["seed=7"], "has runs"),
        (["problem.dataset=fashion_mnist"], "has runs"),
    ],
)
def test_ranks_of_other_configs_do_not_train_together(others, said, config, tmp_path):
    words = [*TRAIN, str(config), "engine=mpi", "nodes=3", "--results", str(tmp_path)]
    done = launch(1, *words, ":", "-np", "2", *words, *others, launcher="mpirun")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("job ended: ") == 1 and "Traceback" not in done.stderr
    assert f"rank 1 on {socket.gethostname()} {said} " in done.stderr
    assert not list(tmp_path.glob("runs/*/run.json"))


def test_nan_on_one_rank_stops_all_with_the_status_diverged(tmp_path):
    assert case(4, "diverge", "2", str(tmp_path)) == {"status": "diverged"}
    (record,) = tmp_path.glob("runs/*/run.json")
    content = json.loads(record.read_text())
    assert content["status"] == "diverged" and "step 9" in content["note"]


def test_an_interrupted_job_keeps_what_is_finished_and_goes_on(config, tmp_path):
    words = [*TRAIN, str(config), "engine=bluefog", "--results", str(tmp_path), "steps=300"]
    process = start(2, *words)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not list(tmp_path.glob("runs/*/run.json")):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    done = finish(process, 60)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    kept = {path.parent.name for path in tmp_path.glob("runs/*/run.json")}
    assert 1 <= len(kept) < 3
    again = launch(2, *words)
    assert again.returncode == 0 and f"{len(kept)} used again" in again.stdout


@pytest.mark.parametrize("name", ["bluefog", "mpi", "horovod"])
def test_an_interrupted_run_goes_on_to_the_same_bits(name, tmp_path):
    """By a signal to one rank; and, nearly, from a checkpoint of the embedded engine."""
    told = case(4, "resume", name, str(tmp_path))
    assert told["same"] and told["difference"] < 1e-5
    (whole, (again,), (other,)) = told["resumed"]
    assert whole == [] and 24 <= again < 40 and other == 18
    assert not list(tmp_path.glob("again/runs/*.checkpoint"))


# ---- launching ----


@pytest.mark.parametrize(
    ("ranks", "words", "said"),
    [
        (2, ["nodes=2"], "2 ranks were launched for the embedded engine"),
        (2, ["nodes=4", "engine=bluefog"], "this job has 2: bfrun -np 4"),
        (2, ["nodes=2", "engine=blufog"], "did you mean 'bluefog'?"),
    ],
)
def test_a_wrong_launch_is_one_line(config, ranks, words, said):
    done = launch(ranks, *TRAIN, str(config), *words)
    assert done.returncode == 2
    assert done.stderr.count(said) == 1 and "Traceback" not in done.stderr


def test_an_engine_without_a_launcher_says_how_to_launch(config):
    done = subprocess.run(
        [*TRAIN, str(config), "engine=bluefog"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2 and "bfrun -np 2 python scripts/train.py" in done.stderr


def test_a_schedulers_variables_without_its_launcher_are_one_line_of_ours(config):
    environment = os.environ | {"PMI_SIZE": "2", "PMI_RANK": "0"}
    done = subprocess.run(
        [*TRAIN, str(config), "engine=mpi"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "2 workers need 2 ranks, the job has 1" in done.stderr


def test_two_jobs_side_by_side_do_not_meet(config, tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    words = [*TRAIN, str(config), "engine=bluefog", "topology=ring", "algorithm=dmsgd"]
    jobs = [start(2, *words, "--results", str(folder)) for folder in folders]
    assert [finish(job).returncode for job in jobs] == [0, 0]
    a, b = (pd.read_csv(table) for f in folders for table in f.glob("custom/pair/*/runs.csv"))
    assert a["train_loss"].tolist() == b["train_loss"].tolist()


def test_data_is_fetched_once_by_a_host(tmp_path):
    """Eight ranks, an empty data folder and a slow download: one rank fetches, all train."""
    told = case(8, "fetch", str(tmp_path / "log"), EXPOGRAPH_DATA=str(tmp_path / "data"))
    assert told == {"sizes": [60000] * 8}
    assert (tmp_path / "log").read_text().split() == ["fetched"]
