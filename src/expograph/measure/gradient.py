"""Speed of the gradients of all workers, and of their evaluation."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expograph import networks
from expograph.config import Classification
from expograph.measure.plain import plain_network
from expograph.measure.ratios import Ratio
from expograph.measure.timing import interleaved, threads
from expograph.networks.flat import FlatModel
from expograph.problems.classification import ImageClassification

BATCH, SHAPE, CLASSES = 16, (28, 28, 1), 10
NAMES = {"mlp": "MLP", "cnn": "small CNN", "resnet8_bn": "ResNet-8"}
BLOCKS = (8, 16, 32, 64, 128)


class Workers:
    """n models that differ, and a batch for each."""

    def __init__(self, model: str, n: int) -> None:
        torch.manual_seed(0)
        self.network, self.n = FlatModel(networks.build(model, SHAPE, CLASSES)), n
        x, buffers = self.network.initial()
        self.x = x.repeat(n, 1) + 0.01 * torch.randn(n, len(x))
        self.buffers = buffers.repeat(n, 1)
        self.images = torch.randn(n, BATCH, *SHAPE)
        self.labels = torch.randint(CLASSES, (n, BATCH))

    def gradient(self, block: int | None = None) -> Tensor:
        """As a step has it, or in blocks of so many workers."""
        arrays = self.x, self.buffers, self.images, self.labels
        return self.network.loss_and_gradient(*arrays, block=block)[1]


def of_blocks(counts: tuple[int, ...] = (32, 128, 512), rounds: int = 5) -> list[Ratio]:
    """The gradient of all workers against the same in the best of some block sizes."""
    found = []
    for model, name in NAMES.items():
        for number in (1, 2):
            for n in counts:
                workers = Workers(model, n)
                sizes = sorted(size for size in {*BLOCKS, n} if size <= n)
                blocks: dict[str, Any] = {
                    str(size): partial(workers.gradient, size) for size in sizes
                }
                with threads(number):
                    times = interleaved(rounds, ours=workers.gradient, **blocks)
                best = times.fastest(*blocks)
                what = f"{name}, n = {n}, threads = {number}: gradient / in blocks of {best}"
                found.append(times.ratio("gradient", what, "ours", best, "<= 1.05"))
    return found


def of_numbers(counts: tuple[int, ...] = (8, 32, 128, 512), rounds: int = 5) -> list[Ratio]:
    """Time a worker against that of the fewest workers."""
    found, (few, *more) = [], counts
    for model, name in NAMES.items():
        with threads(1):
            each: dict[str, Any] = {str(n): Workers(model, n).gradient for n in counts}
            times = interleaved(rounds, **each)
        for n in more:
            what = f"{name}, threads = 1: time a worker at n = {n} / at n = {few}"
            ratio = times.ratio("gradient", what, str(n), str(few), "<= 1.2", factor=few / n)
            found.append(ratio)
    return found


def of_arithmetic(n: int = 32, rounds: int = 9) -> list[Ratio]:
    """The small CNN's gradient against the matrix products that it would be, alone."""
    workers = Workers("cnn", n)

    def random(*shape: int) -> Tensor:
        return torch.randn(n, *shape)

    patches1, patches2 = random(9, 196 * BATCH), random(16 * 9, 49 * BATCH)
    above1, above2, features = random(16, 196 * BATCH), random(32, 49 * BATCH), random(1568, BATCH)
    weight1, weight2, weight3, logits = (
        random(16, 9),
        random(32, 144),
        random(10, 1568),
        random(10, BATCH),
    )

    def products() -> None:
        """Forward, then by weights, then by images where a layer has some below it."""
        for left, right in (
            (weight1, patches1), (weight2, patches2), (weight3, features),
            (patches1, above1.mT), (above2, patches2.mT), (logits, features.mT),
            (weight2.mT, above2), (weight3.mT, logits),
        ):  # fmt: skip
            torch.bmm(left, right)

    found = []
    for number in (1, 2):
        with threads(number):
            times = interleaved(rounds, ours=workers.gradient, products=products)
        what = f"small CNN, n = {n}, threads = {number}: gradient / torch.bmm of the same products"
        found.append(times.ratio("gradient", what, "ours", "products", "<= 2"))
    return found


def of_evaluation(n: int = 32, images: int = 10_000, rounds: int = 3) -> list[Ratio]:
    """Local models on all test images, against torch.nn's layers one model at a time."""
    settings = Classification(
        kind="classification", dataset="fashion_mnist", model="cnn", batch_size=BATCH
    )
    problem = ImageClassification(settings, n, range(n), seed=0)
    x, buffers = (t.repeat(n, 1) for t in problem.initial())
    plain = plain_network("cnn", SHAPE).eval()
    samples = np.arange(min(images, len(problem.dataset.test_labels)))
    k = 0

    @torch.no_grad()
    def one_at_a_time() -> None:
        for _ in range(n):
            for start in range(0, len(samples), 1000):
                batch = problem.images.test(samples[start : start + 1000])
                plain(batch.permute(0, 3, 1, 2)).argmax(dim=1)

    def steps() -> None:
        nonlocal k
        for _ in range(10):
            problem.gradient(x, buffers, k)
            k += 1

    found = []
    for number in (1, 2):
        with threads(number):
            times = interleaved(
                rounds,
                ours=lambda: problem.count_correct(x, buffers),
                plain=one_at_a_time,
                steps=steps,
            )
        what = f"small CNN, n = {n}, threads = {number}"
        found += [
            times.ratio("evaluation", f"{what}: local models / torch.nn", "ours", "plain", "<= 1"),
            times.ratio(
                "evaluation",
                f"{what}: local models / gradients of 937 steps",
                "ours",
                "steps",
                "<= 0.1",
                factor=10 / 937,
            ),
        ]
    return found
