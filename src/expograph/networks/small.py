"""Small image networks, whose copies, one a worker, run fast side by side.

They run under `torch.func.vmap`. Inside, the convolutional
ones keep images *batch-last*, (C, H, W, B), and convolve by a matrix
product with unrolled patches, because `vmap` turns `nn.Conv2d` into a grouped convolution, which
is slow on a CPU. With the batch last, every copy that unrolls an image moves runs of at least B
numbers, the patches need no transpose before the product, and batch norm reduces over
contiguous rows.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GROUPS = 4  # of the group norm; divides 16, 32 and 64 channels


def _output_size(size: int, kernel: int, stride: int, padding: int) -> int:
    """How many positions a kernel takes along an axis of `size` pixels."""
    return (size + 2 * padding - kernel) // stride + 1


def _overlap(size: int, kernel: int, stride: int, padding: int, tap: int) -> tuple[slice, slice]:
    """Positions whose tap falls inside the image, and the pixels it falls on, along one axis."""
    first = max(0, -((tap - padding) // stride))  # ceil((padding - tap) / stride)
    last = (size - 1 + padding - tap) // stride
    stop = max(first, min(_output_size(size, kernel, stride, padding), last + 1))
    pixel = stride * first + tap - padding
    return slice(first, stop), slice(pixel, pixel + stride * (stop - first), stride)


def _windows(
    height: int, width: int, kernel: int, stride: int, padding: int
) -> Iterator[tuple[int, int, slice, slice, slice, slice]]:
    """Per tap (i, j): output rows, output columns, image rows, image columns that correspond."""
    for i in range(kernel):
        rows, image_rows = _overlap(height, kernel, stride, padding, i)
        for j in range(kernel):
            columns, image_columns = _overlap(width, kernel, stride, padding, j)
            yield i, j, rows, columns, image_rows, image_columns


class Patches(torch.autograd.Function):
    """Unrolls images into the patches that a convolution kernel sees (im2col), zero padded.

        patches[..., i, j, r, c, b] = image[..., stride r + i - padding, stride c + j - padding, b]

    `Patches.apply(images, kernel, stride, padding)` takes (..., H, W, B) to
    (..., kernel, kernel, h, w, B); the leading axes are whatever the caller has, channels or
    workers and channels, which is why its rule for vmap is itself. The derivative is `_Fold`.
    """

    @staticmethod
    def forward(images: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
        *lead, height, width, batch = images.shape
        h, w = (_output_size(size, kernel, stride, padding) for size in (height, width))
        patches = images.new_empty(*lead, kernel, kernel, h, w, batch)
        # Only the rim is zeroed: padding the image first would copy all of it once more.
        for i, j, rows, columns, image_rows, image_columns in _windows(
            height, width, kernel, stride, padding
        ):
            tap = patches[..., i, j, :, :, :]
            if rows != slice(0, h):
                tap[..., : rows.start, :, :] = 0
                tap[..., rows.stop :, :, :] = 0
            if columns != slice(0, w):
                tap[..., : columns.start, :] = 0
                tap[..., columns.stop :, :] = 0
            tap[..., rows, columns, :] = images[..., image_rows, image_columns, :]
        return patches

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, *geometry = inputs
        ctx.geometry = (*images.shape[-3:-1], *geometry)

    @staticmethod
    def backward(ctx, grad: Tensor):
        return _Fold.apply(grad, *ctx.geometry), None, None, None

    @staticmethod
    def vmap(info, in_dims, images: Tensor, *geometry: int):
        return Patches.apply(images.movedim(in_dims[0], 0), *geometry), 0


class _Fold(torch.autograd.Function):
    """The transpose of `Patches` (col2im): adds every patch back where it was read."""

    @staticmethod
    def forward(
        patches: Tensor, height: int, width: int, kernel: int, stride: int, padding: int
    ) -> Tensor:
        images = patches.new_zeros(*patches.shape[:-5], height, width, patches.shape[-1])
        for i, j, rows, columns, image_rows, image_columns in _windows(
            height, width, kernel, stride, padding
        ):
            images[..., image_rows, image_columns, :] += patches[..., i, j, rows, columns, :]
        return images

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.geometry = inputs[3:]

    @staticmethod
    def backward(ctx, grad: Tensor):
        return Patches.apply(grad, *ctx.geometry), None, None, None, None, None

    @staticmethod
    def vmap(info, in_dims, patches: Tensor, *geometry: int):
        return _Fold.apply(patches.movedim(in_dims[0], 0), *geometry), 0


class Conv2d(nn.Conv2d):
    """`nn.Conv2d` on batch-last images: (C, H, W, B) -> (O, h, w, B), as one matrix product.

    Square kernel, equal stride and zero padding on both axes. The weight keeps torch's shape
    (O, C, kernel, kernel); it is drawn normal with variance 2 / (C kernel^2), biases start at 0.

    Ref: He et al., ICCV 2015, arXiv:1502.01852, for the initialisation.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        bias: bool = True,
    ):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, bias=bias)

    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, images: Tensor) -> Tensor:
        if not self.training:  # one model and many images: torch's own kernel is faster
            nchw = images.permute(3, 0, 1, 2)
            return self._conv_forward(nchw, self.weight, self.bias).permute(1, 2, 3, 0)
        patches = Patches.apply(images, self.kernel_size[0], self.stride[0], self.padding[0])
        columns = patches.flatten(3).flatten(0, 2)  # (C kernel^2, h w B)
        product = (self.weight.flatten(1) @ columns).unflatten(1, patches.shape[3:])
        return product if self.bias is None else product + self.bias[:, None, None, None]


