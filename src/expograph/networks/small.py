"""Small image networks, whose copies, one a worker, run fast side by side.

The models of n workers are one network n times as wide: images of all workers lie beside each
other as channels, (B, n C, H, W) in torch's channels_last format, a convolution is one grouped
convolution with a group a worker, a norm is one norm over n times as many channels. So are the
derivatives, and one model is the case n = 1. On a CPU a group costs half of what a convolution of
its own takes (measured, docs/performance.md).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

GROUPS = 4  # of the group norm; divides 16, 32 and 64 channels


class Stacked(nn.Sequential):
    """Layers that take the models of n workers at once.

    Parameters and buffers of shape (n, ...), images (n, B, H, W, C) and logits (n, B, classes), or
    all of them without n. Images (B, H, W, C) are seen by all models. `FlatModel` needs no `vmap`
    then, whose wrapping takes longer than the arithmetic of small networks.
    """


class Beside(nn.Module):
    """Images (n, B, H, W, C), or (B, H, W, C) of one worker -> (B, n C, H, W), channels_last."""

    def forward(self, images: Tensor) -> Tensor:
        if images.ndim == 5:
            images = images.movedim(0, 3).flatten(3).contiguous()  # (B, H, W, n C)
        return images.permute(0, 3, 1, 2)


class Conv2d(nn.Conv2d):
    """`nn.Conv2d` of images (B, n C, H, W), each worker's with its own (O, C, kernel, kernel).

    The weight is drawn normal with variance 2 / (C kernel^2), biases start at 0.

    Ref: He et al., ICCV 2015, arXiv:1502.01852, for the initialisation.
    """

    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, images: Tensor) -> Tensor:
        weight = self.weight.flatten(0, -4)  # (n O, C, kernel, kernel)
        groups = images.shape[1] // self.in_channels  # one where all models see the same images
        images = F.conv2d(images, weight, None, self.stride, self.padding, groups=groups)
        if self.bias is None:
            return images
        # By itself: the convolution's own derivative by its bias takes as long as all others.
        return images.add_(self.bias.flatten()[:, None, None])


class BatchNorm(nn.BatchNorm2d):
    """`nn.BatchNorm2d` of images (B, n C, H, W); statistics are a worker's own, as its channels.

    Normalises by the mean and the biased variance over batch and space; the running variance is
    the unbiased one; momentum 0.1, eps 1e-5.

    Ref: Ioffe & Szegedy, ICML 2015, arXiv:1502.03167.
    """

    running_mean: Tensor
    running_var: Tensor
    momentum: float

    def forward(self, images: Tensor) -> Tensor:
        return F.batch_norm(
            images,
            self.running_mean.flatten(),  # in training contiguous: what is new is written into it
            self.running_var.flatten(),
            self.weight.flatten(),
            self.bias.flatten(),
            self.training,
            self.momentum,
            self.eps,
        )


class GroupNorm(nn.GroupNorm):
    """`nn.GroupNorm` of images (B, n C, H, W); no batch statistics, no buffers.

    Ref: Wu & He, ECCV 2018, arXiv:1803.08494.
    """

    def forward(self, images: Tensor) -> Tensor:
        weight, bias = self.weight.flatten(), self.bias.flatten()
        groups = self.num_groups * (len(weight) // self.num_channels)
        return F.group_norm(images, groups, weight, bias, self.eps)


class Linear(nn.Linear):
    """`nn.Linear` of features (n, B, F) or (B, F), each worker's with its own weight (out, F)."""

    def forward(self, features: Tensor) -> Tensor:
        # the weight first: its derivative is the fast one of the two products that it can be
        return (self.weight @ features.mT).mT + self.bias[..., None, :]


class Classifier(nn.Linear):
    """Logits (n, B, classes), or (B, classes) of one worker, of images (B, n C, H, W)."""

    def forward(self, images: Tensor) -> Tensor:
        if self.weight.ndim == 2:
            return super().forward(images.flatten(1))
        # The weight is turned to the order of the images, H W C: it is less than they are.
        pixels = images.shape[2] * images.shape[3]
        weight = self.weight.unflatten(-1, (-1, pixels)).mT.flatten(-2)  # (n, classes, H W C)
        logits = weight @ _Apart.apply(images, len(weight)).mT
        return logits.mT + self.bias[:, None]


class _Apart(torch.autograd.Function):
    """Images (B, n C, H, W) -> features (n, B, H W C); the derivative is channels_last again.

    Left to autograd, it is not, and every layer before this one copies it.
    """

    @staticmethod
    def forward(ctx, images: Tensor, workers: int) -> Tensor:
        ctx.shape = images.shape
        return _features(images, workers).flatten(2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        batch, channels, height, width = ctx.shape
        images = grad.new_empty(batch, height, width, channels).permute(0, 3, 1, 2)
        features = _features(images, len(grad))
        features.copy_(grad.reshape(features.shape))
        return images, None


def _features(images: Tensor, workers: int) -> Tensor:
    """A view of images (B, n C, H, W): (n, B, H, W, C)."""
    return images.unflatten(1, (workers, -1)).permute(1, 0, 3, 4, 2)


class _Block(nn.Module):
    """Basic residual block: two 3x3 convolutions with norms, added to a parameter-free shortcut.

    Where the shape changes, the shortcut takes every stride-th pixel and appends zero channels:
    option A of He et al., CVPR 2016, arXiv:1512.03385, section 3.3.
    """

    def __init__(
        self, in_channels: int, out_channels: int, stride: int, norm: Callable[[int], nn.Module]
    ):
        super().__init__()
        self.stride, self.in_channels = stride, in_channels
        self.conv1 = Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.norm1 = norm(out_channels)
        self.conv2 = Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.norm2 = norm(out_channels)

    def forward(self, images: Tensor) -> Tensor:
        residual = F.relu(self.norm1(self.conv1(images)), inplace=True)
        residual = self.norm2(self.conv2(residual))
        workers = images.shape[1] // self.in_channels
        shortcut = images[:, :, :: self.stride, :: self.stride].unflatten(1, (workers, -1))
        residual.unflatten(1, (workers, -1))[:, :, : self.in_channels] += shortcut
        return F.relu(residual, inplace=True)


class _ResNet8(Stacked):
    """4x4 patches, three one-block stages of 16, 32, 64 channels (stride 1, 2, 2), linear."""

    def __init__(self, in_channels: int, num_classes: int, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.enter = Beside()
        self.stem = Conv2d(in_channels, 16, 4, 4, bias=False)  # 28x28 -> 7x7, for speed
        self.norm = norm(16)
        self.stages = nn.Sequential(
            _Block(16, 16, 1, norm), _Block(16, 32, 2, norm), _Block(32, 64, 2, norm)
        )
        self.classifier = Classifier(64, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        features = F.relu(self.norm(self.stem(self.enter(images))), inplace=True)
        return self.classifier(self.stages(features).mean((2, 3), keepdim=True))


def linear(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Softmax regression."""
    height, width, channels = image_shape
    return Stacked(nn.Flatten(-3), Linear(height * width * channels, num_classes))


def mlp(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """One hidden layer of 64 ReLUs."""
    height, width, channels = image_shape
    return Stacked(
        nn.Flatten(-3),
        Linear(height * width * channels, 64),
        nn.ReLU(inplace=True),
        Linear(64, num_classes),
    )


def cnn(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Two stride-2 3x3 convolutions of 16 and 32 channels with ReLU, one linear layer."""
    height, width, channels = image_shape
    h, w = (-(-size // 4) for size in (height, width))  # halved twice, rounded up
    return Stacked(
        Beside(),
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
