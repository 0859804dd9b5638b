"""How long one averaging step takes, measured on the ranks of a job.

Every rank averages a float32 vector. A contender's time in a round is that of its slowest rank;
rounds interleave the contenders in random order, five calls each in a row; the median is
reported. Horovod, whose thread never rests, comes after the others.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from expograph import engines
from expograph.cluster.job import Job
from expograph.graphs.topology import build
from expograph.memory import keep_freed_memory

SIZES = [1_000, 10_000, 100_000, 1_000_000, 4_000_000]
CONTENDERS = {  # label: engine and topology
    "BlueFog allreduce": ("bluefog", "fully_connected"),
    "Horovod allreduce": ("horovod", "fully_connected"),
    "static exponential": ("bluefog", "static_exponential"),
    "one-peer exponential": ("bluefog", "one_peer_exponential"),
    "ring": ("bluefog", "ring"),
    "one-peer exponential, mpi4py": ("mpi", "one_peer_exponential"),
}
MESSAGE = "one message"  # every rank to the next: what alpha and beta are fitted to
STEP, BARE = "step", "bare neighbor_allreduce"  # by the engine; by hand; the one-peer graph
VISIT = 5  # calls of one contender in a row
FLAT, EACH, EACH_QUEUED = "one flat call", "a call a tensor", "a call a tensor, all queued"


def resnet20_shapes() -> list[tuple[int, ...]]:
    """Shapes of the 65 parameter tensors of ResNet-20 for CIFAR (He et al. 2016), 0.27 million."""
    shapes: list[tuple[int, ...]] = [(16, 3, 3, 3), (16,), (16,)]
    width = 16
    for stage in (16, 32, 64):
        for block in range(3):
            for inputs in (width if block == 0 else stage, stage):
                shapes += [(stage, inputs, 3, 3), (stage,), (stage,)]
        width = stage
    return [*shapes, (10, 64), (10,)]


def _engine(name: str, topology: str, job: Job) -> engines.Engine:
    return engines.build(name, build(topology, job.size), job)


def of_horovod(job: Job, size: int) -> dict[str, Callable[[int], object]]:
    """Horovod's contenders at one message size: label -> function of the round's number."""
    return averaging(job, size, {"horovod"})


def averaging(job: Job, size: int, libraries: set[str]) -> dict[str, Callable[[int], object]]:
    """The contenders of these engines at one message size."""
    x = torch.randn(1, size)
    timed: dict[str, Callable[[int], object]] = {}
    for label, (name, topology) in CONTENDERS.items():
        if name in libraries:
            engine = _engine(name, topology, job)
            timed[label] = lambda k, engine=engine: engine.mixer(k)(x)
    return timed


def of_the_others(job: Job, size: int) -> dict[str, Callable[[int], object]]:
    """All other contenders at one message size."""
    timed = averaging(job, size, {"bluefog", "mpi"})
    x = torch.randn(1, size)
    inbox, outbox = torch.empty(size), x[0].clone()

    def message(k: int) -> None:
        requests = [
            job.comm.Irecv(inbox.numpy(), (job.rank - 1) % job.size),
            job.comm.Isend(outbox.numpy(), (job.rank + 1) % job.size),
        ]
        for request in requests:
            job.wait(request.Test, MESSAGE)

    timed[MESSAGE] = message
    return timed


def step_and_bare(job: Job, size: int) -> dict[str, Callable[[int], object]]:
    """What an engine's averaging adds to BlueFog's call of the same bytes, and nothing between."""
    x = torch.randn(1, size)
    engine = _engine("bluefog", "one_peer_exponential", job)
    return {STEP: lambda k: engine.mixer(k)(x), BARE: bare(job, x)}


def bare(job: Job, x: torch.Tensor) -> Callable[[int], object]:
    """neighbor_allreduce as its documentation calls it, polled; the one-peer exponential graph."""
    import bluefog.torch as bf

    topology = build("one_peer_exponential", job.size)
    arguments = [
        {
            "self_weight": W.self_weight(job.rank),
            "src_weights": W.sources(job.rank),
            "dst_weights": W.destinations(job.rank),
            "enable_topo_check": False,
        }
        for W in map(topology.at, range(topology.period))
    ]

    def call(k: int) -> torch.Tensor:
        handle = bf.neighbor_allreduce_nonblocking(
            x[0], **arguments[k % len(arguments)], name="bare"
        )
        while not bf.poll(handle):
            time.sleep(20e-6)
        return bf.synchronize(handle)

    return call


def per_tensor(job: Job) -> dict[str, Callable[[int], object]]:
    """ResNet-20 averaged in one flat call, a call a tensor, and all tensors' calls queued."""
    import bluefog.torch as bf

    engine = _engine("bluefog", "one_peer_exponential", job)
    tensors = [torch.randn(shape) for shape in resnet20_shapes()]
    flat = torch.cat([tensor.flatten() for tensor in tensors]).unsqueeze(0)

    def start(k: int, i: int) -> int:
        part = engine.part(k % engine.topology.period)
        return bf.neighbor_allreduce_nonblocking(
            tensors[i],
            self_weight=part.self_weight,
            src_weights=part.sources,
            dst_weights=part.destinations,
            enable_topo_check=False,
            name=f"tensor.{i}",
        )

    def finish(handle: int) -> torch.Tensor:
        while not bf.poll(handle):
            time.sleep(20e-6)
        return bf.synchronize(handle)

    def queued(k: int) -> None:
        for handle in [start(k, i) for i in range(len(tensors))]:
            finish(handle)

    return {
        FLAT: lambda k: engine.mixer(k)(flat),
        EACH: lambda k: [finish(start(k, i)) for i in range(len(tensors))],
        EACH_QUEUED: queued,
    }


def time_rounds(job: Job, timed: dict[str, Callable], rounds: int) -> dict[str, float]:
    """Median seconds of the slowest rank, over rounds in which each contender has a turn.

    A turn is VISIT calls in a row, of which the first is not counted: the network's queues and
    windows are then those that the contender itself leaves, as in training.
    """
    seconds: dict[str, list[float]] = {label: [] for label in timed}
    labels = list(timed)
    shuffled = np.random.default_rng(0)  # the same order on every rank
    for turn in range(-(-rounds // (VISIT - 1)) + 1):
        for label in shuffled.permutation(labels).tolist():
            for k in range(VISIT):
                job.wait(job.comm.Ibarrier().Test, "a round")
                start = time.perf_counter()
                timed[label](turn * VISIT + k)
                own = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
                slowest = float(job.gather(own, "a round").max())
                if turn and k:  # the first turn warms up
                    seconds[label].append(slowest)
    return {label: float(np.median(values)) for label, values in seconds.items()}


def worker(sizes: list[int], rounds: int, out: Path) -> None:
    """One rank of the measurement; rank 0 writes what was measured as JSON.

    Its keys: ranks; seconds, by size and contender; pairs, what an engine adds to BlueFog's bare
    call, the same; tensors, ResNet-20's by the way in which they are sent.
    """
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does
    with Job() as job:
        seconds: dict[int, dict[str, float]] = {size: {} for size in sizes}
        tensors = time_rounds(job, per_tensor(job), rounds)
        pairs = {size: time_rounds(job, step_and_bare(job, size), 3 * rounds) for size in sizes}
        for contenders in (of_the_others, of_horovod):
            for size in sizes:
                seconds[size] |= time_rounds(job, contenders(job, size), rounds)
        if job.rank == 0:
            content = {"ranks": job.size, "seconds": seconds, "tensors": tensors, "pairs": pairs}
            out.write_text(json.dumps(content))
