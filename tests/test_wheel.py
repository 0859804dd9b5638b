"""The wheel, built and used in an empty folder: what the package needs when it runs is inside."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("setuptools", reason="what builds a wheel")

OWN_GRAPH = """
import expograph as eg, networkx as nx, torch
inputs = torch.randn(60, 4)
problem = eg.Supervised(torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, inputs, inputs[:, :1])
result = eg.train(problem, "dsgd_atc", eg.topology(nx.petersen_graph()), steps=100, lr=0.2)
print(result.final["loss_averaged"] < 0.1, eg.__file__)
"""
EXPERIMENT = """
name = "own_sweep"
[run]
topology = "ring"
nodes = 4
algorithm = "dsgd_atc"
steps = 20
lr = 0.05
problem.kind = "least_squares"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src/expograph", source / "src/expograph")
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", out, source]
    subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(site)
    return site


@pytest.fixture
def command(installed, tmp_path):
    """Runs Python in an empty folder, where the wheel is all there is of expograph."""

    def run(*words):
        environment = os.environ | {"PYTHONPATH": str(installed)}
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def test_everything_of_the_package_is_in_the_wheel(wheel):
    inside = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    there = {p for p in (ROOT / "src/expograph").rglob("*") if p.is_file()}
    wanted = {p.relative_to(ROOT / "src").as_posix() for p in there if p.suffix != ".pyc"}
    assert inside == wanted
    assert {"expograph/py.typed", "expograph/__init__.pyi"} <= inside


def test_a_network_trains_on_a_graph_of_ones_own_with_the_wheel_alone(command, installed):
    done = command("-c", OWN_GRAPH)
    assert done.stdout.split() == ["True", str(installed / "expograph/__init__.py")], done.stderr


def test_a_config_of_ones_own_is_swept_outside_the_repository(command, tmp_path):
    (tmp_path / "own_sweep.toml").write_text(EXPERIMENT)
    done = command("-m", "expograph.cli", "sweep", "own_sweep.toml")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "results/runs").iterdir()
    assert (run / "run.json").is_file()


@pytest.mark.parametrize(
    "words",
    [["sweep", "configs/table2.toml"], ["table", "table2"], ["report"], ["claims"], ["verify"]],
)
def test_what_needs_the_repositorys_files_says_so_in_one_line(command, words):
    done = command("-m", "expograph.cli", *words)
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1, done.stderr
