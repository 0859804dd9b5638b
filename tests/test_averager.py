"""The averager in a loop of one's own: real ranks, held against dense matrices."""

import json
import subprocess
import sys

import pandas as pd
import pytest
import torch
from jobs import BIN, ROOT, launch
from torch import nn

from expograph.averager import Averager
from expograph.averager.overlap import divide
from expograph.cluster.launch import JobError

WORKER = str(ROOT / "tests" / "averager_worker.py")
needs_cluster = pytest.mark.skipif(
    not (BIN / "bfrun").exists(), reason="no cluster environment: make cluster-env"
)


@pytest.mark.usefixtures("all_cores")
@pytest.mark.parametrize(
    ("backend", "ranks", "launcher"),
    [
        ("torch", 4, "local"),
        ("torch", 3, "local"),
        ("torch", 1, "local"),
        pytest.param("mpi", 4, "mpirun", marks=needs_cluster),
        pytest.param("bluefog", 4, "bfrun", marks=needs_cluster),
    ],
)
def test_every_case_is_its_formula(backend, ranks, launcher):
    done = launch(ranks, sys.executable, WORKER, backend, launcher=launcher)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(told) == 13
    assert {case: error for case, error in told.items() if error > 2e-6} == {}


def test_what_does_not_fit_is_one_line():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for words, said in (
        ({"overlap": "both"}, "overlap 'both': allowed are"),
        ({"overlap": "backward"}, "optimizer: give it with overlap='backward'"),
        ({"optimizer": optimizer}, "optimizer: give it with overlap='backward'"),
        ({"every": 0}, "every 0: needs at least 1"),
        ({"overlap": "forward", "outer": torch.optim.SGD}, "outer: needs overlap=None"),
        ({"buffers": "kept"}, "buffers 'kept'"),
        ({"wire": torch.int8}, "wire torch.int8"),
        ({"wire": torch.float16, "backend": "bluefog"}, "wire: BlueFog carries"),
        ({"bucket_mb": 0}, "bucket_mb 0"),
        ({"backend": "smoke"}, "backend"),
    ):
        with pytest.raises(ValueError) as caught:
            Averager(model, **words)
        assert said in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="no parameter to average"):
        Averager(nn.Linear(2, 2).requires_grad_(False))
    with pytest.raises(JobError, match=r"call torch.distributed.init_process_group\(\) first"):
        Averager(model)


def test_buckets_hold_every_parameter_once_and_the_last_first():
    model = nn.Sequential(*(nn.Linear(10, 10) for _ in range(6)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    buckets = divide(optimizer, 900)
    found = [p for bucket in buckets for group in bucket for p in group]
    assert [id(p) for p in found] == [id(p) for p in reversed(list(model.parameters()))]
    assert all(sum(p.nbytes for g in b for p in g) <= 900 for b in buckets) and len(buckets) == 3


def test_a_killed_rank_is_an_error_in_the_loop_of_the_others(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(
        "import os, torch, torch.distributed as dist, expograph as eg\n"
        "dist.init_process_group('gloo')\n"
        "model = torch.nn.Linear(3, 3)\n"
        "avg = eg.Averager(model)\n"
        "for k in range(100):\n"
        "    if k == 7 and dist.get_rank() == 1: os._exit(0)\n"
        "    avg.step()\n"
    )
    done = launch(3, sys.executable, str(script), launcher="local")
    assert done.returncode != 0
    assert "of 3 failed in the averaging at averaging 7" in done.stderr


def test_the_ten_lines_of_the_page_run(tmp_path):
    """As the documentation has them, under torchrun."""
    text = (ROOT / "docs/averager.md").read_text()
    script = tmp_path / "ten.py"
    script.write_text(text.split("```python\n")[1].split("```")[0])
    done = subprocess.run(
        [str(BIN / "torchrun"), "--nproc-per-node", "2", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("all_cores")
@pytest.mark.parametrize("task", ["images", "text"])
def test_examples_train_in_every_way(task, tmp_path):
    words = ["scripts/own_training.py", task, "--steps", "8", "--every", "8"]
    done = launch(4, sys.executable, *words, "--results", str(tmp_path), launcher="local")
    assert done.returncode == 0, done.stderr
    curves = pd.read_csv(tmp_path / f"{task}.csv")
    first, last = (curves[curves.step == step].set_index("way") for step in (0, 8))
    assert len(last) == 4 and (last.loss < first.loss).all()
    messages = last.bytes / last.bytes["one_peer_exponential"]
    assert messages.round(2).tolist() == pytest.approx([1.5, 1, 2, 2], rel=0.01)
