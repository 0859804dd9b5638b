"""Any `nn.Module` seen as functions of one flat parameter vector and one flat buffer vector.

Decentralized SGD acts on vectors: n workers are the rows of an (n, d) tensor, and mixing them is
a matrix product. `FlatModel` is the seam between that view and a network. The gradients of a
classifier come from one pass for a block of workers: our own networks take all their models at
once (`small.Stacked`), others are run so by `torch.func.vmap`. Networks that draw random numbers,
or whose path depends on the data, run a worker at a time.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.modules.dropout import _DropoutNd

from expograph.memory import empty_like
from expograph.networks.small import Stacked

# Workers that a thread takes at once, measured on a CPU of 32 MiB L3 (docs/performance.md)
BLOCK = {"convolution": 32, "linear": 128}

Network = Callable[..., Any]  # a worker's network as a function of its inputs


class FlatModel:
    """A network as functions of flat vectors.

    Parameters that do not require a gradient are constants, no part of the vector.

    Attributes:
        dim: number of trained parameters, d.
        random: whether a pass draws from torch's generator (dropout, stochastic depth).
        num_buffers: number of floating-point buffer values, b: batch-norm statistics, or 0.
        shapes: (name, shape) of every parameter, in the order of the flat vector.
        matrix_mask: (d,) bool, True where the parameter has more than one axis. Weight decay is
            meant for those only, not for biases and norms.
    """

    def __init__(self, module: nn.Module):
        """Reads the layout of a module; works on a copy, so the module itself is left alone.

        `num_batches_tracked` is set to None in the copy: with a fixed momentum nothing reads it.

        Raises:
            ValueError: if the module has no parameters; if parameters and buffers are not of one
                floating-point type (the name is given); if a norm averages over all its past
                (momentum None).
        """
        module = copy.deepcopy(module)
        self.random = False
        for name, part in module.named_modules():
            # torchvision's by name: importing torchvision takes every rank two seconds
            depth = type(part).__name__ == "StochasticDepth"
            self.random |= (depth or isinstance(part, _DropoutNd)) and part.p > 0
            if getattr(part, "num_batches_tracked", None) is not None:
                if part.momentum is None:
                    raise ValueError(f"{name or 'the module'} has momentum None, need a number")
                part.num_batches_tracked = None
        parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
        buffers = dict(module.named_buffers())
        if not parameters:
            raise ValueError(f"{type(module).__name__} has no parameters")
        dtype = next(iter(parameters.values())).dtype
        for name, value in (parameters | buffers).items():
            if value.dtype != dtype or not dtype.is_floating_point:
                raise ValueError(f"{name} is of {value.dtype}, need one floating-point type")

        self._module, self._stacked = module, isinstance(module, Stacked)
        convolves = any(value.ndim == 4 for value in parameters.values())
        self._block = BLOCK["convolution" if convolves else "linear"]
        self.shapes = [(name, tuple(value.shape)) for name, value in parameters.items()]
        self._buffer_shapes = [(name, tuple(value.shape)) for name, value in buffers.items()]
        self._sizes = [value.numel() for value in parameters.values()]
        self._buffer_sizes = [value.numel() for value in buffers.values()]
        self.dim = sum(self._sizes)
        self.num_buffers = sum(self._buffer_sizes)
        self.matrix_mask = torch.cat(
            [torch.full((value.numel(),), value.ndim > 1) for value in parameters.values()]
        )

    def initial(self) -> tuple[Tensor, Tensor]:
        """The module's own initial parameters (d,) and buffers (b,), as copies."""
        trained = (value for value in self._module.parameters() if value.requires_grad)
        parameters = [value.detach().flatten() for value in trained]
        buffers = [value.detach().flatten() for value in self._module.buffers()]
        return torch.cat(parameters), torch.cat([parameters[0][:0], *buffers])

    def loss_and_gradient(
        self,
        x: Tensor,
        buffers: Tensor,
        images: Tensor,
        labels: Tensor,
        seeds: Sequence[int] | None = None,
        block: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Every worker's loss and gradient on its own batch, in training mode.

            f_i(x_i) = (1 / B) sum_b cross_entropy(logits(x_i, images_ib), labels_ib)

        Args:
            x: (n, d) parameters, row i is worker i.
            buffers: (n, b) buffers.
            images: (n, B, ...) batches, as the module takes them.
            labels: (n, B) integers.
            seeds: n integers, from which the draws of a `random` network are made.
            block: at most so many workers are taken at once; None for a number that follows from
                the network and the threads alone, so that runs repeat to the last bit.
        Returns:
            losses (n,), gradients (n, d) and the new buffers (n, b). The arguments are not
            modified.
        """
        if self.random or len(x) == 1:
            return self._one_by_one(x, buffers, images, labels, seeds)
        self._module.train()
        number = math.ceil(len(x) / (block or self._block_of(x)))
        if number == 1:
            return self._of_block(x, buffers, images, labels)
        losses: list[Tensor] = []
        new: list[Tensor] = []
        gradients = empty_like(x)
        arrays = (x, buffers, images, labels, gradients)
        for *part, into in zip(*(array.tensor_split(number) for array in arrays), strict=True):
            of_part, gradient, new_buffers = self._of_block(*part)
            into.copy_(gradient)
            losses.append(of_part)
            new.append(new_buffers)
        return torch.cat(losses), gradients, torch.cat(new)

    def _one_by_one(
        self,
        x: Tensor,
        buffers: Tensor,
        images: Tensor,
        labels: Tensor,
        seeds: Sequence[int] | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`loss_and_gradient`, a worker after the other."""
        of_each: Sequence[int | None] = [None] * len(x)
        if self.random:
            if seeds is None:
                raise ValueError("a network that draws random numbers needs seeds")
            of_each = seeds
        rows = []
        for i, seed in zip(range(len(x)), of_each, strict=True):
            loss = partial(_cross_entropy, images=images[i], labels=labels[i])
            rows.append(self.of_one(x[i], buffers[i], loss, seed))
        losses, gradients, new = (torch.stack(part) for part in zip(*rows, strict=True))
        return losses, gradients, new

    def _block_of(self, x: Tensor) -> int:
        """So many workers that what passes between layers stays in the cache."""
        return self._block * torch.get_num_threads() if x.device.type == "cpu" else len(x)

    def _of_block(
        self, x: Tensor, buffers: Tensor, images: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`loss_and_gradient` of some of the workers, in one pass."""
        # One leaf, the flat tensor, of which parameters are views: autograd writes the flat
        # gradient itself. vmap outside autograd measures about a tenth faster than vmap(grad).
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            forward = self._forward if self._stacked else vmap(self._forward)
            logits, new_buffers = forward(self._views(x), self._buffer_views(buffers), images)
            losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
            losses = losses.view(labels.shape).mean(1)
            # Rows meet nowhere, so the gradient of the sum is the stack of the gradients.
            (gradients,) = torch.autograd.grad(losses.sum(), x)
        flat = [value.detach().flatten(1) for value in new_buffers.values()]
        return losses.detach(), gradients, torch.cat([buffers[:, :0], *flat], dim=1)

    def of_one(
        self,
        x: Tensor,
        buffers: Tensor,
        loss: Callable[[Network], Tensor],
        seed: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One worker's loss, gradient (d,) and new buffers (b,), in training mode.

        Args:
            x: (d,) parameters.
            buffers: (b,) buffers.
            loss: given the network as a function of its inputs, the scalar to be minimised.
            seed: of all that the pass draws from torch's generators, which stay as they were.
        """
        self._module.train()
        x = x.detach().requires_grad_()
        new = {name: value.clone() for name, value in self._buffer_views(buffers).items()}

        def network(*inputs: Any) -> Any:
            return functional_call(self._module, self._views(x) | new, inputs)

        with torch.enable_grad(), _seeded(seed, x.device):
            value = loss(network)
            (gradient,) = torch.autograd.grad(value, x)
        flat = [v.detach().flatten() for v in new.values()]
        return value.detach(), gradient, torch.cat([buffers[:0], *flat])

    @torch.no_grad()
    def predict(self, x: Tensor, buffers: Tensor, *inputs: Any) -> Any:
        """What one worker's network makes of its inputs in evaluation mode, as (B, classes) logits.

        Args:
            x: (d,) parameters.
            buffers: (b,) buffers.
            inputs: as the module takes them; memory grows with them, so large sets go in batches.
        """
        self._module.eval()
        state = self._views(x) | self._buffer_views(buffers)
        return functional_call(self._module, state, inputs)

    def predict_all(self, x: Tensor, buffers: Tensor, images: Tensor) -> Tensor:
        """The logits (n, B, classes) of n models (n, d) with buffers (n, b) on the same images."""
        if self._stacked:
            return self.predict(x, buffers, images)
        return torch.stack([self.predict(*one, images) for one in zip(x, buffers, strict=True)])

    def _forward(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """One worker's logits and new buffers; modules update buffers in place, hence the copy."""
        buffers = {name: value.clone() for name, value in buffers.items()}
        return functional_call(self._module, parameters | buffers, (images,)), buffers

    def _views(self, x: Tensor) -> dict[str, Tensor]:
        """Parameters by name as views of the last axis of (..., d)."""
        return _split(x, self._sizes, self.shapes)

    def _buffer_views(self, buffers: Tensor) -> dict[str, Tensor]:
        """Buffers by name as views of the last axis of (..., b)."""
        return _split(buffers, self._buffer_sizes, self._buffer_shapes)


def _cross_entropy(network: Network, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(network(images), labels)


@contextmanager
def _seeded(seed: int | None, device: torch.device) -> Iterator[None]:
    """Torch's generators start from `seed` and are put back afterwards; None leaves them alone."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _split(
    flat: Tensor, sizes: list[int], shapes: list[tuple[str, tuple[int, ...]]]
) -> dict[str, Tensor]:
    """Cuts the last axis into named pieces of the given shapes, without copying."""
    pieces = flat.split(sizes, dim=-1) if sizes else ()
    return {
        name: piece.view(*flat.shape[:-1], *shape)
        for (name, shape), piece in zip(shapes, pieces, strict=True)
    }
