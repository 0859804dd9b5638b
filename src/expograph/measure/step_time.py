"""Milliseconds a step of a user's training takes, by who averages and when.

One process a host of the virtual cluster, one thread each. Every contender trains a copy of the
same model on the same batch, by SGD with momentum; a contender's time is that of the slowest rank.
Rounds interleave the contenders in random order; a turn is one step and then `VISIT` in a row,
timed together, since a message may be on its way from one step to the next; the median turn is
reported. Horovod and BlueFog, whose threads never rest, come after the others.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.averager import Averager
from expograph.memory import keep_freed_memory

VISIT = 6
BATCH = 32
GRADIENT, FORWARD = "gradient and optimizer alone", "forward pass alone"
OURS: dict[str, dict[str, Any]] = {
    "expograph, adapt then combine": {},
    'expograph, overlap="forward"': {"overlap": "forward"},
    'expograph, overlap="backward"': {"overlap": "backward"},
}
DECENT_DP, DDP = "Decent-DP 0.2.3, one-peer", "DistributedDataParallel"
BLUEFOG, MPI, HOROVOD = (
    "expograph over BlueFog, adapt then combine",
    "expograph over mpi4py, adapt then combine",
    "Horovod",
)
BLUEFOG_ALLREDUCE = "BlueFog all-reduce"
Step = Callable[[], object]


class Transformer(nn.Module):
    """A character-level transformer of 10 million parameters."""

    def __init__(self, width: int = 320, layers: int = 8, symbols: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, symbols)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.embedding(x)))


def mlp() -> tuple[nn.Module, Tensor, Tensor]:
    """784-2048-1024-10, 3.7 million parameters, and a batch for it."""
    sizes = (784, 2048, 1024, 10)
    layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    return model, torch.randn(BATCH, 784), torch.randint(10, (BATCH,))


def transformer() -> tuple[nn.Module, Tensor, Tensor]:
    """10 million parameters, and two texts of 32 characters."""
    text = torch.randint(256, (2, 32))
    return Transformer(), text, text


MODELS = {"MLP, 3.7 M parameters": mlp, "transformer, 10 M parameters": transformer}


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)


class Task:
    """A copy of a model, and a gradient at its batch."""

    def __init__(self, made: tuple[nn.Module, Tensor, Tensor]) -> None:
        self.model, self.x, self.y = deepcopy(made[0]), *made[1:]
        self.optimizer = sgd(self.model.parameters())

    def gradient(self, model: nn.Module | None = None) -> None:
        out = (model or self.model)(self.x)
        nn.functional.cross_entropy(out.flatten(0, -2), self.y.flatten()).backward()

    def step(self, model: nn.Module | None = None) -> None:
        self.gradient(model)
        self.optimizer.step()
        self.optimizer.zero_grad()


def alone(task: Task) -> Step:
    return task.step


def forward_alone(task: Task) -> Step:
    def step() -> None:
        with torch.no_grad():
            task.model(task.x)

    return step


def ours(task: Task, **options: Any) -> Step:
    backward = options.get("overlap") == "backward"
    given = task.optimizer if backward else None
    avg = Averager(task.model, given, **options)

    def step() -> None:
        task.gradient()
        if not backward:
            task.optimizer.step()
        avg.step()
        task.optimizer.zero_grad()

    return step


def ddp(task: Task) -> Step:
    wrapped = DistributedDataParallel(task.model)
    return lambda: task.step(wrapped)


def decent_dp(task: Task) -> Step:
    from decent_dp.ddp import DecentralizedDataParallel

    wrapped = DecentralizedDataParallel(
        task.model, lambda named: sgd([p for _, p in named]), topology="one-peer-exp"
    )
    return lambda: task.gradient(wrapped)


def horovod(task: Task) -> Step:
    import horovod.torch as hvd

    hvd.init()
    named = task.model.named_parameters()
    optimizer = hvd.DistributedOptimizer(task.optimizer, named_parameters=named)

    def step() -> None:
        task.gradient()
        optimizer.step()
        optimizer.zero_grad()

    return step


def contenders(made: tuple, peers: bool) -> list[tuple[str, Callable[[Task], Step]]]:
    """In the order in which they may stand beside each other; the last ones have busy threads."""
    first: list[tuple[str, Callable[[Task], Step]]] = [(GRADIENT, alone), (FORWARD, forward_alone)]
    first += [(label, partial(ours, **o)) for label, o in OURS.items()]
    first += [(DDP, ddp), *([(DECENT_DP, decent_dp)] if peers else [])]
    return first


def busy(made: tuple) -> list[tuple[str, Callable[[Task], Step]]]:
    """Those whose threads take a core's time as long as the process lives."""
    exact = {"topology": "fully_connected", "backend": "bluefog"}
    return [
        (MPI, lambda t: ours(t, backend="mpi")),
        (BLUEFOG, lambda t: ours(t, backend="bluefog")),
        (BLUEFOG_ALLREDUCE, lambda t: ours(t, **exact)),
        (HOROVOD, horovod),
    ]


