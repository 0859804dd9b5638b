"""Speed of a training step in the embedded engine, as ratios within one run.

Times are medians of interleaved rounds, so that a machine that slows down slows down both sides
of a ratio.
"""

import statistics
import time
from collections.abc import Callable

import torch

from expograph import algorithms
from expograph.config import Run
from expograph.engines.embedded import Embedded
from expograph.graphs.topology import Topology
from expograph.measure.ratios import Ratio
from expograph.runs.assemble import assemble

LR, BETA = 0.01, 0.9
IMAGES = {"kind": "classification", "dataset": "fashion_mnist"}


def medians(rounds: int, **contenders: Callable[[], object]) -> dict[str, float]:
    """Seconds of each contender: the median over `rounds` rounds in which each runs once."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds + 2):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t[2:]) for name, t in times.items()}  # two rounds warm up


def of_steps() -> list[Ratio]:
    """A training step of all workers, against a plain loop over them."""
    rows = []
    for name, problem, nodes, rounds, limit in (
        ("logistic regression", {"kind": "logistic", "samples": 50}, 64, 60, ">= 3"),
        ("small CNN, batch 32", {**IMAGES, "model": "cnn"}, 16, 15, ">= 2"),
    ):
        fast, slow = seconds_of_step(problem, nodes, rounds)
        what = f"{name}, n = {nodes}: plain loop / training step"
        rows.append(Ratio(what, slow / fast, limit))
    return rows


def seconds_of_step(problem: dict, nodes: int, rounds: int) -> tuple[float, float]:
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
    assembly = assemble(run)
    built, topology = assembly.problem, assembly.schedule
    fast = _vectorised(built, topology)
    loop = _logistic_loop if problem["kind"] == "logistic" else _network_loop
    found = medians(rounds, fast=fast, slow=loop(built, topology, problem))
    return found["fast"], found["slow"]


def _vectorised(problem, topology: Topology) -> Callable[[], None]:
    engine, (x0, b0) = Embedded(topology), problem.initial()
    rule = algorithms.build("vanilla_dmsgd")
    state, buffers, k = rule.init(x0.repeat(topology.n, 1)), b0.repeat(topology.n, 1), 0

    def step() -> None:
        nonlocal state, buffers, k

        def grad(x):
            nonlocal buffers
            _, gradients, buffers = problem.gradient(x, buffers, k)
            return gradients

        state = rule.step(state, grad, engine.mixer(k), LR, BETA)
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
    labels = torch.from_numpy(problem.dataset.train_labels)
    networks = [PLAIN[settings["model"]](problem.images.shape) for _ in range(n)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=LR, momentum=BETA) for net in networks]

    def step() -> None:
        nonlocal k
        samples = problem.batches.at(k)
        for i, (network, optimizer) in enumerate(zip(networks, optimizers, strict=True)):
            (images,) = problem.images.train(samples[[i]], [])  # (B, H, W, C)
            optimizer.zero_grad()
            logits = network(images.permute(0, 3, 1, 2))
            torch.nn.functional.cross_entropy(
                logits, labels[torch.from_numpy(samples[i])]
            ).backward()
            optimizer.step()
        with torch.no_grad():
            flat = [torch.nn.utils.parameters_to_vector(net.parameters()) for net in networks]
            for network, row in zip(networks, _mix_in_loop(topology, k, flat), strict=True):
                torch.nn.utils.vector_to_parameters(row, network.parameters())
        k += 1

    return step


def plain_cnn(shape: tuple[int, int, int]) -> torch.nn.Module:
    """networks.small.cnn in torch's own layers and NCHW layout, for images of this (H, W, C)."""
    height, width, channels = shape
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, 16, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * -(-height // 4) * -(-width // 4), 10),
    )


PLAIN = {"cnn": plain_cnn}


def _mix_in_loop(topology: Topology, k: int, rows: list[torch.Tensor]) -> list[torch.Tensor]:
    W = topology.at(k)
    return [
        W.self_weight(i) * rows[i] + sum(w * rows[j] for j, w in W.sources(i).items())
        for i in range(topology.n)
    ]
