"""Object detection, the training images divided over the workers by their largest object."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from expograph import detectors, scenes
from expograph.batches import Batches
from expograph.config import Run
from expograph.flat import FlatModel
from expograph.partition import describe, partition
from expograph.randomness import AUGMENT, INITIAL, LAYERS, generator
from expograph.scenes import Target

TEST_CHUNK = 50  # small test images a forward pass; photographs go by fours


class Detection:
    """The sum of a detector's losses, a worker at a time. See `problems.Problem`."""

    def __init__(self, run: Run, ranks: Sequence[int]) -> None:
        p = run.problem
        self.seed, self.ranks, self.flip = run.seed, ranks, p.flip
        self.device = torch.device(run.device)
        self.scenes = _load(p.dataset)
        self.shards = partition(p.partition, self.scenes.train_labels, run.ranks, run.seed, p.alpha)
        self.batches = Batches(self.shards, ranks, p.batch_size, run.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(generator(run.seed, INITIAL).integers(2**31)))
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
            rows.append(
                self.model.of_one(
                    x[i],
                    buffers[i],
                    lambda net, images=images, targets=targets: sum(net(images, targets).values()),
                    seed,
                )
            )
        losses, gradients, new = (torch.stack(part) for part in zip(*rows, strict=True))
        return losses, gradients.addcmul_(self._decayed, x), new

    def measure(
        self, x: Tensor, buffers: Tensor, mean: Tensor, mean_buffers: Tensor, final: bool
    ) -> Tensor:
        """(R, 2): mAP at IoU 0.5 and over 0.5 ... 0.95 of the averaged model, in rank 0's row.

        When final a third column: at 0.5, of each local model.
        """
        averaged = [
            self._map(mean, mean_buffers) if rank == 0 else (0.0, 0.0) for rank in self.ranks
        ]
        measured = torch.tensor(averaged, dtype=torch.float64)
        if not final:
            return measured
        local = [self._map(*model)[0] for model in zip(x, buffers, strict=True)]
        return torch.cat([measured, torch.tensor(local, dtype=torch.float64)[:, None]], dim=1)

    def evaluate(self, mean: Tensor, measured: Tensor, final: bool) -> dict[str, float]:
        """Mean average precisions in per cent: map_50 and map of the averaged model.

        When final also map_50_worker_mean and map_50_worker_worst, over the local models.
        """
        metrics = {"map_50": float(measured[0, 0]), "map": float(measured[0, 1])}
        if final:
            metrics["map_50_worker_mean"] = float(measured[:, 2].mean())
            metrics["map_50_worker_worst"] = float(measured[:, 2].min())
        return metrics

    def describe(self) -> dict:
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

    def _map(self, x: Tensor, buffers: Tensor) -> tuple[float, float]:
        """mAP at 0.5 and over 0.5 ... 0.95, in per cent, of one model on the test images."""
        from torchmetrics.detection import MeanAveragePrecision

        metric = MeanAveragePrecision(backend="pycocotools")
        metric.warn_on_many_detections = False  # the best hundred count, as in COCO
        chunk = TEST_CHUNK if self._small else 4
        for start in range(0, self.scenes.test_size, chunk):
            every = range(start, min(start + chunk, self.scenes.test_size))
            images, targets = zip(*map(self.scenes.test, every), strict=True)
            found = self.model.predict(x, buffers, [image.to(self.device) for image in images])
            metric.update([{k: v.cpu() for k, v in one.items()} for one in found], list(targets))
        values = metric.compute()
        return 100 * max(0.0, float(values["map_50"])), 100 * max(0.0, float(values["map"]))


def flipped(image: Tensor, target: Target) -> tuple[Tensor, Target]:
    """An image (C, H, W) and its boxes seen in a mirror."""
    left, top, right, bottom = target["boxes"].unbind(dim=1)
    width = image.shape[-1]
    boxes = torch.stack([width - right, top, width - left, bottom], dim=1)
    return image.flip(-1), {**target, "boxes": boxes}


@lru_cache(maxsize=2)
def _load(name: str) -> scenes.Scenes:
    """One copy of a data set for all runs of a process."""
    return scenes.load(name)