def time_rounds(steps: Mapping[str, Step], rounds: int) -> dict[str, list[float]]:
    """Seconds a step of the slowest rank, by contender; one number a round."""
    seconds: dict[str, list[float]] = {label: [] for label in steps}
    shuffled = np.random.default_rng(0)  # the same order on every rank
    for turn in range(rounds + 1):
        for label in shuffled.permutation(list(steps)).tolist():
            dist.barrier()
            steps[label]()
            start = time.perf_counter()
            for _ in range(VISIT):
                steps[label]()
            slowest = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            if turn:  # the first one warms up
                seconds[label].append(float(slowest) / VISIT)
    return seconds


def worker(rounds: int, peers: bool, out: Path) -> None:
    """One rank, launched by mpirun; rank 0 writes {model: {contender: seconds}} as JSON."""
    torch.set_num_threads(1)
    keep_freed_memory()
    rank, size = (int(os.environ[f"OMPI_COMM_WORLD_{word}"]) for word in ("RANK", "SIZE"))
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["TP_SOCKET_IFNAME"] = "eth0"
    dist.init_process_group("gloo", rank=rank, world_size=size)
    told: dict[str, Any] = {"ranks": size, "seconds": {}, "bytes": {}}
    for makers in (contenders, lambda made, peers: busy(made)):
        for name, make in MODELS.items():
            torch.manual_seed(0)
            made = make()
            told["bytes"][name] = sum(p.nbytes for p in made[0].parameters())
            steps = {label: build(Task(made)) for label, build in makers(made, peers)}
            found = told["seconds"].setdefault(name, {})
            found |= time_rounds(steps, rounds)
    if rank == 0:
        out.write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def tables_of(told: Mapping[str, Any], rate_bytes: float, where: str, made: Mapping) -> Tables:
    """Medians, and their ratios to what bounds them."""
    tables = []
    for name, seconds in told["seconds"].items():
        median = {label: float(np.median(values)) for label, values in seconds.items()}
        wire = told["bytes"][name] / rate_bytes
        rows = [_row("the wire: one model at the links' rate", [wire], wire, median)]
        rows += [_row(label, values, wire, median) for label, values in seconds.items()]
        tables.append(
            TableResult(
                id=name.split(",")[0].lower(),
                heading=name,
                labels=("who averages",),
                columns=(
                    Column(name="ms a step", format=".0f"),
                    Column(name="quartiles", format=".0f"),
                    Column(name="over the larger of wire and compute", format=".2f"),
                    Column(name="over wire and forward pass", format=".2f"),
                ),
                rows=tuple(rows),
            )
        )
    return Tables(
        title="A step of a user's own training",
        tables=tuple(tables),
        notes=(
            f"{told['ranks']} ranks on a {where}, one thread a rank, batch of {BATCH} (the "
            "transformer: 2 texts of 32). Medians of interleaved turns of "
            f"{VISIT} steps, the slowest rank's time, and half the distance between the quartiles.",
            f"{made['cpu']}, {made['cores']} cores, torch {made['torch']}; `make bench-step`",
        ),
        made=dict(made),
    )


def _row(label: str, values: Sequence[float], wire: float, median: Mapping[str, float]) -> Row:
    middle = float(np.median(values))
    spread = float(np.subtract(*np.percentile(values, [75, 25]))) / 2
    compute, forward = median[GRADIENT], median[FORWARD]
    numbers = (1e3 * middle, 1e3 * spread, middle / max(wire, compute), middle / (wire + forward))
    return Row(labels=(label,), cells=tuple(Cell(mean=n, count=len(values)) for n in numbers))
