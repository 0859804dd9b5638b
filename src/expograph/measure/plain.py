"""The small networks in torch's own layers, NCHW, as a straightforward script would write them."""

import torch.nn.functional as F
from torch import Tensor, nn


def plain_network(name: str, shape: tuple[int, int, int], classes: int = 10) -> nn.Module:
    """networks.small's cnn or resnet8_bn for images of this (H, W, C), given as (B, C, H, W)."""
    height, width, channels = shape
    if name == "cnn":
        return nn.Sequential(
            nn.Conv2d(channels, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * -(-height // 4) * -(-width // 4), classes),
        )
    if name != "resnet8_bn":
        raise ValueError(f"no plain network {name!r}: cnn or resnet8_bn")
    return nn.Sequential(
        nn.Conv2d(channels, 16, 4, 4, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        _Block(16, 16, 1),
        _Block(16, 32, 2),
        _Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride, self.extra = stride, outputs - inputs
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)

    def forward(self, images: Tensor) -> Tensor:
        residual = self.norm2(self.conv2(self.norm1(self.conv1(images)).relu()))
        shortcut = images[:, :, :: self.stride, :: self.stride]
        return (residual + F.pad(shortcut, (0, 0, 0, 0, 0, self.extra))).relu()
