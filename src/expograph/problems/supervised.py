"""A network and data of the user's own: any `nn.Module`, any tensors, any loss."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from expograph.data.batches import Batches
from expograph.networks.flat import FlatModel, Network
from expograph.randomness import LAYERS, PARTITION, generator

Score = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> a mean over the samples


@dataclass(frozen=True)
class Supervised:
    """What n workers are to minimise: the mean of a loss of a network over samples.

    Attributes:
        module: the network, called with a batch of inputs; a copy is trained. All workers start
            from its parameters.
        loss: (outputs, targets) -> a scalar, the mean over the batch, as `nn.functional.mse_loss`.
        inputs: (N, ...), a sample a row.
        targets: (N, ...).
        test: (inputs, targets) of what is evaluated; None for the training samples.
        scores: name -> (outputs, targets) -> a mean over samples; each is evaluated as
            `<name>_averaged`.
        batch_size: samples a worker and step, without replacement within an epoch.
        shards: the samples of each worker, as n lists of indices; None to divide them evenly at
            random.
        seed: of the division, the batches and the draws of layers such as dropout.

    >>> import torch
    >>> inputs = torch.randn(64, 3)
    >>> problem = Supervised(torch.nn.Linear(3, 1), torch.nn.functional.mse_loss,
    ...                      inputs, inputs.sum(1, keepdim=True), batch_size=4)
    >>> problem.over(8).initial()[0].shape
    torch.Size([4])
    """

    module: nn.Module
    loss: Score
    inputs: Tensor
    targets: Tensor
    test: tuple[Tensor, Tensor] | None = None
    scores: Mapping[str, Score] = field(default_factory=dict)
    batch_size: int = 32
    shards: Sequence[Sequence[int]] | None = None
    seed: int = 0

    def over(self, workers: int, ranks: Sequence[int] | None = None) -> "Shared":
        """The problem with the samples divided over so many workers, of which `ranks` are here.

        Raises:
            ValueError: in one line, where samples, shards and workers do not fit together.
        """
        return Shared(self, workers, range(workers) if ranks is None else ranks)


class Shared:
    """`Supervised`, divided over workers. See `problem.Problem` for the interface.

    Attributes:
        averaged: the module with the averaged model of the last final evaluation; None before.
    """

    def __init__(self, of: Supervised, workers: int, ranks: Sequence[int]) -> None:
        self.of, self.workers, self.ranks = of, workers, ranks
        self.scores = {"loss": of.loss, **of.scores}
        self.metrics = {
            **{f"{name}_averaged": f"{name} of the averaged model" for name in self.scores},
            **{
                f"{name}_worker_mean": f"{name}, mean over the local models" for name in self.scores
            },
        }
        self.shards = _shards(of, workers)
        self.batches = Batches(self.shards, ranks, of.batch_size, of.seed)
        self.model = FlatModel(of.module)
        self.test = of.test or (of.inputs, of.targets)
        self.averaged: nn.Module | None = None

    def initial(self) -> tuple[Tensor, Tensor]:
        return self.model.initial()

    def gradient(self, x: Tensor, buffers: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of a mini-batch a worker, one worker after the other."""
        samples, of = torch.from_numpy(self.batches.at(k)), self.of
        results = []
        for i, rank in enumerate(self.ranks):
            inputs, targets = of.inputs[samples[i]], of.targets[samples[i]]
            seed = None
            if self.model.random:
                seed = int(generator(of.seed, LAYERS, rank, k).integers(2**63))
            loss = partial(_loss, score=of.loss, inputs=inputs, targets=targets)
            results.append(self.model.of_one(x[i], buffers[i], loss, seed))
        losses, gradients, new = map(torch.stack, zip(*results, strict=True))
        return losses, gradients, new

    def measure(
        self, x: Tensor, buffers: Tensor, mean: Tensor, mean_buffers: Tensor, final: bool
    ) -> Tensor:
        """(R, q): sums of the scores of the averaged model over this rank's share of the samples;
        when final also the mean scores of each local model over all of them.
        """
        every = torch.arange(len(self.test[0]))
        measured = [self._scored(mean, mean_buffers, every[r :: self.workers]) for r in self.ranks]
        if final:
            self.averaged = self._module(mean, mean_buffers)
            local = (self._scored(*one, every) for one in zip(x, buffers, strict=True))
            means = ([total / len(every) for total in totals] for totals in local)
            measured = [[*m, *own] for m, own in zip(measured, means, strict=True)]
        return torch.tensor(measured, dtype=torch.float64)

    def evaluate(self, mean: Tensor, measured: Tensor, final: bool) -> dict[str, float]:
        names, size = list(self.scores), len(self.test[0])
        sums = measured.sum(dim=0).tolist()
        values = {f"{name}_averaged": sums[i] / size for i, name in enumerate(names)}
        if final:
            local = enumerate(names, start=len(names))
            values |= {f"{name}_worker_mean": sums[i] / self.workers for i, name in local}
        return values

    def describe(self) -> dict[str, Any]:
        return {"parameters": self.model.dim, "shards": [len(shard) for shard in self.shards]}

    def _scored(self, x: Tensor, buffers: Tensor, samples: Tensor) -> list[float]:
        """Sums of the scores of a model (d,) over some samples."""
        if not len(samples):
            return [0.0] * len(self.scores)
        inputs, targets = (part[samples] for part in self.test)
        outputs = self.model.predict(x, buffers, inputs)
        return [float(score(outputs, targets)) * len(samples) for score in self.scores.values()]

    def _module(self, x: Tensor, buffers: Tensor) -> nn.Module:
        """The user's module with this model (d,) and these buffers (b,), as a copy."""
        module = copy.deepcopy(self.of.module)
        vector_to_parameters(x, [p for p in module.parameters() if p.requires_grad])
        kept = [b for b in module.buffers() if b.dtype == buffers.dtype]
        with torch.no_grad():
            for value, part in zip(
                kept, torch.split(buffers, [b.numel() for b in kept]), strict=True
            ):
                value.copy_(part.view_as(value))
        return module


def _loss(network: Network, score: Score, inputs: Tensor, targets: Tensor) -> Tensor:
    return score(network(inputs), targets)


def _shards(of: Supervised, workers: int) -> list[np.ndarray]:
    size = len(of.inputs)
    if len(of.targets) != size:
        raise ValueError(f"{size} inputs and {len(of.targets)} targets: need as many")
    if of.batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {of.batch_size}")
    if of.shards is None:
        if size < workers:
            raise ValueError(f"{size} samples can't be divided over {workers} workers")
        return np.array_split(generator(of.seed, PARTITION).permutation(size), workers)
    shards = [np.asarray(shard, dtype=np.int64) for shard in of.shards]
    if len(shards) != workers:
        raise ValueError(f"{len(shards)} shards for {workers} workers: need one each")
    for rank, shard in enumerate(shards):
        if not len(shard) or shard.min() < 0 or shard.max() >= size:
            raise ValueError(f"shard of worker {rank}: need indices in 0..{size - 1}, at least one")
    return shards
