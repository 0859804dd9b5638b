"""Pictures with boxes around objects: VOC, COCO, and scenes composed of Fashion-MNIST's items.

Photographs stay on disk until they are needed; scenes are small and made
at once, each from its own address, so they are the same everywhere.
"""

import contextlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from expograph.data.dataset import DataUnavailable
from expograph.data.fashion_mnist import fashion_mnist
from expograph.randomness import SCENES, generator

VOC_CLASSES = (
    "aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike "
    "person pottedplant sheep sofa train tvmonitor"
).split()
CANVAS = 64  # pixels, the side of a composed scene
TRAIN_SCENES, TEST_SCENES = 4000, 300

# what readers of files raise that are not what they should be: pycocotools asserts
DAMAGE = (
    OSError,
    ElementTree.ParseError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

Target = dict[str, Tensor]  # boxes (m, 4) xyxy in pixels, labels (m,) from 1, iscrowd (m,) 0 or 1


@dataclass(frozen=True)
class Scenes:
    """A detection data set.

    Attributes:
        name: its key in `data.DATASETS`.
        num_classes: the background, which has label 0, counted.
        train_labels: (N,) int64, the label of the largest object of each training image.
        train: i -> image (C, H, W) in 0..1 and its target, without what is not to be trained on.
        test: i -> the i-th test image.
        test_targets: of each test image; objects with iscrowd = 1 neither count nor harm.
        source: where it was found, in words.
    """

    name: str
    num_classes: int
    train_labels: np.ndarray
    train: Callable[[int], tuple[Tensor, Target]]
    test: Callable[[int], Tensor]
    test_targets: list[Target]
    source: str


def target(boxes: Sequence, labels: Sequence[int], iscrowd: Sequence[int]) -> Target:
    """Lists as tensors, also for an image without objects."""
    return {
        "boxes": torch.tensor(np.array(boxes, dtype=np.float32).reshape(-1, 4)),
        "labels": torch.tensor(labels, dtype=torch.int64),
        "iscrowd": torch.tensor(iscrowd, dtype=torch.int64),
    }


def _inside(box: Sequence[float], width: float, height: float) -> Sequence[float]:
    """A box (left, top, right, bottom) as it is, if it lies in its image, rounding aside.

    Raises:
        ValueError: if it does not, or is no box at all.
    """
    left, top, right, bottom = box
    inside = -1 <= left <= right <= width + 1 and -1 <= top <= bottom <= height + 1
    if not inside:  # nor is nan
        given = ", ".join(f"{number:g}" for number in box)
        raise ValueError(f"box ({given}) is not inside the image of {width:g} x {height:g} pixels")
    return box


def trainable(every: Target) -> Target:
    """Without crowds, difficult objects and boxes that have no area."""
    boxes = every["boxes"]
    kept = (every["iscrowd"] == 0) & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    return {key: value[kept] for key, value in every.items()}


def largest(every: Target) -> int:
    """The label of the largest object."""
    boxes = every["boxes"]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return int(every["labels"][areas.argmax()])


# ---- composed scenes -------------------------------------------------------------------------


def fashion_scenes(root: Path) -> Scenes:
    """Grey scenes of 64 x 64 with one to three items of Fashion-MNIST, 10 classes.

    4000 training scenes of training items, 300 test scenes of test items. Boxes are tight.
    """
    items = fashion_mnist(root)
    train = [
        compose(generator(0, SCENES, 0, i), items.train_images[..., 0], items.train_labels)
        for i in range(TRAIN_SCENES)
    ]
    test = [
        compose(generator(0, SCENES, 1, i), items.test_images[..., 0], items.test_labels)
        for i in range(TEST_SCENES)
    ]

    def image(canvas: np.ndarray) -> Tensor:
        return torch.from_numpy(canvas)[None].float() / 255

    return Scenes(
        name="fashion_scenes",
        num_classes=11,
        train_labels=np.array([largest(t) for _, t in train]),
        train=lambda i: (image(train[i][0]), train[i][1]),
        test=lambda i: image(test[i][0]),
        test_targets=[t for _, t in test],
        source=f"scenes composed of Fashion-MNIST, {items.source}",
    )


def compose(
    rng: np.random.Generator, items: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, Target]:
    """A scene: up to three items at random sizes and places, their boxes apart, on faint noise.

    Args:
        rng: of this scene.
        items: (N, 28, 28) uint8, the items; labels: (N,) in 0..9.
    Returns:
        The canvas (64, 64) uint8 and its target.
    """
    canvas = rng.integers(25, size=(CANVAS, CANVAS)).astype(np.uint8)
    boxes: list[tuple[int, int, int, int]] = []
    found: list[int] = []
    for _ in range(int(rng.integers(1, 4))):
        i, side = int(rng.integers(len(items))), int(rng.integers(20, 35))
        item = np.asarray(Image.fromarray(items[i]).resize((side, side), Image.Resampling.BILINEAR))
        rows, columns = np.flatnonzero(item.any(axis=1)), np.flatnonzero(item.any(axis=0))
        item = item[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        h, w = item.shape
        for _ in range(20):  # places tried
            y, x = int(rng.integers(CANVAS - h + 1)), int(rng.integers(CANVAS - w + 1))
            apart = all(x >= r or x + w <= l or y >= b or y + h <= t for l, t, r, b in boxes)
            if apart:
                place = canvas[y : y + h, x : x + w]
                np.maximum(place, item, out=place)
                boxes.append((x, y, x + w, y + h))
                found.append(int(labels[i]) + 1)
                break
    return canvas, target(boxes, found, [0] * len(boxes))


# ---- photographs -----------------------------------------------------------------------------


def voc(root: Path) -> Scenes:
    """PASCAL VOC: trained on trainval of 2007 and 2012, tested on test of 2007, 20 classes.

    Read from root/VOCdevkit/VOC2007 and root/VOCdevkit/VOC2012, as the archives unpack. Difficult
    objects are not trained on, and neither count nor harm in the test.

    Raises:
        DataUnavailable: if a folder is not there or an annotation cannot be read.
    Ref: Everingham et al. 2010, The PASCAL Visual Object Classes challenge.
    """
    from torchvision.datasets import VOCDetection

    folder = root / "VOCdevkit"
    expected = f"VOC can't be had: it is expected as {folder}/VOC2007 and {folder}/VOC2012"
    try:
        parts = [
            VOCDetection(root, year, part)
            for year, part in (("2007", "trainval"), ("2012", "trainval"), ("2007", "test"))
        ]
        train, test = (
            [
                pair
                for part in some
                for pair in zip(part.images, map(_voc, part.annotations), strict=True)
            ]
            for some in (parts[:2], parts[2:])
        )
    except DAMAGE as error:
        raise DataUnavailable(f"{expected}: {_line(error)}") from None
    return _photographs("voc", 21, train, test, f"files in {folder}", expected)


def _text(element: ElementTree.Element, path: str) -> str:
    text = element.findtext(path)
    if text is None:
        raise ValueError(f"no {path}")
    return text


def _voc(path: str) -> Target:
    """The target of one XML annotation, whose pixels count from 1.

    Raises:
        ValueError: naming the file, if it is none.
    """
    boxes, labels, difficult = [], [], []
    try:
        root = ElementTree.parse(path).getroot()
        width, height = (float(_text(root, f"size/{k}")) for k in ("width", "height"))
        for item in root.iter("object"):
            left, top, right, bottom = (
                float(_text(item, f"bndbox/{k}")) for k in ("xmin", "ymin", "xmax", "ymax")
            )
            boxes.append(_inside((left - 1, top - 1, right, bottom), width, height))
            labels.append(1 + VOC_CLASSES.index(_text(item, "name").strip()))
            difficult.append(int(item.findtext("difficult") or 0))
    except DAMAGE as error:
        raise ValueError(f"{path}: {_line(error)}") from None
    return target(boxes, labels, difficult)


def coco(root: Path) -> Scenes:
    """COCO 2017: trained on train2017, tested on val2017, 80 classes numbered 1 to 80.

    Read from root/coco/{train2017,val2017}/ and root/coco/annotations/instances_*.json. Crowds
    are not trained on; training images without objects are left out.

    Raises:
        DataUnavailable: if a folder or a file of annotations is not there or damaged.
    Ref: Lin et al. 2014, arXiv:1405.0312.
    """
    from torchvision.datasets import CocoDetection

    folder = root / "coco"
    expected = (
        f"COCO can't be had: it is expected as {folder}/train2017, {folder}/val2017 and "
        f"{folder}/annotations/instances_*.json"
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools talks
            sets = [
                CocoDetection(folder / part, folder / f"annotations/instances_{part}.json")
                for part in ("train2017", "val2017")
            ]
        categories, others = (sorted(part.coco.getCatIds()) for part in sets)
        if categories != others or len(categories) != 80:
            raise ValueError("its two files of annotations do not list the same 80 categories")
        train, test = (_coco(part, categories) for part in sets)
    except DAMAGE as error:
        raise DataUnavailable(f"{expected}: {_line(error)}") from None
    return _photographs("coco", 81, train, test, f"files in {folder}", expected)


def _coco(dataset, categories: list[int]) -> list[tuple[str, Target]]:
    """Path and target of every image; labels are places in `categories`, from 1."""
    number = {k: i + 1 for i, k in enumerate(categories)}
    pairs = []
    for key in dataset.ids:
        found = dataset.coco.loadAnns(dataset.coco.getAnnIds(key))
        image = dataset.coco.loadImgs(key)[0]
        boxes = [_coco_box(a, image) for a in found]
        labels = [number[a["category_id"]] for a in found]
        path = Path(dataset.root) / image["file_name"]
        pairs.append((str(path), target(boxes, labels, [a["iscrowd"] for a in found])))
    return pairs


def _coco_box(annotation: Mapping[str, Any], image: Mapping[str, Any]) -> Sequence[float]:
    """Its corners.

    Raises:
        ValueError: naming the annotation, if it is no box in its image.
    """
    x, y, w, h = annotation["bbox"]
    try:
        return _inside((x, y, x + w, y + h), image["width"], image["height"])
    except ValueError as error:
        raise ValueError(
            f"annotation {annotation['id']} of {image['file_name']}: {error}"
        ) from None


def _photographs(
    name: str,
    num_classes: int,
    train: list[tuple[str, Target]],
    test: list[tuple[str, Target]],
    source: str,
    expected: str,
) -> Scenes:
    """A set of paths and targets; of the training ones those with something to train on.

    Raises:
        DataUnavailable: beginning with `expected`, if there are none or an image is not there.
    """
    kept = [(path, t) for path, t in ((p, trainable(t)) for p, t in train) if len(t["labels"])]
    if not kept or not test:
        raise DataUnavailable(f"{expected}: no {'test' if kept else 'training'} images listed")
    present: dict[str, set[str]] = {}  # a listing of each folder: a look at each file takes longer
    for path, _ in (*kept, *test):
        parent, file = os.path.split(path)
        if parent not in present:
            present[parent] = set(os.listdir(parent)) if os.path.isdir(parent) else set()
        if file not in present[parent]:
            raise DataUnavailable(f"{expected}: {path} is not there")

    return Scenes(
        name=name,
        num_classes=num_classes,
        train_labels=np.array([largest(t) for _, t in kept]),
        train=lambda i: (_read(kept[i][0]), kept[i][1]),
        test=lambda i: _read(test[i][0]),
        test_targets=[t for _, t in test],
        source=source,
    )


def _read(path: str) -> Tensor:
    """A photograph (3, H, W) in 0..1.

    Raises:
        DataUnavailable: naming the file, if it cannot be decoded.
    """
    try:
        with Image.open(path) as image:
            pixels = np.array(image.convert("RGB"))
    except OSError as error:  # Pillow's word for damaged, too
        raise DataUnavailable(f"{path} cannot be read: {_line(error)}") from None
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


def _line(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
