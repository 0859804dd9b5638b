"""How long one averaging step takes, measured on the ranks of a group.

Every rank averages a float32 vector. A contender's time in a round is that of its slowest rank;
rounds interleave the contenders in random order, five calls each in a row; the median is
reported. Horovod, whose thread never rests, comes after the others.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from expograph import engines
from expograph.algorithms.base import Mixed
from expograph.cluster.mpi_group import MpiGroup
from expograph.engines.bluefog import BlueFog
from expograph.graphs.topology import build
from expograph.memory import keep_freed_memory

Timed = dict[str, Callable[[int], object]]  # label -> function of the round's number

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


def _engine(name: str, topology: str, group: MpiGroup) -> engines.Engine:
    return engines.build(name, build(topology, group.size), group)


def of_horovod(group: MpiGroup, size: int) -> Timed:
    """Horovod's contenders at one message size: label -> function of the round's number."""
    return averaging(group, size, {"horovod"})


def averaging(group: MpiGroup, size: int, libraries: set[str]) -> Timed:
    """The contenders of these engines at one message size."""
    x = torch.randn(1, size)
    timed: Timed = {}
    for label, (name, topology) in CONTENDERS.items():
        if name in libraries:
            engine = _engine(name, topology, group)
            timed[label] = partial(_step, engine, x)
    return timed


def _step(engine: engines.Engine, x: torch.Tensor, k: int) -> Mixed:
    return engine.mixer(k)(x)


def of_the_others(group: MpiGroup, size: int) -> Timed:
    """All other contenders at one message size."""
    timed = averaging(group, size, {"bluefog", "mpi"})
    x = torch.randn(1, size)
    inbox, outbox = torch.empty(size), x[0].clone()

    def message(k: int) -> None:
        requests = [
            group.comm.Irecv(inbox.numpy(), (group.rank - 1) % group.size),
            group.comm.Isend(outbox.numpy(), (group.rank + 1) % group.size),
        ]
        for request in requests:
            group.wait(request.Test, MESSAGE)

    timed[MESSAGE] = message
    return timed


def step_and_bare(group: MpiGroup, size: int) -> Timed:
    """What an engine's averaging adds to BlueFog's call of the same bytes, and nothing between."""
    x = torch.randn(1, size)
    engine = _engine("bluefog", "one_peer_exponential", group)
    return {STEP: lambda k: engine.mixer(k)(x), BARE: bare(group, x)}


def bare(group: MpiGroup, x: torch.Tensor) -> Callable[[int], object]:
    """neighbor_allreduce as its documentation calls it, polled; the one-peer exponential graph."""
    import bluefog.torch as bf

    topology = build("one_peer_exponential", group.size)
    assert topology.period is not None
    arguments = [
        {
            "self_weight": W.self_weight(group.rank),
            "src_weights": W.sources(group.rank),
            "dst_weights": W.destinations(group.rank),
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


def per_tensor(group: MpiGroup) -> Timed:
    """ResNet-20 averaged in one flat call, a call a tensor, and all tensors' calls queued."""
    import bluefog.torch as bf

    engine = BlueFog(build("one_peer_exponential", group.size), group)
    tensors = [torch.randn(shape) for shape in resnet20_shapes()]
    flat = torch.cat([tensor.flatten() for tensor in tensors]).unsqueeze(0)

    def start(k: int, i: int) -> int:
        part = engine.part(k % (engine.topology.period or 1))
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


def time_rounds(group: MpiGroup, timed: Timed, rounds: int) -> dict[str, float]:
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
                group.wait(group.comm.Ibarrier().Test, "a round")
                start = time.perf_counter()
                timed[label](turn * VISIT + k)
                own = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
                slowest = float(group.gather(own, "a round").max())
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
    with MpiGroup() as group:
        seconds: dict[int, dict[str, float]] = {size: {} for size in sizes}
        tensors = time_rounds(group, per_tensor(group), rounds)
        pairs = {size: time_rounds(group, step_and_bare(group, size), 3 * rounds) for size in sizes}
        for contenders in (of_the_others, of_horovod):
            for size in sizes:
                seconds[size] |= time_rounds(group, contenders(group, size), rounds)
        if group.rank == 0:
            content = {"ranks": group.size, "seconds": seconds, "tensors": tensors, "pairs": pairs}
            out.write_text(json.dumps(content))
