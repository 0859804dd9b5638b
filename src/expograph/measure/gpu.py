"""Does CUDA give the numbers of the CPU, and how fast?

The same short runs on both: the models of all workers after `STEPS` steps, |x - x_cpu| / |x_cpu|
(the largest over workers), and seconds a step on each. TF32 is off: its products have ten bits.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple

import torch

from expograph.config import Run
from expograph.measure.speed import IMAGES, run_of
from expograph.runs.assemble import assemble

STEPS = 10  # more would compare how training multiplies a last bit
TOLERANCE = 1e-4
MODELS = ("mlp", "cnn", "resnet8_bn")
TOPOLOGIES = ("one_peer_exponential", "static_exponential", "random_match", "half_random")


class Compared(NamedTuple):
    """One run on both devices.

    Attributes:
        what: model and topology.
        difference: relative, of the worst worker.
        cpu, device: seconds a step, the first left out.
    """

    what: str
    difference: float
    cpu: float
    device: float

    @property
    def equal(self) -> bool:
        return self.difference <= TOLERANCE


def compare(device: str = "cuda", nodes: int = 32, **problem) -> Iterator[Compared]:
    """Each model on one-peer exponential, and the first on each topology."""
    pairs = [(model, TOPOLOGIES[0]) for model in MODELS]
    pairs += [(MODELS[0], topology) for topology in TOPOLOGIES[1:]]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for model, topology in pairs:
        run = run_of({**IMAGES, "model": model, **problem}, nodes, topology)
        expected, cpu = _trained(run, "cpu")
        found, seconds = _trained(run, device)
        distance = (found - expected).norm(dim=1) / expected.norm(dim=1)
        yield Compared(f"{model} on {topology}, n = {nodes}", float(distance.max()), cpu, seconds)


def _trained(run: Run, device: str) -> tuple[torch.Tensor, float]:
    """(n, d) models on the CPU, and seconds a step after the first."""
    changes = {"device": device, "steps": STEPS, "record_every": 1}
    run = Run.model_validate({**run.model_dump(), **changes})
    for record in assemble(run).records():
        if device == "cuda":
            torch.cuda.synchronize()
        if record.step == 1:
            start = time.perf_counter()
    return record.x.to("cpu").clone(), (time.perf_counter() - start) / (STEPS - 1)
