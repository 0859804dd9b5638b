"""Image classification with a neural network, the training images divided over the workers."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from expograph import data, networks
from expograph.config import Classification
from expograph.data import images
from expograph.data.batches import Batches
from expograph.data.dataset import held_out
from expograph.data.partition import describe, partition
from expograph.networks.flat import FlatModel
from expograph.randomness import AUGMENT, HELD_OUT, INITIAL, LAYERS, generator

TEST_CHUNK = 1000  # small test images a forward pass; any size gives the same counts
TEST_MODELS = 8  # local models a forward pass, of an eighth as many images
TEST_PIXELS = 2**23  # at most so many pixels a forward pass


class ImageClassification:
    """Mini-batch cross-entropy, in float32. See `problem.Problem` for the interface."""

    metrics: ClassVar[dict[str, str]] = {
        "accuracy_averaged": "test accuracy (%) of the averaged model",
        "test_loss_averaged": "test cross-entropy of the averaged model",
        "accuracy_worker_mean": "test accuracy (%), mean over the local models",
        "accuracy_worker_worst": "test accuracy (%) of the worst local model",
        "accuracy_worker_best": "test accuracy (%) of the best local model",
    }

    def __init__(
        self,
        settings: Classification,
        workers: int,
        ranks: Sequence[int],
        seed: int,
        device: str = "cpu",
    ) -> None:
        p = settings
        self.workers, self.ranks, self.seed = workers, ranks, seed
        self.device, self.weight_decay = torch.device(device), p.weight_decay
        self.accumulation, self.augment = p.accumulation, p.augment
        self.dataset = _load(p.dataset)
        if p.held_out:
            self.dataset = held_out(self.dataset, p.held_out, generator(seed, HELD_OUT))
        self.images = images.build(self.dataset, self.device, p.augment, p.image_size)
        labels = self.dataset.train_labels
        self.shards = partition(p.partition, labels, workers, seed, p.alpha)
        self.batches = Batches(self.shards, ranks, p.batch_size, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(generator(seed, INITIAL).integers(2**31)))
            network = networks.build(p.model, self.images.shape, self.dataset.num_classes)
        self.model = FlatModel(network.to(self.device))
        self._decayed = self.weight_decay * self.model.matrix_mask.to(self.device, torch.float32)
        self._labels = torch.from_numpy(labels).to(self.device)
        self._test_labels = torch.from_numpy(self.dataset.test_labels)

    def initial(self) -> tuple[Tensor, Tensor]:
        return self.model.initial()

    def gradient(self, x: Tensor, buffers: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of `accumulation` mini-batches, one after the other, averaged."""
        losses, gradients, buffers = self._of_batch(x, buffers, k * self.accumulation)
        for batch in range(k * self.accumulation + 1, (k + 1) * self.accumulation):
            more_losses, more_gradients, buffers = self._of_batch(x, buffers, batch)
            losses, gradients = losses + more_losses, gradients.add_(more_gradients)
        if self.accumulation > 1:
            losses, gradients = losses / self.accumulation, gradients.div_(self.accumulation)
        if self.weight_decay:
            gradients = gradients.addcmul_(self._decayed, x)
        return losses, gradients, buffers

    def _of_batch(self, x: Tensor, buffers: Tensor, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        samples = self.batches.at(batch)  # (R, B)
        batch_images = self.images.train(samples, self._draws(batch))
        if isinstance(self.images, images.FolderImages):
            self.images.expect(self.batches.at(batch + 1), self._draws(batch + 1))
        labels = self._labels[torch.from_numpy(samples).to(self.device)]
        seeds = None
        if self.model.random:
            draws = (generator(self.seed, LAYERS, rank, batch) for rank in self.ranks)
            seeds = [int(rng.integers(2**63)) for rng in draws]
        return self.model.loss_and_gradient(x, buffers, batch_images, labels, seeds)

    def _draws(self, batch: int) -> list[np.random.Generator]:
        if self.augment == "none":
            return []
        return [generator(self.seed, AUGMENT, rank, batch) for rank in self.ranks]

    def measure(
        self, x: Tensor, buffers: Tensor, mean: Tensor, mean_buffers: Tensor, final: bool
    ) -> Tensor:
        """(R, 2): correct answers and summed loss of the averaged model on this rank's share of
        the test images. When final a third column: the local models' correct answers on all.
        """
        every = np.arange(len(self.dataset.test_labels))
        shares = [every[rank :: self.workers] for rank in self.ranks]
        parts = [self._test(mean, mean_buffers, share) for share in shares]
        measured = torch.tensor(parts, dtype=torch.float64)
        if not final:
            return measured
        return torch.cat([measured, self.count_correct(x, buffers)[:, None]], dim=1)

    def evaluate(self, mean: Tensor, measured: Tensor, final: bool) -> dict[str, float]:
        """Test accuracies in per cent, each test image counted once.

        accuracy_averaged: of the averaged model x_bar; its batch-norm statistics are the mean of
        the workers' running statistics. When final also, over the n local models with their own
        statistics: accuracy_worker_mean, accuracy_worker_worst, accuracy_worker_best.
        """
        size = len(self.dataset.test_labels)
        correct, loss = measured[:, :2].sum(dim=0).tolist()
        metrics = {"accuracy_averaged": 100 * correct / size, "test_loss_averaged": loss / size}
        if final:
            local = 100 * measured[:, 2] / size
            metrics |= {
                "accuracy_worker_mean": float(local.mean()),
                "accuracy_worker_worst": float(local.min()),
                "accuracy_worker_best": float(local.max()),
            }
        return metrics

    def describe(self) -> dict[str, Any]:
        return {
            "data_source": self.dataset.source,
            "shards": describe(self.shards, self.dataset.train_labels),
            "parameters": self.model.dim,
            "batch_norm": "averaged model: mean of the workers' running statistics; "
            "local models: their own"
            if self.model.num_buffers
            else "none",
        }

    def _test(self, x: Tensor, buffers: Tensor, samples: np.ndarray) -> tuple[int, float]:
        """Correct answers and summed cross-entropy of one model (d,) on some test images."""
        correct, loss = 0, 0.0
        for some, labels in self._chunks(samples, TEST_CHUNK):
            logits = self.model.predict(x, buffers, some)
            correct += int((logits.argmax(dim=1) == labels).sum())
            loss += float(cross_entropy(logits.double(), labels, reduction="sum"))
        return correct, loss

    def count_correct(self, x: Tensor, buffers: Tensor) -> Tensor:
        """Correct answers of models (R, d) on all test images, (R,) float64."""
        correct = torch.zeros(len(x), dtype=torch.float64)
        blocks = [torch.split(array, TEST_MODELS) for array in (x, buffers, correct)]
        every = np.arange(len(self.dataset.test_labels))
        for some, labels in self._chunks(every, TEST_CHUNK // TEST_MODELS):
            for models, statistics, counts in zip(*blocks, strict=True):
                logits = self.model.predict_all(models, statistics, some)
                counts += (logits.argmax(dim=2) == labels).sum(dim=1).cpu()
        return correct

    def _chunks(self, samples: np.ndarray, most: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Test images and their labels, some at a time."""
        height, width, _ = self.images.shape
        chunk = max(1, min(most, TEST_PIXELS // (height * width)))
        for start in range(0, len(samples), chunk):
            some = samples[start : start + chunk]
            labels = self._test_labels[torch.from_numpy(some)].to(self.device)
            yield self.images.test(some), labels


@lru_cache(maxsize=2)
def _load(name: str) -> data.Dataset | data.Folder:
    """One copy of a data set for all runs of a process."""
    found = data.load(name)
    assert isinstance(found, data.Dataset | data.Folder), f"{name}: configs let no other through"
    return found
