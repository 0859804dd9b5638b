"""The doctor's findings on machines made up here, and one look at the real one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from expograph import cli, doctor
from expograph.doctor import Finding, verdicts

TORCH = {"torch": "2.14.1+cpu", "torchvision": "0.29.1", "gpus": 0, "cuda": None}


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose only commands are those the test writes into its folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(doctor.sys, "prefix", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("says", "state", "cure"),
    [
        ("mpirun (Open MPI) 4.1.8", "ok", ""),
        ("mpirun (Open MPI) 5.0.11", "note", "mpirun instead of bfrun"),
        ("HYDRA build details: Version: 4.2", "broken", "make cluster-env"),
        (None, "missing", "make cluster-env"),
    ],
)
def test_open_mpi(machine, says, state, cure):
    if says:
        script(machine, "mpirun", f"echo '{says}'")
    found = doctor._open_mpi()
    assert found.state == state and cure in found.cure


def test_a_hanging_command_is_broken_and_does_not_hang_us(machine, monkeypatch):
    script(machine, "mpirun", "exec /bin/sleep 100")
    monkeypatch.setattr(doctor, "run", lambda c, t=0: REAL_RUN(c, 0.5))
    found = doctor._open_mpi()
    assert found.state == "broken" and "no answer within" in found.found


REAL_RUN = doctor.run


def test_another_mpirun_first_in_the_path(machine, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    script(other, "mpirun", "echo 'mpirun (Open MPI) 4.0.3'")
    script(machine, "mpirun", "echo 'mpirun (Open MPI) 4.1.8'")
    monkeypatch.setenv("PATH", str(other))
    found = doctor._open_mpi()
    assert found.state == "note" and str(other) in found.found and "activate" in found.cure


@pytest.mark.parametrize(
    ("text", "state"),
    [(None, "missing"), ("echo 'g++ 9.4'; test \"$1\" = --version", "broken")],
)
def test_compilers_that_cannot_build(machine, text, state):
    if text:
        script(machine, "g++", text)
    found = doctor._compiler()
    assert found.state == state and "g++" in found.cure


@pytest.mark.parametrize(
    ("stamp", "told", "state", "said"),
    [
        ({"torch": "2.14.1"}, {"nccl": False}, "ok", "built against torch 2.14.1"),
        ({"torch": "2.13.0"}, {"nccl": False}, "broken", "installed is 2.14.1"),
        ("not JSON", {"nccl": True}, "note", "torch unknown"),
        (None, {"error": "undefined symbol: _ZN2at"}, "broken", "undefined symbol"),
    ],
)
def test_a_library_built_against_another_torch(machine, monkeypatch, stamp, told, state, said):
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: "0.3.0")
    if stamp:
        (machine / "cluster.json").write_text(stamp if stamp == "not JSON" else json.dumps(stamp))
    found = doctor._compiled("BlueFog", {"BlueFog": told, "torch": TORCH})
    assert found.state == state and said in found.found
    assert state != "broken" or found.cure == "make cluster-env"


def test_four_ranks_on_one_gpu_go_by_the_hosts_memory(machine):
    libraries = {"torch": TORCH | {"gpus": 1}, "BlueFog": {"nccl": True}}
    script(machine, "ompi_info", "echo mca:mpi:base:param:mpi_built_with_cuda_support:value:false")
    found = doctor._gpus(libraries, 4)
    assert found.state == "note" and "host's memory" in found.cure
    assert "does not read" in found.found
    assert doctor._gpus(libraries, 1).state == "ok"


@pytest.mark.parametrize(("user", "state"), [(0, "note"), (1000, "ok")])
def test_root(monkeypatch, user, state):
    monkeypatch.setattr(doctor.os, "geteuid", lambda: user)
    found = doctor._root()
    assert found.state == state and ("--allow-run-as-root" in found.cure) == (user == 0)


def test_slots_and_threads(monkeypatch):
    assert doctor._slots(2, 2).state == "ok"
    assert "--oversubscribe" in doctor._slots(8, 2).cure
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert "OMP_NUM_THREADS=1" in doctor._threads(8, 2).cure
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert doctor._threads(2, 16) == Finding("threads", "ok", "8 a rank")


def test_an_engine_is_ready_if_nothing_it_needs_is_missing():
    every = {what for needs in doctor.NEEDS.values() for what in needs}
    good = [Finding(what, "ok", "") for what in every]
    assert set(verdicts(good).values()) == {"ready"}
    bad = [f._replace(state="broken") if f.what == "BlueFog" else f for f in good]
    bad = [f._replace(state="missing") if f.what == "testbed" else f for f in bad]
    told = verdicts(bad)
    assert told["bluefog"] == "needs BlueFog" and told["testbed"] == "needs testbed"
    assert told["embedded"] == told["mpi"] == told["horovod"] == "ready"


def test_the_engine_asked_for_decides_the_exit_status(monkeypatch, capsys):
    findings = [Finding("torch", "ok", "2"), Finding("BlueFog", "missing", "no", "do this")]
    monkeypatch.setattr(doctor, "examine", lambda ranks: findings)
    assert cli.main(["doctor"]) == 0
    assert cli.main(["doctor", "--engine", "bluefog"]) == 1
    assert "-> do this" in capsys.readouterr().out


def test_this_machine_on_one_screen():
    words = [sys.executable, "-m", "expograph.cli", "doctor", "--ranks", "8"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    for what in ("torch", "compiler", "Open MPI", "BlueFog", "slots", "GPUs", "testbed"):
        assert any(line.startswith(what) for line in done.stdout.splitlines())
    assert "embedded: ready" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80 and "\x1b" not in done.stdout
