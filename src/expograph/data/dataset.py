"""What a data set of labelled images is, once it is in memory or known to lie on disk.

Pixels stay uint8 as published; `scale`, `mean` and `std` say how to normalise them.
"""

from dataclasses import dataclass, replace

import numpy as np


class DataUnavailable(RuntimeError):
    """A data set can't be had, or a file of it is damaged; the message says what to do."""


@dataclass(frozen=True)
class Dataset:
    """Images with their labels, in the order in which they were published.

    Attributes:
        name: its key in `data.DATASETS`.
        train_images: (N, H, W, C) uint8, raw pixel values 0..scale.
        train_labels: (N,) int64, in 0..num_classes-1.
        test_images: (M, H, W, C) uint8.
        test_labels: (M,) int64.
        num_classes: number of labels.
        scale: value of a full-bright pixel.
        mean: per channel, of train_images / scale.
        std: per channel, of train_images / scale (population, not sample).
        source: where it was found, in words.
    """

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    num_classes: int
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: str


@dataclass(frozen=True)
class Folder:
    """Images that stay on disk until they are needed.

    Attributes:
        name: its key in `data.DATASETS`.
        train: (path, label) of every training image, sorted by path; labels 0..num_classes-1.
        test: the same of the test images.
        num_classes: number of labels.
        mean, std: per channel, of pixels in 0..1.
        source: where it was found, in words.
    """

    name: str
    train: list[tuple[str, int]]
    test: list[tuple[str, int]]
    num_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: str

    @property
    def train_labels(self) -> np.ndarray:
        """(N,) int64."""
        return np.array([label for _, label in self.train], dtype=np.int64)

    @property
    def test_labels(self) -> np.ndarray:
        """(M,) int64."""
        return np.array([label for _, label in self.test], dtype=np.int64)


def held_out(dataset: Dataset | Folder, count: int, rng: np.random.Generator) -> Dataset | Folder:
    """The data set with `count` of its training images, drawn at random, in place of the test's.

    Step sizes are chosen on them: the test images have no say in it. Mean and std stay.

    Raises:
        ValueError: if no training image would be left.
    """
    size = len(dataset.train_labels)
    if not 0 < count < size:
        raise ValueError(f"held_out: 1 to {size - 1} of {size} training images, got {count}")
    order = rng.permutation(size)
    test, train = np.sort(order[:count]), np.sort(order[count:])
    if isinstance(dataset, Folder):
        kept, tested = ([dataset.train[i] for i in part] for part in (train, test))
        return replace(dataset, train=kept, test=tested)
    return replace(
        dataset,
        train_images=dataset.train_images[train],
        train_labels=dataset.train_labels[train],
        test_images=dataset.train_images[test],
        test_labels=dataset.train_labels[test],
    )


def from_arrays(name: str, train: tuple, test: tuple, scale: float, source: str) -> Dataset:
    """A Dataset from (images, labels) twice, with the mean and std of the training pixels."""
    images, labels = train
    mean, std = zip(*(_moments(images[..., c]) for c in range(images.shape[-1])), strict=True)
    return Dataset(
        name=name,
        train_images=images,
        train_labels=labels.astype(np.int64),
        test_images=test[0],
        test_labels=test[1].astype(np.int64),
        num_classes=int(labels.max()) + 1,
        scale=scale,
        mean=tuple(m / scale for m in mean),
        std=tuple(s / scale for s in std),
        source=source,
    )


def _moments(pixels: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of uint8 values, exact but for one rounding each.

    By integer sums: a float64 copy of Fashion-MNIST would take 376 MB.
    """
    total = int(pixels.sum(dtype=np.uint64))
    squares = int(np.square(pixels, dtype=np.uint16).sum(dtype=np.uint64))  # 255^2 < 2^16
    return total / pixels.size, (squares * pixels.size - total**2) ** 0.5 / pixels.size
