"""The data sets by name: found on disk or fetched once, verified, and handed over.

A data set is looked for under a root folder, which is the environment variable EXPOGRAPH_DATA if
that is set, else `data` in the current working directory. Each set's module is imported when it is
asked for: some need torch or torchvision, which take seconds.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from expograph.data.dataset import DataUnavailable, Dataset, Folder
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


def load(name: str, root: Path | str | None = None) -> "Dataset | Folder | Scenes":
    """The data set called `name`, fetched into `root` first if it is nowhere to be found.

    Safe to call from many processes at once: one fetches, the others wait for it.

    Args:
        name: a key of `DATASETS`.
        root: folder that holds the data sets; by default $EXPOGRAPH_DATA, else ./data.
    Raises:
        ValueError: if there is no such name.
        DataUnavailable: if it can't be had, or if a file of it fails its checksum.
    """
    loader = resolve(DATASETS[known("data set", name, DATASETS)])
    return loader(Path(root or os.environ.get("EXPOGRAPH_DATA") or "data"))
