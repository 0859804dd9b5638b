"""The averager in Accelerate, Hugging Face's Trainer and Lightning: real packages, 4 ranks.

`make frameworks` installs them; elsewhere these tests are skipped.
"""

import importlib.util
import json
import subprocess
import sys

import pytest
from jobs import ROOT

PACKAGES = {"accelerate": "accelerate", "trainer": "transformers", "lightning": "lightning"}


@pytest.mark.usefixtures("all_cores")
@pytest.mark.parametrize("case", PACKAGES)
def test_gradients_stay_local_models_are_averaged(case, tmp_path):
    if importlib.util.find_spec(PACKAGES[case]) is None:
        pytest.skip("make frameworks installs it")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4"]
    worker = str(ROOT / "tests" / "framework_worker.py")
    done = subprocess.run(
        [*command, worker, case, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["steps"] == 6
    assert told["apart"] > 1e-6  # each rank had moved by its own batches
    assert told["end"] < 1e-10