class BatchNorm(nn.BatchNorm2d):
    """`nn.BatchNorm2d` on batch-last images (C, H, W, B), with the same buffers and statistics.

    Normalises by the mean and the biased variance over batch and space; the running variance is
    the unbiased one; momentum 0.1, eps 1e-5.

    Ref: Ioffe & Szegedy, ICML 2015, arXiv:1502.03167.
    """

    def forward(self, images: Tensor) -> Tensor:
        # One "image" of H W B pixels: over batch and space is over contiguous rows here.
        if not self.training:  # as in Conv2d
            return super().forward(images.permute(3, 0, 1, 2)).permute(1, 2, 3, 0)
        return super().forward(images.flatten(1)[None, :, :, None]).view(images.shape)


class GroupNorm(nn.GroupNorm):
    """`nn.GroupNorm` on batch-last images (C, H, W, B); no batch statistics, no buffers.

    Ref: Wu & He, ECCV 2018, arXiv:1803.08494.
    """

    def forward(self, images: Tensor) -> Tensor:
        if not self.training:  # as in Conv2d
            return super().forward(images.permute(3, 0, 1, 2)).permute(1, 2, 3, 0)
        channels, batch = images.shape[0], images.shape[-1]
        groups = images.reshape(self.num_groups, -1, batch)  # (groups, C / groups H W, B)
        centered = groups - groups.mean(1, keepdim=True)
        scale = torch.rsqrt(centered.square().mean(1) + self.eps)  # (groups, B)
        # Scale per channel before it meets the image: one pass over the image, not two.
        scale = self.weight.view(self.num_groups, -1, 1) * scale[:, None]
        scale = scale.reshape(channels, 1, 1, batch)
        return centered.view(images.shape) * scale + self.bias[:, None, None, None]


class BatchLast(nn.Module):
    """NHWC images (B, H, W, C) -> batch-last (C, H, W, B)."""

    def forward(self, images: Tensor) -> Tensor:
        batch_last = images.permute(3, 1, 2, 0)
        return batch_last.contiguous() if self.training else batch_last


class Classifier(nn.Linear):
    """`nn.Linear` on batch-last features (..., B), flattened: logits (B, classes).

    The product is taken feature-major, so that its gradient comes out batch-last too.
    """

    def forward(self, features: Tensor) -> Tensor:
        return (self.weight @ features.flatten(0, -2)).mT + self.bias


class _Block(nn.Module):
    """Basic residual block: two 3x3 convolutions with norms, added to a parameter-free shortcut.

    Where the shape changes, the shortcut takes every stride-th pixel and appends zero channels:
    option A of He et al., CVPR 2016, arXiv:1512.03385, section 3.3.
    """

    def __init__(
        self, in_channels: int, out_channels: int, stride: int, norm: Callable[[int], nn.Module]
    ):
        super().__init__()
        self.stride, self.extra = stride, out_channels - in_channels
        self.conv1 = Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.norm1 = norm(out_channels)
        self.conv2 = Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.norm2 = norm(out_channels)

    def forward(self, images: Tensor) -> Tensor:
        residual = F.relu(self.norm1(self.conv1(images)))
        residual = self.norm2(self.conv2(residual))
        shortcut = images[:, :: self.stride, :: self.stride]
        if self.extra:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, 0, 0, 0, self.extra))
        return F.relu(residual + shortcut, inplace=True)


class _ResNet8(nn.Module):
    """4x4 patches, three one-block stages of 16, 32, 64 channels (stride 1, 2, 2), linear."""

    def __init__(self, in_channels: int, num_classes: int, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.enter = BatchLast()
        self.stem = Conv2d(in_channels, 16, 4, 4, bias=False)  # 28x28 -> 7x7, for speed
        self.norm = norm(16)
        self.stages = nn.Sequential(
            _Block(16, 16, 1, norm), _Block(16, 32, 2, norm), _Block(32, 64, 2, norm)
        )
        self.classifier = Classifier(64, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        features = F.relu(self.norm(self.stem(self.enter(images))))
        return self.classifier(self.stages(features).mean((1, 2)))


def linear(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Softmax regression."""
    height, width, channels = image_shape
    return nn.Sequential(nn.Flatten(), nn.Linear(height * width * channels, num_classes))


def mlp(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """One hidden layer of 64 ReLUs."""
    height, width, channels = image_shape
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(height * width * channels, 64),
        nn.ReLU(),
        nn.Linear(64, num_classes),
    )


def cnn(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Two stride-2 3x3 convolutions of 16 and 32 channels with ReLU, one linear layer."""
    height, width, channels = image_shape
    h, w = (_output_size(_output_size(size, 3, 2, 1), 3, 2, 1) for size in (height, width))
    return nn.Sequential(
        BatchLast(),
        Conv2d(channels, 16, 3, 2, 1),
        nn.ReLU(inplace=True),
        Conv2d(16, 32, 3, 2, 1),
        nn.ReLU(inplace=True),
        Classifier(32 * h * w, num_classes),
    )


def resnet8_bn(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Narrow residual network of seven convolutions, batch norm: it has buffers to mix or not."""
    return _ResNet8(image_shape[2], num_classes, BatchNorm)


def resnet8_gn(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """The same network with group norm: no buffers, workers share nothing but parameters."""
    return _ResNet8(image_shape[2], num_classes, lambda channels: GroupNorm(GROUPS, channels))
