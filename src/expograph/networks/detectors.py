"""Object detectors: torchvision's RetinaNet and Faster R-CNN, at the paper's size and small.

In training they take images and targets to a dict of losses, in evaluation images to boxes,
labels and scores; see torchvision. Torchvision is imported when a detector is built: it takes
every rank two seconds.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from expograph.names import known

SMALL_CHANNELS = 64
TRAINED_STAGES = 3  # of the five of a pretrained ResNet-50, torchvision's default


class WeightsUnavailable(ValueError):
    """The file of backbone weights cannot be used; its message is one line."""


class _SmallBackbone(nn.Module):
    """Five 3x3 convolutions with group norm, stride 8 in all: grey (B, 1, H, W) -> 64 channels."""

    out_channels = SMALL_CHANNELS

    def __init__(self):
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, stride in ((1, 16, 2), (16, 32, 2), (32, 64, 2), (64, 64, 1)):
            layers += [
                nn.Conv2d(before, after, 3, stride, 1, bias=False),
                nn.GroupNorm(4, after),
                nn.ReLU(),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


def _anchors():
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    return AnchorGenerator(((16, 24, 32),), ((0.5, 1.0, 2.0),))


SMALL = {"min_size": 64, "max_size": 64, "image_mean": [0.2], "image_std": [0.3]}


def retinanet_small(num_classes: int, **_: object) -> nn.Module:
    """RetinaNet on one feature level of stride 8, for the 64 x 64 scenes."""
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.retinanet import RetinaNetHead

    # without norms in the head it learns nothing in hundreds of steps
    norm = partial(nn.GroupNorm, 4)
    anchors = _anchors()
    per_place = anchors.num_anchors_per_location()[0]
    head = RetinaNetHead(SMALL_CHANNELS, per_place, num_classes, norm_layer=norm)
    return RetinaNet(_SmallBackbone(), num_classes, anchor_generator=anchors, head=head, **SMALL)


def faster_rcnn_small(num_classes: int, **_: object) -> nn.Module:
    """Faster R-CNN on one feature level of stride 8, for the 64 x 64 scenes."""
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
    from torchvision.ops import MultiScaleRoIAlign

    return FasterRCNN(
        _SmallBackbone(),
        rpn_anchor_generator=_anchors(),
        box_roi_pool=MultiScaleRoIAlign(["0"], 5, 2),
        box_head=TwoMLPHead(SMALL_CHANNELS * 25, 128),
        box_predictor=FastRCNNPredictor(128, num_classes),
        rpn_batch_size_per_image=64,
        rpn_pre_nms_top_n_train=100,
        rpn_pre_nms_top_n_test=100,
        rpn_post_nms_top_n_train=50,
        rpn_post_nms_top_n_test=50,
        box_batch_size_per_image=32,
        **SMALL,
    )


def _resnet50_fpn(weights: str | None, extra_blocks: nn.Module | None, returned: list[int]):
    """ResNet-50 with a feature pyramid: pretrained with frozen batch norm, or all trained."""
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    from torchvision.ops import FrozenBatchNorm2d

    backbone = resnet_fpn_backbone(
        backbone_name="resnet50",
        weights=None,
        norm_layer=FrozenBatchNorm2d if weights else nn.BatchNorm2d,
        trainable_layers=TRAINED_STAGES if weights else 5,
        returned_layers=returned,
        extra_blocks=extra_blocks,
    )
    if weights:
        try:
            state = torch.load(Path(weights), weights_only=True)
            body = {key: value for key, value in state.items() if not key.startswith("fc.")}
            backbone.body.load_state_dict(body)
        except Exception as error:  # whatever the file is, the user hears what it should be
            cause = " ".join(str(error).split())[:120]
            raise WeightsUnavailable(
                f"backbone_weights: {weights} is no state_dict of torchvision's resnet50: {cause}"
            ) from None
    return backbone


def retinanet_resnet50_fpn(
    num_classes: int, backbone_weights: str | None, min_size: int, max_size: int
) -> nn.Module:
    """Torchvision's RetinaNet. Ref: Lin et al. 2017, arXiv:1708.02002."""
    from torchvision.models.detection import RetinaNet
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    backbone = _resnet50_fpn(backbone_weights, LastLevelP6P7(256, 256), [2, 3, 4])
    return RetinaNet(backbone, num_classes, min_size=min_size, max_size=max_size)


def faster_rcnn_resnet50_fpn(
    num_classes: int, backbone_weights: str | None, min_size: int, max_size: int
) -> nn.Module:
    """Torchvision's Faster R-CNN. Ref: Ren et al. 2015, arXiv:1506.01497."""
    from torchvision.models.detection import FasterRCNN

    backbone = _resnet50_fpn(backbone_weights, None, [1, 2, 3, 4])
    return FasterRCNN(backbone, num_classes, min_size=min_size, max_size=max_size)


def build(
    name: str, num_classes: int, backbone_weights: str | None, min_size: int, max_size: int
) -> nn.Module:
    """A freshly initialised detector, from torch's global random state.

    Args:
        name: a key of `DETECTORS`.
        num_classes: the background counted.
        backbone_weights: a state_dict file of torchvision's resnet50, or None; not for small ones.
        min_size, max_size: pixels to which an image's sides are scaled; small ones have their own.
    Raises:
        WeightsUnavailable: if the file is not what it should be.
    """
    chosen = DETECTORS[known("detector", name, DETECTORS)]
    return chosen(
        num_classes, backbone_weights=backbone_weights, min_size=min_size, max_size=max_size
    )


DETECTORS: dict[str, Callable[..., nn.Module]] = {
    f.__name__: f
    for f in (retinanet_small, faster_rcnn_small, retinanet_resnet50_fpn, faster_rcnn_resnet50_fpn)
}
