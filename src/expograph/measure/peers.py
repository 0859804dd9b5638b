"""One run in one process against a process a worker on the same cores, as other simulators do.

The processes are plain torch ones over gloo: a model, torch.optim.SGD and a message each step,
the way of EXO Gym and of most tutorials. BlueFog's are this repository's own ranks under bfrun.
"""

import json
import shutil
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch import multiprocessing
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from expograph.measure.plain import plain_network
from expograph.measure.ratios import Ratio
from expograph.measure.speed import BETA, IMAGES, LR, run_of, vectorised
from expograph.measure.sweeps import run_alone
from expograph.measure.timing import Rounds, interleaved
from expograph.runs.assemble import assemble
from expograph.runs.mpi_job import search_path

BATCH, SHAPE = 16, (28, 28, 1)
STEPS = 10  # of the processes, a round
AVERAGED = {"fully_connected": "all-reduce", "one_peer_exponential": "one-peer"}


def of_processes(counts: tuple[int, ...] = (4, 8, 16), rounds: int = 5) -> list[Ratio]:
    """A step of n workers: n processes over gloo / the embedded engine, small CNN, batch 16."""
    targets = {4: ">= 15", 16: ">= 50"}
    found = []
    for n in counts:
        with Processes(n) as processes:
            for topology, name in AVERAGED.items():
                times = interleaved(
                    rounds,
                    processes=partial(processes.step, topology),
                    ours=_ours(topology, n),
                )
                what = f"small CNN, n = {n}, {name}: {n} processes over gloo / embedded engine"
                target = targets.get(n, "")
                found.append(times.ratio("peers", what, "processes", "ours", target))
    return found


def _ours(topology: str, n: int):
    """`STEPS` steps of the embedded engine, from data to mixing."""
    problem = {**IMAGES, "model": "cnn", "batch_size": BATCH}
    parts = assemble(run_of(problem, n, topology))
    step = vectorised(parts.problem, parts.schedule)

    def steps() -> None:
        for _ in range(STEPS):
            step()

    return steps


CONFIG = """
name = "peers"
[run]
topology = "{topology}"
nodes = {n}
algorithm = "{algorithm}"
beta = 0.9
steps = {steps}
record_every = {steps}
lr = 0.01
problem = {{ kind = "classification", dataset = "fashion_mnist", model = "cnn", batch_size = 16 }}
"""


def of_bluefog(n: int = 8, steps: int = 100, rounds: int = 3) -> list[Ratio]:
    """The same run as `bfrun -np 8` / embedded, training alone; nothing where bfrun is not."""
    if shutil.which("bfrun", path=search_path()) is None:
        return []
    found = []
    for topology, name in AVERAGED.items():
        seconds = Rounds({"bluefog": [], "embedded": []})
        for _ in range(rounds):
            for engine, each in seconds.seconds.items():
                each.append(_train_seconds(topology, n, steps, engine))
        what = f"small CNN, n = {n}, {name}: bfrun -np {n} / embedded engine"
        found.append(seconds.ratio("peers", what, "bluefog", "embedded", ">= 15"))
    return found


def _train_seconds(topology: str, n: int, steps: int, engine: str) -> float:
    """Seconds that the training of a run took, by its own record."""
    algorithm = "psgd" if topology == "fully_connected" else "vanilla_dmsgd"
    with TemporaryDirectory() as folder:
        config = Path(folder) / "peers.toml"
        values = {"topology": topology, "algorithm": algorithm, "n": n, "steps": steps}
        config.write_text(CONFIG.format(**values))
        ranks = [] if engine == "embedded" else ["--np", str(n)]
        there = ["--results", folder, "--engine", engine, *ranks]
        run_alone("-m", "expograph", "sweep", str(config), *there)
        (record,) = Path(folder).rglob("run.json")
        return float(json.loads(record.read_text())["final"]["train_seconds"])


class Processes:
    """n processes that train on random images, a thread each, told when to do `STEPS` steps."""

    def __init__(self, n: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._folder = TemporaryDirectory()
        store = str(Path(self._folder.name) / "store")
        self._pipes, self._processes = [], []
        for rank in range(n):
            ours, theirs = context.Pipe()
            process = context.Process(target=_worker, args=(rank, n, store, theirs), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def step(self, topology: str) -> None:
        """`STEPS` steps of all."""
        for pipe in self._pipes:
            pipe.send(topology)
        for pipe in self._pipes:
            pipe.recv()

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(10)
            process.terminate()
        self._folder.cleanup()


def _worker(rank: int, n: int, store: str, pipe: Connection) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=n)
    network = plain_network("cnn", SHAPE)
    optimizer = torch.optim.SGD(network.parameters(), lr=LR, momentum=BETA)
    images, labels = torch.randn(BATCH, 1, *SHAPE[:2]), torch.randint(10, (BATCH,))
    pipe.send(time.time())
    k = 0
    while topology := pipe.recv():
        for _ in range(STEPS):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(images), labels).backward()
            optimizer.step()
            with torch.no_grad():
                mine = parameters_to_vector(network.parameters())
                vector_to_parameters(_averaged(mine, topology, rank, n, k), network.parameters())
            k += 1
        pipe.send(k)
    dist.destroy_process_group()


def _averaged(mine: torch.Tensor, topology: str, rank: int, n: int, k: int) -> torch.Tensor:
    if topology == "fully_connected":
        dist.all_reduce(mine)
        return mine / n
    hop = 2 ** (k % (n - 1).bit_length())
    heard = torch.empty_like(mine)
    sending = dist.isend(mine, (rank - hop) % n)
    assert sending is not None, "gloo sends what is sent"
    dist.recv(heard, (rank + hop) % n)
    sending.wait()
    return (mine + heard) / 2
