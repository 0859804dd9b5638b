"""Speed and memory of the embedded engine, as ratios within one run.

Times are medians of interleaved rounds, so that a machine that slows down slows down both sides
of a ratio. Memory is the peak resident size of a fresh process, less what it had at its start.
"""

import argparse
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from expograph import algorithms, problems
from expograph.config import Run
from expograph.engines.embedded import Embedded
from expograph.files import replace_text
from expograph.graphs.spectral import spectral_gap
from expograph.graphs.topology import Topology, build
from expograph.memory import keep_freed_memory
from expograph.runs import results
from expograph.runs.provenance import provenance

LR, BETA = 0.01, 0.9


def medians(rounds: int, **contenders: Callable[[], object]) -> dict[str, float]:
    """Seconds of each contender: the median over `rounds` rounds in which each runs once."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds + 2):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t[2:]) for name, t in times.items()}  # two rounds warm up


def bench_mixing(n: int = 64, d: int = 1_000_000) -> list[tuple]:
    """One step of averaging, against one pass over the memory and against the dense product."""
    x, y, out = (torch.randn(n, d) for _ in range(3))
    dense = torch.from_numpy(build("one_peer_exponential", n).at(3).dense()).float()
    state = {name: (Embedded(build(name, n)), torch.randn(n, d), 0) for name in ONE_STEP}

    def step(name: str) -> None:
        engine, z, k = state[name]
        state[name] = engine, engine.mixer(k)(z), k + 1

    found = medians(
        9,
        add=lambda: torch.add(x, y, alpha=0.5, out=y),
        dense=lambda: torch.mm(dense, x, out=out),
        **{name: (lambda name=name: step(name)) for name in ONE_STEP},
    )
    rows = [
        (f"{name}, n = {n}, d = {d:,}: time / torch.add", found[name] / found["add"], limit)
        for name, limit in ONE_STEP.items()
    ]
    ratio = found["dense"] / found["one_peer_exponential"]
    return [
        *rows,
        (f"one_peer_exponential, n = {n}, d = {d:,}: dense W @ X / time", ratio, ">= 4"),
    ]


ONE_STEP = {"one_peer_exponential": "<= 1.25", "random_match": "", "static_exponential": ""}


def bench_step(problem: dict, nodes: int, rounds: int) -> tuple[float, float]:
    """Seconds of a training step of all workers: (vectorised, plain loop over the workers)."""
    run = Run.model_validate(
        {
            "problem": problem,
            "topology": "one_peer_exponential",
            "nodes": nodes,
            "algorithm": "vanilla_dmsgd",
            "steps": 1,
            "lr": LR,
            "beta": BETA,
        }
    )
    built = problems.build(run.problem, nodes, range(nodes), run.seed)
    topology = build(run.topology, nodes)
    fast = _vectorised(built, topology)
    loop = _logistic_loop if problem["kind"] == "logistic" else _network_loop
    found = medians(rounds, fast=fast, slow=loop(built, topology, problem))
    return found["fast"], found["slow"]


def _vectorised(problem, topology: Topology) -> Callable[[], None]:
    engine, (x0, b0) = Embedded(topology), problem.initial()
    algorithm = algorithms.build("vanilla_dmsgd")
    state, buffers, k = algorithm.init(x0.repeat(topology.n, 1)), b0.repeat(topology.n, 1), 0

    def step() -> None:
        nonlocal state, buffers, k

        def grad(x):
            nonlocal buffers
            _, gradients, buffers = problem.gradient(x, buffers, k)
            return gradients

        state = algorithm.step(state, grad, engine.mixer(k), LR, BETA)
        k += 1

    return step


def _logistic_loop(problem, topology: Topology, _: dict) -> Callable[[], None]:
    """One worker after the other, each with its own small tensors, as a straightforward script."""
    n, (x0, _) = topology.n, problem.initial()
    x, m, k = [x0.clone() for _ in range(n)], [torch.zeros_like(x0) for _ in range(n)], 0
    data = list(zip(problem.features, problem.labels, strict=True))

    def step() -> None:
        nonlocal x, k
        half = []
        for i, (a, b) in enumerate(data):
            slopes = -b * torch.sigmoid(-b * (a @ x[i]))
            g = slopes @ a / len(b) + problem.settings.l2 * x[i]
            g = g + problem.settings.noise * torch.randn_like(g)
            m[i] = BETA * m[i] + g
            half.append(x[i] - LR * m[i])
        x = _mix_in_loop(topology, k, half)
        k += 1

    return step


def _network_loop(problem, topology: Topology, settings: dict) -> Callable[[], None]:
    """n modules and n torch.optim.SGD, one after the other, as a straightforward script."""
    n, k = topology.n, 0
    networks = [PLAIN[settings["model"]]() for _ in range(n)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=LR, momentum=BETA) for net in networks]

    def step() -> None:
        nonlocal k
        samples = torch.from_numpy(problem.batches.at(k))
        for i, (network, optimizer) in enumerate(zip(networks, optimizers, strict=True)):
            images = problem._normalised(problem._images[samples[i]]).permute(0, 3, 1, 2)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(
                network(images), problem._labels[samples[i]]
            ).backward()
            optimizer.step()
        with torch.no_grad():
            flat = [torch.nn.utils.parameters_to_vector(net.parameters()) for net in networks]
            for network, row in zip(networks, _mix_in_loop(topology, k, flat), strict=True):
                torch.nn.utils.vector_to_parameters(row, network.parameters())
        k += 1

    return step


def plain_cnn() -> torch.nn.Module:
    """models.cnn in torch's own layers and NCHW layout."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 7 * 7, 10),
    )


