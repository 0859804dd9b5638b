"""Networks by name, and any network as a function of one flat vector (`flat`).

Every image network is a plain `nn.Module`: NHWC float images (B, H, W, C) in, logits (B, classes)
out. Its state has the names' order and shapes of the usual torch layers, so it can be loaded into
them. `detectors` are those of torchvision.
"""

from collections.abc import Callable

from torch import nn

from expograph.names import known
from expograph.networks.paper import (
    efficientnet_b0,
    mobilenet_v2,
    resnet20,
    resnet50,
    resnet56,
)
from expograph.networks.small import cnn, linear, mlp, resnet8_bn, resnet8_gn

__all__ = ["MODELS", "build"]

MODELS: dict[str, Callable[[tuple[int, int, int], int], nn.Module]] = {
    f.__name__: f
    for f in (
        linear,
        mlp,
        cnn,
        resnet8_bn,
        resnet8_gn,
        resnet20,
        resnet56,
        resnet50,
        mobilenet_v2,
        efficientnet_b0,
    )
}


def build(name: str, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """A freshly initialised network, from torch's global random state.

    Args:
        name: a key of `MODELS`.
        image_shape: (H, W, C) of the images it will be given as (B, H, W, C).
        num_classes: number of logits.
    Raises:
        ValueError: if the name is unknown.
    """
    return MODELS[known("model", name, MODELS)](image_shape, num_classes)
