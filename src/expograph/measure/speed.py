"""Speed of a training step of all workers, against a plain loop over them."""

from collections.abc import Callable

import torch

from expograph import algorithms
from expograph.config import Run
from expograph.engines.embedded import Embedded
from expograph.graphs.topology import Topology
from expograph.measure.plain import plain_network
from expograph.measure.ratios import Ratio
from expograph.measure.timing import Rounds, interleaved, threads
from expograph.runs.assemble import assemble

LR, BETA = 0.01, 0.9
IMAGES = {"kind": "classification", "dataset": "fashion_mnist"}


def of_steps() -> list[Ratio]:
    """A training step of all workers, against a plain loop over them."""
    found = []
    cnn = {**IMAGES, "model": "cnn"}
    for name, problem, nodes, rounds, target in (
        ("logistic regression", {"kind": "logistic", "samples": 50}, 64, 60, ">= 3"),
        ("small CNN, batch 32", {**cnn, "batch_size": 32}, 16, 15, ">= 3"),
        ("small CNN, batch 16", {**cnn, "batch_size": 16}, 16, 15, ">= 3"),
        ("ResNet-8 with batch norm", {**IMAGES, "model": "resnet8_bn"}, 8, 9, ">= 1.5"),
    ):
        for number in (1, 2):
            with threads(number):
                times = times_of_step(problem, nodes, rounds)
            what = f"{name}, n = {nodes}, threads = {number}: plain loop / training step"
            found.append(times.ratio("training step", what, "loop", "vectorised", target))
    return found


def run_of(problem: dict, nodes: int, topology: str = "one_peer_exponential") -> Run:
    """The run whose parts are measured: vanilla DmSGD on a problem."""
    return Run.model_validate(
        {
            "problem": problem,
            "topology": topology,
            "nodes": nodes,
            "algorithm": "vanilla_dmsgd",
            "steps": 1,
            "lr": LR,
            "beta": BETA,
        }
    )


def times_of_step(problem: dict, nodes: int, rounds: int) -> Rounds:
    """A training step of all workers: "vectorised", and as a "loop" over the workers."""
    assembly = assemble(run_of(problem, nodes))
    built, topology = assembly.problem, assembly.schedule
    loop = _logistic_loop if problem["kind"] == "logistic" else _network_loop
    return interleaved(
        rounds, vectorised=vectorised(built, topology), loop=loop(built, topology, problem)
    )


def vectorised(problem, topology: Topology) -> Callable[[], None]:
    """A training step as the loop of `runs.train` does it."""
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
    networks = [plain_network(settings["model"], problem.images.shape) for _ in range(n)]
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


def _mix_in_loop(topology: Topology, k: int, rows: list[torch.Tensor]) -> list[torch.Tensor]:
    W = topology.at(k)
    return [
        W.self_weight(i) * rows[i] + sum(w * rows[j] for j, w in W.sources(i).items())
        for i in range(topology.n)
    ]
