"""The data sets by name: found on disk or fetched once, verified, and handed over.

A data set is looked for under a root folder, which is the environment variable EXPOGRAPH_DATA if
that is set, else `data` in the current working directory. Each set's module is imported when it is
asked for: some need torch or torchvision, which take seconds.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from expograph import own
from expograph.data.dataset import Dataset, DataUnavailable, Folder, from_arrays
from expograph.names import known, resolve

if TYPE_CHECKING:
    from expograph.data.scenes import Scenes

__all__ = ["DATASETS", "DataUnavailable", "Dataset", "Folder", "load"]

DATASETS = {  # name -> "module:function", which takes the root folder
    "fashion_mnist": "expograph.data.fashion_mnist:fashion_mnist",
    "digits": "expograph.data.digits:digits",
    "cifar10": "expograph.data.cifar10:cifar10",
    "imagenet": "expograph.data.imagenet:imagenet",
    "fashion_scenes": "expograph.data.scenes:fashion_scenes",
    "voc": "expograph.data.scenes:voc",
    "coco": "expograph.data.scenes:coco",
}
EXPECTED = "expected ((images, labels), (images, labels)): (N, H, W, C) uint8 and (N,) from 0"


def load(name: str, root: Path | str | None = None) -> "Dataset | Folder | Scenes":
    """The data set called `name`, fetched into `root` first if it is nowhere to be found.

    Safe to call from many processes at once: one fetches, the others wait for it.

    Args:
        name: a key of `DATASETS`, or "module:function" of the user's own, with or without
            parameters, which returns ((images, labels), (images, labels)) for training and test:
            (N, H, W, C) uint8 and (N,) from 0.
        root: folder that holds the data sets; by default $EXPOGRAPH_DATA, else ./data.
    Raises:
        ValueError: if there is no such name, or the user's function gives something else.
        DataUnavailable: if it can't be had, or if a file of it fails its checksum.
    """
    if own.is_own(name):
        return _own(name)
    loader = resolve(DATASETS[known("data set", name, DATASETS)])
    return loader(Path(root or os.environ.get("EXPOGRAPH_DATA") or "data"))


def _own(text: str) -> "Dataset":
    """The data set of a function of the user's own."""
    import numpy as np  # who asks for the names alone needs none

    made = own.called("data set", text)
    try:
        parts = [tuple(map(np.asarray, part)) for part in made]
        for images, labels in parts:
            fits = images.dtype == np.uint8 and images.ndim == 4 and labels.dtype.kind in "iu"
            if not fits or len(images) != len(labels) or not len(images) or labels.min() < 0:
                raise TypeError(EXPECTED)
        train, test = parts
    except (TypeError, ValueError) as error:
        raise ValueError(f"data set {own.address(text)!r}: {error}") from None
    return from_arrays(text, train, test, scale=255.0, source=f"made by {text}")
