"""The paper's image networks in torch's own layers, for one worker a process."""

import torch.nn.functional as F
from torch import Tensor, nn


class _CifarResNet(nn.Module):
    """Residual network of 6 blocks + 2 layers for 32x32 images: 16, 32, 64 channels, option A.

    In torch's own layers, for one worker a process. Convolutions are drawn normal with variance
    2 / fan-in. Ref: He et al., CVPR 2016, arXiv:1512.03385, section 4.2.
    """

    def __init__(self, in_channels: int, num_classes: int, blocks: int):
        super().__init__()
        self.stem = nn.Conv2d(in_channels, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        stages = []
        for channels, before in ((16, 16), (32, 16), (64, 32)):
            stages.append(_CifarBlock(before, channels))
            stages += [_CifarBlock(channels, channels) for _ in range(blocks - 1)]
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(64, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight)

    def forward(self, images: Tensor) -> Tensor:
        features = F.relu(self.norm(self.stem(images.permute(0, 3, 1, 2))))
        return self.classifier(self.stages(features).mean((2, 3)))


class _CifarBlock(nn.Module):
    """`_Block` on channels-first images, in torch's own layers; a wider block halves the image."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.extra = out_channels - in_channels
        self.stride = 2 if self.extra else 1
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, self.stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)

    def forward(self, images: Tensor) -> Tensor:
        residual = F.relu(self.norm1(self.conv1(images)))
        residual = self.norm2(self.conv2(residual))
        shortcut = images[:, :, :: self.stride, :: self.stride]
        if self.extra:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, self.extra // 2, self.extra // 2))
        return F.relu(residual + shortcut)


def resnet20(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """ResNet-20 for CIFAR, 0.27 million parameters, batch norm."""
    return _CifarResNet(image_shape[2], num_classes, 3)


def resnet56(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """ResNet-56 for CIFAR, 0.85 million parameters, batch norm: the released code's network."""
    return _CifarResNet(image_shape[2], num_classes, 9)


class _Torchvision(nn.Module):
    """A classifier of torchvision, which wants channels first."""

    def __init__(self, name: str, num_classes: int):
        super().__init__()
        import torchvision.models  # lazily: it takes every rank two seconds

        self.network = torchvision.models.get_model(name, weights=None, num_classes=num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images.permute(0, 3, 1, 2))


def resnet50(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Torchvision's ResNet-50, 25.6 million parameters with 1000 classes."""
    return _Torchvision("resnet50", num_classes)


def mobilenet_v2(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Torchvision's MobileNet-v2, 3.5 million parameters with 1000 classes; dropout 0.2."""
    return _Torchvision("mobilenet_v2", num_classes)


def efficientnet_b0(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Torchvision's EfficientNet-B0, 5.3 million parameters; dropout, stochastic depth 0.2."""
    return _Torchvision("efficientnet_b0", num_classes)
