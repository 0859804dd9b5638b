"""Small networks for images: plain nn.Modules from (B, H, W, C) floats to (B, classes) logits.

Convolutions are our own: under `torch.func.vmap` an nn.Conv2d with one weight a worker becomes a
grouped convolution, which CPUs do slowly. Here it is one batched matrix product over patches, in
the NHWC layout, where a patch is made of contiguous runs.
"""

import difflib
from collections.abc import Callable

import torch
from torch import Tensor, nn


class Patches(torch.autograd.Function):
    """im2col: (..., H, W, C) -> (..., h, w, k k C), the k x k patches at the given stride.

    Any leading dimensions, so that vmap only has to bring its dimension to the front. Zero
    padding on all sides; h = (H + 2 padding - k) // stride + 1.
    """

    @staticmethod
    def forward(x: Tensor, k: int, stride: int, padding: int) -> Tensor:
        x = nn.functional.pad(x, (0, 0, padding, padding, padding, padding))
        windows = x.unfold(-3, k, stride).unfold(-3, k, stride)  # (..., h, w, C, k, k)
        return windows.movedim(-3, -1).flatten(-3)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.k, ctx.stride, ctx.padding = inputs
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx, gradient: Tensor):
        *lead, H, W, C = ctx.shape
        k, s, p = ctx.k, ctx.stride, ctx.padding
        h, w = gradient.shape[-3:-1]
        parts = gradient.unflatten(-1, (k, k, C))
        x = gradient.new_zeros(*lead, H + 2 * p, W + 2 * p, C)
        for i in range(k):
            for j in range(k):
                rows = slice(i, i + s * (h - 1) + 1, s)
                columns = slice(j, j + s * (w - 1) + 1, s)
                x[..., rows, columns, :] += parts[..., i, j, :]
        return x[..., p : H + p, p : W + p, :], None, None, None

    @staticmethod
    def vmap(info, in_dims, x: Tensor, k: int, stride: int, padding: int):
        return Patches.apply(x.movedim(in_dims[0], 0), k, stride, padding), 0


class Conv2d(nn.Module):
    """A k x k convolution in NHWC: patches @ weight + bias, weight of shape (k k C_in, C_out)."""

    def __init__(
        self, inputs: int, outputs: int, k: int = 3, stride: int = 1, bias: bool = True
    ) -> None:
        super().__init__()
        self.k, self.stride = k, stride
        self.weight = nn.Parameter(torch.empty(k * k * inputs, outputs))
        # He et al. 2015, fan in
        nn.init.normal_(self.weight, std=(2 / (k * k * inputs)) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = Patches.apply(x, self.k, self.stride, self.k // 2) @ self.weight
        return y if self.bias is None else y.add_(self.bias)


class BatchNorm(nn.Module):
    """nn.BatchNorm2d for NHWC: statistics over batch and space, running ones in buffers."""

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.running_mean, self.running_var
        if self.training:
            var, mean = torch.var_mean(x, dim=(0, 1, 2), correction=0)
            samples = x.shape[0] * x.shape[1] * x.shape[2]
            unbiased = var.detach() * (samples / max(samples - 1, 1))
            self.running_mean.lerp_(mean.detach(), self.momentum)
            self.running_var.lerp_(unbiased, self.momentum)
        scale = self.weight * torch.rsqrt(var + self.eps)
        return x * scale + (self.bias - mean * scale)


class GroupNorm(nn.Module):
    """nn.GroupNorm for NHWC: statistics of one image over space and a group of channels."""

    def __init__(self, channels: int, groups: int = 4, eps: float = 1e-5) -> None:
        super().__init__()
        self.groups, self.eps = groups, eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        grouped = x.unflatten(-1, (self.groups, -1))  # (B, H, W, groups, C / groups)
        var, mean = torch.var_mean(grouped, dim=(1, 2, 4), correction=0, keepdim=True)
        normal = (grouped - mean) * torch.rsqrt(var + self.eps)
        return normal.flatten(-2) * self.weight + self.bias


class Block(nn.Module):
    """Two 3 x 3 convolutions around a parameter-free shortcut (He et al. 2016, option A)."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Callable) -> None:
        super().__init__()
        self.stride, self.widen = stride, outputs - inputs
        self.conv1 = Conv2d(inputs, outputs, stride=stride, bias=False)
        self.norm1 = norm(outputs)
        self.conv2 = Conv2d(outputs, outputs, bias=False)
        self.norm2 = norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        shortcut = nn.functional.pad(x[..., :: self.stride, :: self.stride, :], (0, self.widen))
        return torch.relu(self.norm2(self.conv2(y)) + shortcut)


class Pool(nn.Module):
    """Mean over space: (B, H, W, C) -> (B, C)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(-3, -2))


def linear(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Softmax regression."""
    height, width, channels = image_shape
    return nn.Sequential(nn.Flatten(), nn.Linear(height * width * channels, num_classes))


def mlp(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """One hidden layer of 64 rectified units."""
    height, width, channels = image_shape
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(height * width * channels, 64),
        nn.ReLU(),
        nn.Linear(64, num_classes),
    )


def cnn(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Two stride-2 convolutions of 16 and 32 channels and one linear layer."""
    height, width, channels = image_shape
    rest = ((height + 3) // 4) * ((width + 3) // 4)  # two halvings, rounded up
    return nn.Sequential(
        Conv2d(channels, 16, stride=2),
        nn.ReLU(inplace=True),
        Conv2d(16, 32, stride=2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(32 * rest, num_classes),
    )


def _resnet8(image_shape: tuple[int, int, int], num_classes: int, norm: Callable) -> nn.Module:
    return nn.Sequential(
        Conv2d(image_shape[2], 8, stride=2, bias=False),
        norm(8),
        nn.ReLU(),
        Block(8, 8, 1, norm),
        Block(8, 16, 2, norm),
        Block(16, 32, 2, norm),
        Pool(),
        nn.Linear(32, num_classes),
    )


def resnet8_bn(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """A narrow residual network with batch norm: stem of 8, one block of 8, 16 and 32 each."""
    return _resnet8(image_shape, num_classes, BatchNorm)


def resnet8_gn(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """The same with group norm, whose statistics do not depend on the batch."""
    return _resnet8(image_shape, num_classes, GroupNorm)


MODELS: dict[str, Callable[[tuple[int, int, int], int], nn.Module]] = {
    f.__name__: f for f in (linear, mlp, cnn, resnet8_bn, resnet8_gn)
}


def build(name: str, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """The model called `name`, freshly initialised from torch's global generator.

    Args:
        image_shape: (H, W, C) of one image.
    Raises:
        ValueError: if there is no such name.
    """
    if name not in MODELS:
        close = difflib.get_close_matches(name, MODELS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"unknown model {name!r}{hint} known: {', '.join(MODELS)}")
    return MODELS[name](image_shape, num_classes)
