"""The commands around a job, as far as they go without one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from expograph.cli import main

ROOT = Path(__file__).parents[1]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["configs/table2.toml", "--np", "2"], "--np 2: the smallest run has 4 ranks"),
        (["configs/tabel2.toml", "--np", "8"], "configs/tabel2.toml: No such file"),
        (["topology=ring", "--np", "8"], "expected a config file"),
        (["configs/table2.toml"], "--engine bluefog: give --np"),
        (["configs/table2.toml", "--np", "8", "--hostfile", "nowhere"], "nowhere: No such file"),
        (["configs/table2.toml", "topolgy=ring", "--np", "8"], "did you mean run.topology?"),
    ],
)
def test_a_wrong_launch_is_one_line(words, said, capsys):
    assert main(["sweep", "--engine", "bluefog", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("bluefog", ["bfrun", "-np"]),
        ("mpi", ["mpirun", "-np"]),
        ("horovod", ["mpirun", "-np", "algorithm=psgd", "topology=fully_connected"]),
    ],
)
def test_a_job_for_each_number_of_nodes_up_to_np(tmp_path, engine, expected, monkeypatch, capsys):
    """Launchers that only write down what they were called with."""
    for name in ("bfrun", "mpirun"):
        script = tmp_path / name
        beside = (
            f"[ $(command -v mpirun) = '{tmp_path}/mpirun' ] || exit 7"  # as bfrun looks for it
        )
        script.write_text(f"#!/bin/sh\n{beside}\necho {name} \"$@\" >> '{tmp_path}/calls'\n")
        script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    words = ["sweep", "configs/table2.toml", "--engine", engine, "--np", "16", "seed=0"]
    assert main(words) == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[2] for call in calls] == ["4", "8", "16"]
    assert all(word in call for call in calls for word in [*expected, "seed=0"])
    assert all(f"engine={engine}" in call for call in calls)
    assert "more than 16 ranks: runs of [32]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"CXX": "no-such-compiler"}, "no C++ compiler: no-such-compiler"),
        ({"CXX": "false"}, "false cannot compile C++20"),
        ({"EXPOGRAPH_CUDA": "yes"}, "EXPOGRAPH_CUDA=yes: allowed are 0, 1 and auto"),
        ({"EXPOGRAPH_CUDA": "1", "CUDA_HOME": "/nowhere"}, "/nowhere/include/cuda_runtime.h"),
    ],
)
def test_what_stops_a_build_is_one_line_before_it_begins(environment, said):
    done = run("scripts/cluster_env/install.py", **environment)
    assert done.returncode == 1
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_a_finished_environment_is_left_alone():
    stamp = Path(sys.prefix) / "cluster.json"
    if not stamp.exists():
        pytest.skip("no cluster environment: make cluster-env")
    before = json.loads(stamp.read_text())
    done = run("scripts/cluster_env/install.py")
    assert done.returncode == 0 and "cluster environment is there" in done.stdout
    assert json.loads(stamp.read_text()) == before
