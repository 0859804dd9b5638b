"""CIFAR-10, read and downloaded by torchvision."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from expograph.data.dataset import Dataset, DataUnavailable, from_arrays
from expograph.data.fetch import network_timeout

_made_up: dict[str, Any] = {}  # what `believe` was given


def believe(checksums: Mapping[str, Any]) -> None:
    """Let this process read made-up batches (`data.generated`), and no others.

    The batches are pickled, so that reading them runs what is in them: whose checksums count is
    decided by the program, never by a file beside them.

    Args:
        checksums: torchvision's attributes train_list, test_list and meta, of these batches.
    """
    _made_up.update(checksums)


def cifar10(root: Path) -> Dataset:
    """CIFAR-10: 50000 + 10000 color images of 32 x 32, 10 classes of equal size.

    Read from root/cifar10 by torchvision, which checks every file's md5; downloaded if absent.

    Raises:
        DataUnavailable: if it is neither there nor to be downloaded.
    Ref: Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images.
    """
    from torchvision.datasets import CIFAR10  # lazily: importing torch takes seconds

    folder = root / "cifar10"
    source = f"files in {folder / CIFAR10.base_folder}"
    Reader = CIFAR10
    if _made_up:
        source = f"generated images in {folder / CIFAR10.base_folder}"
        Reader = type("Generated", (CIFAR10,), dict(_made_up))

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
