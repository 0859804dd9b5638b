"""CIFAR-10, read and downloaded by torchvision."""

import json
from pathlib import Path

import numpy as np
from filelock import FileLock

from expograph.data.dataset import DataUnavailable, Dataset, from_arrays
from expograph.data.fetch import network_timeout


def cifar10(root: Path) -> Dataset:
    """CIFAR-10: 50000 + 10000 color images of 32 x 32, 10 classes of equal size.

    Read from root/cifar10 by torchvision, which checks every file's md5; downloaded if absent.

    A folder with a file generated.json holds made-up images in CIFAR-10's format (`make dry-run`
    writes them); that file maps theirs to their md5.

    Raises:
        DataUnavailable: if it is neither there nor to be downloaded.
    Ref: Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images.
    """
    from torchvision.datasets import CIFAR10  # lazily: importing torch takes seconds

    folder = root / "cifar10"
    source = f"files in {folder / CIFAR10.base_folder}"
    Reader = CIFAR10
    if (folder / "generated.json").exists():
        source = f"generated images in {folder / CIFAR10.base_folder}"
        Reader = type("Generated", (CIFAR10,), json.loads((folder / "generated.json").read_text()))

    def read(download: bool) -> tuple[CIFAR10, CIFAR10]:
        return Reader(folder, train=True, download=download), Reader(folder, train=False)

    try:
        train, test = read(download=False)
    except (RuntimeError, OSError):  # torchvision's word for absent or damaged
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(root / "cifar10.lock"), network_timeout():
                train, test = read(download=True)  # a no-op if another process was first
        except Exception as error:  # torchvision's network code: whatever it raises is why
            raise DataUnavailable(
                f"CIFAR-10 can't be had: {folder} holds no undamaged copy, and torchvision's"
                f" download failed ({error}). Put cifar-10-python.tar.gz from {CIFAR10.url}"
                f" into {folder}, or let torchvision reach that address. The data set"
                " `digits` always works: it comes with scikit-learn."
            ) from error
    return from_arrays(
        "cifar10",
        (train.data, np.array(train.targets)),
        (test.data, np.array(test.targets)),
        scale=255.0,
        source=source,
    )
