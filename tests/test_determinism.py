"""The same run twice is the same to the last bit; threads and blocks move it by rounding only."""

import json
import subprocess
import sys

import pytest
import torch

from expograph.config import Run
from expograph.engines import embedded
from expograph.runs import store
from expograph.runs.again import TIMES
from expograph.runs.runner import execute

ROUNDING = 1e-5  # relative, of what is recorded after so few steps
IMAGES = {"kind": "classification", "dataset": "digits", "batch_size": 16}
RUNS = {
    "mlp": {"problem": {**IMAGES, "model": "mlp"}, "algorithm": "dmsgd", "beta": 0.9},
    "resnet8_bn": {"problem": {**IMAGES, "model": "resnet8_bn"}, "algorithm": "dsgd_atc"},
    "logistic": {"problem": {"kind": "logistic", "dim": 300}, "algorithm": "dsgd_cta"},
}
COMMAND = """
import sys, torch
from pathlib import Path
from expograph.config import Run
from expograph.runs.runner import execute
torch.set_num_threads(int(sys.argv[3]))
execute(Run.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
"""


def run_of(name: str) -> Run:
    values = {"topology": "static_exponential", "nodes": 8, "steps": 40, "lr": 0.02}
    return Run.model_validate({**values, **RUNS[name]})


def numbers(run: Run, root) -> dict:
    curve = store.curve(run, root).drop(columns=list(TIMES))
    return {"models": store.load(run, root).models, "curve": curve.to_dict("list")}


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", RUNS)
def test_the_same_run_in_two_processes_is_the_same_to_the_last_bit(name, tmp_path):
    """At once, so that each has what the other leaves of the machine."""
    run = run_of(name)
    words = [sys.executable, "-c", COMMAND, run.model_dump_json()]
    both = [subprocess.Popen([*words, str(tmp_path / str(k)), "1"]) for k in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    one, other = (numbers(run, tmp_path / str(k)) for k in range(2))
    assert one["models"] and json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize("name", RUNS)
def test_threads_and_blocks_move_it_by_rounding(name, tmp_path, threads, monkeypatch):
    run, found = run_of(name), []
    for count, block in ((1, embedded.BLOCK), (2, embedded.BLOCK), (1, embedded.BLOCK // 7)):
        torch.set_num_threads(count)
        monkeypatch.setattr(embedded, "BLOCK", block)
        execute(run, tmp_path / f"{count} {block}")
        found.append(numbers(run, tmp_path / f"{count} {block}")["curve"])
    for other in found[1:]:
        for metric, values in found[0].items():
            assert other[metric] == pytest.approx(values, rel=ROUNDING, nan_ok=True), metric
