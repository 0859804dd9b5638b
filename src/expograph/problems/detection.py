"""Object detection, the training images divided over the workers by their largest object."""

import itertools
from collections.abc import Sequence
from functools import lru_cache, partial, reduce
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from expograph import config, data
from expograph.data.batches import Batches
from expograph.data.partition import describe, partition
from expograph.data.scenes import Scenes, Target
from expograph.networks import detectors
from expograph.networks.flat import FlatModel, Network
from expograph.randomness import AUGMENT, INITIAL, LAYERS, generator

TEST_CHUNK = 50  # small test images a forward pass; photographs go by fours
DETECTIONS = 300  # most of an image: torchvision's RetinaNet keeps as many, its Faster R-CNN 100


class Detection:
    """The sum of a detector's losses, a worker at a time. See `problem.Problem`."""

    metrics: ClassVar[dict[str, str]] = {
        "map_50": "mAP (%) at IoU 0.5 of the averaged model",
        "map": "mAP (%) over IoU 0.5 to 0.95 of the averaged model",
        "map_50_worker_mean": "mAP (%) at IoU 0.5, mean over the local models",
        "map_50_worker_worst": "mAP (%) at IoU 0.5 of the worst local model",
    }

    def __init__(
        self,
        settings: config.Detection,
        workers: int,
        ranks: Sequence[int],
        seed: int,
        device: str = "cpu",
    ) -> None:
        p = settings
        self.workers, self.ranks, self.seed, self.flip = workers, ranks, seed, p.flip
        self.device = torch.device(device)
        self.scenes = _load(p.dataset)
        self.shards = partition(p.partition, self.scenes.train_labels, workers, seed, p.alpha)
        self.batches = Batches(self.shards, ranks, p.batch_size, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(generator(seed, INITIAL).integers(2**31)))
            detector = detectors.build(
                p.model, self.scenes.num_classes, p.backbone_weights, p.min_size, p.max_size
            )
        self.model = FlatModel(detector.to(self.device))
        self._decayed = p.weight_decay * self.model.matrix_mask.to(self.device, torch.float32)
        self._small = p.model.endswith("_small")

    def initial(self) -> tuple[Tensor, Tensor]:
        return self.model.initial()

    def gradient(self, x: Tensor, buffers: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        rows = []
        for i, (rank, samples) in enumerate(zip(self.ranks, self.batches.at(k), strict=True)):
            images, targets = self._batch(samples, generator(self.seed, AUGMENT, rank, k))
            # proposals and anchors are sampled at random
            seed = int(generator(self.seed, LAYERS, rank, k).integers(2**63))
            loss = partial(_summed_losses, images=images, targets=targets)
            rows.append(self.model.of_one(x[i], buffers[i], loss, seed))
        losses, gradients, new = (torch.stack(part) for part in zip(*rows, strict=True))
        return losses, gradients.addcmul_(self._decayed, x), new

    def measure(
        self, x: Tensor, buffers: Tensor, mean: Tensor, mean_buffers: Tensor, final: bool
    ) -> Tensor:
        """(R, 1 + S * DETECTIONS * 6): the local model's mAP at IoU 0.5 when final, else 0; then
        what the averaged model detects on this rank's share of the test images, S at most.
        """
        local = [
            self._map(self._detections(*model, self._passes()))[0] if final else 0.0
            for model in zip(x, buffers, strict=True)
        ]
        size = sum(map(len, self._passes(0)))  # the first rank's share is the largest
        shares = [
            packed(self._detections(mean, mean_buffers, self._passes(rank)), size)
            for rank in self.ranks
        ]
        return torch.cat([torch.tensor(local)[:, None], torch.stack(shares).flatten(1)], dim=1)

    def evaluate(self, mean: Tensor, measured: Tensor, final: bool) -> dict[str, float]:
        """Mean average precisions in per cent: map_50 and map of the averaged model.

        When final also map_50_worker_mean and map_50_worker_worst, over the local models.
        """
        found: dict[int, Any] = {}
        for rank, rows in enumerate(torch.unflatten(measured[:, 1:], 1, (-1, DETECTIONS, 6))):
            share = itertools.chain(*self._passes(rank))
            found |= zip(share, unpacked(rows), strict=False)  # a smaller share leaves rows empty
        # in the images' own order, by which equal scores are ranked
        map_50, map_all = self._map([found[i] for i in range(len(found))])
        metrics = {"map_50": map_50, "map": map_all}
        if final:
            metrics["map_50_worker_mean"] = float(measured[:, 0].mean())
            metrics["map_50_worker_worst"] = float(measured[:, 0].min())
        return metrics

    def describe(self) -> dict[str, Any]:
        return {
            "data_source": self.scenes.source,
            "shards": describe(self.shards, self.scenes.train_labels),
            "parameters": self.model.dim,
        }

    def _batch(
        self, samples: np.ndarray, rng: np.random.Generator
    ) -> tuple[list[Tensor], list[Target]]:
        """The images of a batch with their targets, each flipped with probability 1/2 if asked."""
        images, targets = [], []
        for i, u in zip(samples, rng.random(len(samples)), strict=True):
            image, target = self.scenes.train(int(i))
            if self.flip and u < 0.5:
                image, target = flipped(image, target)
            images.append(image.to(self.device))
            targets.append({key: value.to(self.device) for key, value in target.items()})
        return images, targets

    def _passes(self, rank: int | None = None) -> list[range]:
        """The test images by forward passes: all of them, or those of a rank's share.

        A pass has the same images whatever the number of ranks: photographs of different sizes
        are padded to the largest, which touches what is found in them.
        """
        size, chunk = len(self.scenes.test_targets), TEST_CHUNK if self._small else 4
        passes = [range(start, min(start + chunk, size)) for start in range(0, size, chunk)]
        return passes if rank is None else passes[rank :: self.workers]

    def _detections(self, x: Tensor, buffers: Tensor, passes: list[range]) -> list[Target]:
        """What one model (d,) detects on the test images of some passes."""
        found = []
        for some in passes:
            images = [self.scenes.test(i).to(self.device) for i in some]
            for one in self.model.predict(x, buffers, images):
                found.append({key: value.cpu() for key, value in one.items()})
        return found

    def _map(self, found: list[Target]) -> tuple[float, float]:
        """mAP at 0.5 and over 0.5 ... 0.95, in per cent, of what was found on all test images."""
        from torchmetrics.detection import MeanAveragePrecision

        metric = MeanAveragePrecision(backend="pycocotools")
        metric.warn_on_many_detections = False  # the best hundred of a class count, as in COCO
        metric.update(found, self.scenes.test_targets)
        values = metric.compute()
        return 100 * max(0.0, float(values["map_50"])), 100 * max(0.0, float(values["map"]))


def packed(found: list[Target], size: int) -> Tensor:
    """Detections as (size, DETECTIONS, 6) numbers that ranks can exchange.

    A row is a box, its label and its score, or -1 where there is nothing.
    """
    rows = torch.full((size, DETECTIONS, 6), -1.0)
    for row, one in zip(rows, found, strict=False):
        columns = [one["boxes"], one["labels"][:, None], one["scores"][:, None]]
        row[: len(one["labels"])] = torch.cat(columns, dim=1)
    return rows


def unpacked(rows: Tensor) -> list[Target]:
    """The inverse of `packed`."""
    kept = [row[row[:, 5] >= 0] for row in rows]
    return [{"boxes": r[:, :4], "labels": r[:, 4].long(), "scores": r[:, 5]} for r in kept]


def flipped(image: Tensor, target: Target) -> tuple[Tensor, Target]:
    """An image (C, H, W) and its boxes seen in a mirror."""
    left, top, right, bottom = target["boxes"].unbind(dim=1)
    width = image.shape[-1]
    boxes = torch.stack([width - right, top, width - left, bottom], dim=1)
    return image.flip(-1), {**target, "boxes": boxes}


@lru_cache(maxsize=2)
def _load(name: str) -> Scenes:
    """One copy of a data set for all runs of a process; configs let no other kind through."""
    return cast("Scenes", data.load(name))  # named here, it would count for runs on images


def _summed_losses(network: Network, images: list[Tensor], targets: list[Target]) -> Tensor:
    losses: dict[str, Tensor] = network(images, targets)
    return reduce(torch.add, losses.values())
