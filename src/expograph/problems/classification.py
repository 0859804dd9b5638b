"""Image classification with a neural network, the training images divided over the workers."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from expograph import data, models
from expograph.batches import Batches
from expograph.config import Run
from expograph.flat import FlatModel
from expograph.partition import describe, partition
from expograph.randomness import INITIAL, generator

TEST_CHUNK = 1000  # test images a forward pass; any size gives the same counts


class ImageClassification:
    """Mini-batch cross-entropy, in float32. See `problems.Problem` for the interface."""

    def __init__(self, run: Run, ranks: Sequence[int]) -> None:
        p = run.problem
        self.device, self.weight_decay = torch.device(run.device), p.weight_decay
        self.accumulation = p.accumulation
        self.dataset = _load(p.dataset)
        labels = self.dataset.train_labels
        self.shards = partition(p.partition, labels, run.nodes, run.seed, p.alpha)
        self.batches = Batches(self.shards, ranks, p.batch_size, run.seed)
        seed = int(generator(run.seed, INITIAL).integers(2**31))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            shape = self.dataset.train_images.shape[1:]
            network = models.build(p.model, shape, self.dataset.num_classes)
        self.model = FlatModel(network.to(self.device))
        self._decayed = self.weight_decay * self.model.matrix_mask.to(self.device, torch.float32)
        self._images = torch.from_numpy(self.dataset.train_images).to(self.device)
        self._labels = torch.from_numpy(labels).to(self.device)

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
        samples = torch.from_numpy(self.batches.at(batch)).to(self.device)  # (R, B)
        images = self._normalised(self._images[samples])
        return self.model.loss_and_gradient(x, buffers, images, self._labels[samples])

    def measure(self, x: Tensor, buffers: Tensor, final: bool) -> Tensor:
        """(R, 1) test accuracy in per cent of each local model when final, else (R, 0)."""
        if not final:
            return torch.empty((len(x), 0), dtype=torch.float64)
        accuracies, _ = self._test(x, buffers)
        return torch.tensor(accuracies, dtype=torch.float64).unsqueeze(1)

    def evaluate(
        self, mean: Tensor, buffers: Tensor, measured: Tensor, final: bool
    ) -> dict[str, float]:
        """Test accuracies in per cent, each test image counted once.

        accuracy_averaged: of the averaged model x_bar; its batch-norm statistics are the mean of
        the workers' running statistics. When final also, over the n local models with their own
        statistics: accuracy_worker_mean, accuracy_worker_worst, accuracy_worker_best.
        """
        (accuracy,), (loss,) = self._test(mean.unsqueeze(0), buffers.unsqueeze(0))
        metrics = {"accuracy_averaged": accuracy, "test_loss_averaged": loss}
        if final:
            metrics |= {
                "accuracy_worker_mean": float(measured.mean()),
                "accuracy_worker_worst": float(measured.min()),
                "accuracy_worker_best": float(measured.max()),
            }
        return metrics

    def describe(self) -> dict:
        return {
            "data_source": self.dataset.source,
            "shards": describe(self.shards, self.dataset.train_labels),
            "parameters": self.model.dim,
            "batch_norm": "averaged model: mean of the workers' running statistics; "
            "local models: their own"
            if self.model.num_buffers
            else "none",
        }

    def _normalised(self, images: Tensor) -> Tensor:
        """uint8 (..., H, W, C) -> float32 with mean 0 and standard deviation 1 per channel."""
        d = self.dataset
        mean = torch.tensor(d.mean, dtype=torch.float32, device=images.device)
        std = torch.tensor(d.std, dtype=torch.float32, device=images.device)
        return images.to(torch.float32).div_(d.scale).sub_(mean).div_(std)

    def _test(self, x: Tensor, buffers: Tensor) -> tuple[list[float], list[float]]:
        """Accuracies in per cent and mean cross-entropies of models x (m, d) on the test set."""
        correct, loss = np.zeros(len(x), dtype=int), np.zeros(len(x))
        n = len(self.dataset.test_labels)
        for start in range(0, n, TEST_CHUNK):
            chunk = slice(start, start + TEST_CHUNK)
            images = torch.from_numpy(self.dataset.test_images[chunk]).to(self.device)
            labels = torch.from_numpy(self.dataset.test_labels[chunk]).to(self.device)
            images = self._normalised(images)
            for i, model in enumerate(zip(x, buffers, strict=True)):
                logits = self.model.predict(*model, images)
                correct[i] += int((logits.argmax(dim=1) == labels).sum())
                loss[i] += float(cross_entropy(logits.double(), labels, reduction="sum"))
        return (100 * correct / n).tolist(), (loss / n).tolist()


@lru_cache(maxsize=2)
def _load(name: str) -> data.Dataset:
    """One copy of a data set for all runs of a process."""
    return data.load(name)