PLAIN = {"cnn": plain_cnn}


def _mix_in_loop(topology: Topology, k: int, rows: list[torch.Tensor]) -> list[torch.Tensor]:
    W = topology.at(k)
    return [
        W.self_weight(i) * rows[i] + sum(w * rows[j] for j, w in W.sources(i).items())
        for i in range(topology.n)
    ]


def in_fresh_process(function: Callable, *arguments) -> tuple:
    """(what `function` returns, its peak of resident memory above the start in bytes)."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (function, *arguments))


def _measured(function: Callable, *arguments) -> tuple:
    torch.zeros(8).sum()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    value = function(*arguments)
    return value, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def many_steps(algorithm: str, topology: str, n: int, d: int) -> None:
    """Ten steps on a quadratic, whose only arrays are models, gradients and momenta."""
    keep_freed_memory()
    engine, rule = Embedded(build(topology, n)), algorithms.build(algorithm)
    state = rule.init(torch.randn(n, d))
    for k in range(10):
        state = rule.step(state, lambda x: 0.5 * x, engine.mixer(k), LR, BETA)


def a_million_gap() -> float:
    start = time.perf_counter()
    spectral_gap(build("static_exponential", 2**20).at(0))
    return time.perf_counter() - start


def a_million_averages() -> float:
    start = time.perf_counter()
    topology = build("one_peer_exponential", 2**20)
    engine, x = Embedded(topology), torch.randn(2**20, 16)
    mean = x.double().mean(dim=0)
    for k in range(topology.period):
        x = engine.mixer(k)(x)
    assert float((x - mean).abs().max()) < 1e-5
    return time.perf_counter() - start


def bench_memory(n: int = 16, d: int = 1_000_000) -> list[tuple]:
    rows = []
    for algorithm, topology in (
        ("vanilla_dmsgd", "one_peer_exponential"),
        ("dmsgd", "static_exponential"),
        ("qg_dmsgd", "random_match"),
    ):
        _, peak = in_fresh_process(many_steps, algorithm, topology, n, d)
        ratio = peak / (3 * n * d * 4)
        name = f"{algorithm} on {topology}, n = {n}, d = {d:,}"
        rows.append((f"{name}: peak memory / (models + gradients + momenta)", ratio, "<= 4"))
    return rows


def bench_million() -> list[tuple]:
    gap_seconds, _ = in_fresh_process(a_million_gap)
    seconds, peak = in_fresh_process(a_million_averages)
    return [
        ("n = 2^20: spectral gap, seconds", gap_seconds, "< 1"),
        ("n = 2^20, d = 16: exact averaging, seconds", seconds, "< 10"),
        ("n = 2^20, d = 16: exact averaging, peak GiB", peak / 2**30, "< 1"),
    ]


def bench_steps() -> list[tuple]:
    rows = []
    for name, problem, nodes, rounds, limit in (
        ("logistic regression", {"kind": "logistic", "samples": 50}, 64, 60, ">= 3"),
        ("small CNN, batch 32", {**IMAGES, "model": "cnn"}, 16, 15, ">= 2"),
    ):
        fast, slow = bench_step(problem, nodes, rounds)
        rows.append((f"{name}, n = {nodes}: plain loop / training step", slow / fast, limit))
    return rows


IMAGES = {"kind": "classification", "dataset": "fashion_mnist"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    arguments = parser.parse_args()
    memory = bench_memory() + bench_million()  # before this process grows
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    rows = bench_mixing() + bench_steps() + memory
    frame = pd.DataFrame(rows, columns=["measured", "value", "target"])
    frame["value"] = frame["value"].map(lambda v: f"{v:.2f}")
    machine = provenance()
    note = f"{machine['cpu']}, {arguments.threads} threads, torch {machine['torch']}; `make bench`"
    folder = arguments.results / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / "bench.csv", frame.to_csv(index=False))
    text = (
        f"# Speed and memory of the embedded engine\n\n{frame.to_markdown(index=False)}\n\n{note}\n"
    )
    replace_text(folder / "bench.md", text)
    screen = Table(*frame.columns, title=note)
    for row in frame.itertuples(index=False):
        screen.add_row(*row)
    Console().print(screen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
