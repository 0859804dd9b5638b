"""Made-up data in the formats of the real sets, for dry runs where the real ones are not.

Each function fills root/... exactly where the real set is looked for, with smooth random images
of its usual size. Nothing can be learned from them.
"""

import hashlib
import io
import json
import pickle
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from PIL import Image

from expograph.data import cifar10 as reader
from expograph.data.scenes import VOC_CLASSES

CHECKSUMS = "generated.json"
IMAGENET_CLASSES = 1000
# The 80 categories of COCO's detection task have ids in 1..90; these are not used.
COCO_GAPS = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}


def photograph(rng: np.random.Generator, width: int, height: int) -> bytes:
    """A smooth random picture as JPEG."""
    small = Image.fromarray(rng.integers(256, size=(6, 8, 3), dtype=np.uint8))
    out = io.BytesIO()
    small.resize((width, height), Image.Resampling.BICUBIC).save(out, "JPEG", quality=85)
    return out.getvalue()


def cifar10(root: Path) -> None:
    """Pickled batches of 100 images under root/cifar10/, and their checksums for `believe`."""
    folder = root / "cifar10"
    batches = folder / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    rng = np.random.default_rng(0)

    def write(name: str, content: dict) -> list[str]:
        payload = pickle.dumps(content)
        (batches / name).write_bytes(payload)
        return [name, hashlib.md5(payload).hexdigest()]

    def batch() -> dict:
        pixels = rng.integers(256, size=(100, 3072), dtype=np.uint8)
        return {"data": pixels, "labels": [i % 10 for i in range(100)]}

    train = [write(f"data_batch_{i}", batch()) for i in range(1, 6)]
    test = [write("test_batch", batch())]
    name, md5 = write("batches.meta", {"label_names": [str(label) for label in range(10)]})
    meta = {"filename": name, "key": "label_names", "md5": md5}
    facts = {"train_list": train, "test_list": test, "meta": meta}
    (root / CHECKSUMS).write_text(json.dumps(facts))


def believe(root: Path) -> None:
    """Let this process read the batches that `cifar10` has written under root, if it has."""
    if (root / CHECKSUMS).exists():
        reader.believe(json.loads((root / CHECKSUMS).read_text()))


def imagenet(root: Path) -> None:
    """One photograph a class in root/imagenet/train/ and in root/imagenet/val/, 1000 classes."""
    rng = np.random.default_rng(0)
    photographs = [photograph(rng, 500, 375) for _ in range(16)]
    for part in ("train", "val"):
        for label in range(IMAGENET_CLASSES):
            folder = root / "imagenet" / part / f"n{label:08d}"
            folder.mkdir(parents=True)
            (folder / f"{part}_{label}.JPEG").write_bytes(photographs[label % len(photographs)])


def boxes(rng: np.random.Generator, width: int, height: int) -> list[tuple[int, int, int, int]]:
    """Three boxes (left, top, right, bottom) inside an image, none of them thin."""
    found = []
    for _ in range(3):
        left, top = int(rng.integers(width // 2)), int(rng.integers(height // 2))
        w, h = rng.integers(40, width // 2), rng.integers(40, height // 2)
        found.append((left, top, left + int(w), top + int(h)))
    return found


def voc(root: Path, images: int = 6) -> None:
    """VOC2007 and VOC2012 under root/VOCdevkit/: JPEGs, XML annotations and image sets."""
    rng = np.random.default_rng(0)
    for year, sets in (("2007", ("trainval", "test")), ("2012", ("trainval",))):
        folder = root / "VOCdevkit" / f"VOC{year}"
        for part in ("JPEGImages", "Annotations", "ImageSets/Main"):
            (folder / part).mkdir(parents=True)
        for s, name in enumerate(sets):
            ids = [f"{year}_{s}{i:05d}" for i in range(images)]
            (folder / "ImageSets/Main" / f"{name}.txt").write_text("\n".join(ids) + "\n")
            for key in ids:
                (folder / "JPEGImages" / f"{key}.jpg").write_bytes(photograph(rng, 500, 375))
                _voc_annotation(rng, key).write(folder / "Annotations" / f"{key}.xml")


def _voc_annotation(rng: np.random.Generator, key: str) -> ElementTree.ElementTree:
    root = ElementTree.Element("annotation")

    def put(parent: ElementTree.Element, **values: object) -> None:
        for name, value in values.items():
            ElementTree.SubElement(parent, name).text = str(value)

    put(root, folder="VOC", filename=f"{key}.jpg")
    put(ElementTree.SubElement(root, "size"), width=500, height=375, depth=3)
    for left, top, right, bottom in boxes(rng, 500, 375):
        item = ElementTree.SubElement(root, "object")
        put(item, name=VOC_CLASSES[rng.integers(20)], difficult=0, truncated=0)
        corners = ElementTree.SubElement(item, "bndbox")
        put(corners, xmin=left + 1, ymin=top + 1, xmax=right, ymax=bottom)
    return ElementTree.ElementTree(root)


def coco(root: Path, images: int = 6) -> None:
    """root/coco/{train2017,val2017}/*.jpg and root/coco/annotations/instances_*.json."""
    rng = np.random.default_rng(0)
    folder = root / "coco"
    (folder / "annotations").mkdir(parents=True)
    categories = [k for k in range(1, 91) if k not in COCO_GAPS]
    for part in ("train2017", "val2017"):
        (folder / part).mkdir()
        photos: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for i in range(images):
            name = f"{i:012d}.jpg"
            (folder / part / name).write_bytes(photograph(rng, 640, 480))
            photos.append({"id": i, "file_name": name, "width": 640, "height": 480})
            for left, top, right, bottom in boxes(rng, 640, 480):
                size = [left, top, right - left, bottom - top]
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": i,
                        "category_id": categories[rng.integers(80)],
                        "bbox": size,
                        "area": size[2] * size[3],
                        "iscrowd": 0,
                        "segmentation": [],
                    }
                )
        content = {
            "images": photos,
            "annotations": annotations,
            "categories": [{"id": k, "name": f"category {k}"} for k in categories],
        }
        path = folder / "annotations" / f"instances_{part}.json"
        path.write_text(json.dumps(content))


def backbone_weights(path: Path) -> None:
    """A state_dict of torchvision's resnet50 as it is initialised, in place of trained weights."""
    from torchvision.models import resnet50

    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(resnet50().state_dict(), path)


WRITERS = {f.__name__: f for f in (cifar10, imagenet, voc, coco)}
