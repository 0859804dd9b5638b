"""A network seen as functions of one flat parameter vector and one flat buffer vector."""

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap


class FlatModel:
    """Any nn.Module, its parameters a (d,) vector, its batch-norm statistics a (b,) vector.

    Attributes:
        dim: number of parameters, d.
        num_buffers: number of floating buffer values, b.
        shapes: (name, shape) in the order of the parameter vector.
        matrix_mask: (d,) bool, True where the parameter has two or more dimensions.
    """

    def __init__(self, module: nn.Module) -> None:
        """Raises ValueError for modules with active dropout or with integer buffers."""
        for name, part in module.named_modules():
            if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0:
                raise ValueError(f"{name}: dropout draws random numbers outside our streams")
            if "num_batches_tracked" in part._buffers:
                part._buffers["num_batches_tracked"] = None  # unread with a fixed momentum
        for name, buffer in module.named_buffers():
            if not buffer.is_floating_point():
                raise ValueError(f"{name}: only floating buffers can be averaged")
        self.module = module
        parameters = dict(module.named_parameters())
        self.shapes = [(name, p.shape) for name, p in parameters.items()]
        self._buffer_shapes = [(name, b.shape) for name, b in module.named_buffers()]
        self._start = _flat([p.detach() for p in parameters.values()])
        self._start_buffers = _flat([b.detach() for b in module.buffers()])
        self.dim, self.num_buffers = len(self._start), len(self._start_buffers)
        masks = [torch.full_like(p, p.ndim > 1, dtype=torch.bool) for p in parameters.values()]
        self.matrix_mask = _flat(masks)

    def initial(self) -> tuple[Tensor, Tensor]:
        """Copies of the module's own initial values, (d,) and (b,)."""
        return self._start.clone(), self._start_buffers.clone()

    def loss_and_gradient(
        self, x: Tensor, buffers: Tensor, images: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Cross-entropy of n workers at once, in training mode; changes none of its arguments.

        Args:
            x: (n, d) parameters.
            buffers: (n, b).
            images: (n, B, H, W, C).
            labels: (n, B) int64.
        Returns:
            Losses (n,), means over B; their gradients (n, d); the new buffers (n, b).
        """
        self.module.train()
        x = x.detach().requires_grad_()
        buffers = buffers.clone()

        def loss(row: Tensor, stats: Tensor, batch: Tensor, target: Tensor) -> Tensor:
            return nn.functional.cross_entropy(self._call(row, stats, batch), target)

        # one backward of the sum is the gradients of all, and cheaper than vmap(grad)
        losses = vmap(loss)(x, buffers, images, labels)
        (gradients,) = torch.autograd.grad(losses.sum(), x)
        return losses.detach(), gradients, buffers

    @torch.no_grad()
    def logits(self, x: Tensor, buffers: Tensor, images: Tensor) -> Tensor:
        """One model in evaluation mode: x (d,), buffers (b,), images (B, ...) -> (B, classes)."""
        self.module.eval()
        return self._call(x, buffers, images)

    def _call(self, x: Tensor, buffers: Tensor, images: Tensor) -> Tensor:
        # views of `buffers`, so that batch norm updates them in place
        values = _views(x, self.shapes) | _views(buffers, self._buffer_shapes)
        return functional_call(self.module, values, (images,))


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors]) if tensors else torch.empty(0)


def _views(flat: Tensor, shapes: list[tuple[str, torch.Size]]) -> dict[str, Tensor]:
    parts = flat.split([shape.numel() for _, shape in shapes]) if shapes else ()
    return {name: part.view(shape) for (name, shape), part in zip(shapes, parts, strict=True)}
