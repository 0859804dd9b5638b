"""How stored images become the float batches that a network sees: decoded, augmented, normalised.

Augmentation is drawn at addresses like everything random: a worker's crops and flips of a step
come from one generator, given by the caller, whichever process decodes them.
"""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from expograph.data.dataset import Dataset, Folder

PADDING = 4  # pixels of black around an image before a random crop of its own size
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of a random resized crop
BORDER = 256 / 224  # short side of a test image over the side of its central crop
AUGMENTATIONS = ("none", "crop_flip", "resized_crop_flip")

Draws = Sequence[np.random.Generator]  # one a worker; not looked at without augmentation


class ArrayImages:
    """The images of a `Dataset`, which all stay on the device.

    Attributes:
        shape: (H, W, C).
    """

    def __init__(self, dataset: Dataset, device: torch.device, augment: str = "none") -> None:
        self.shape = dataset.train_images.shape[1:]
        self._train = torch.from_numpy(dataset.train_images).to(device)
        self._test = torch.from_numpy(dataset.test_images)
        self._device, self._augment = device, augment
        self._scale = dataset.scale
        self._mean = torch.tensor(dataset.mean, dtype=torch.float32, device=device)
        self._std = torch.tensor(dataset.std, dtype=torch.float32, device=device)

    def train(self, samples: np.ndarray, draws: Draws) -> Tensor:
        """Images `samples` (R, B) of R workers: float32 (R, B, H, W, C), mean 0 and std 1."""
        images = self._train[torch.from_numpy(samples).to(self._device)]
        if self._augment == "crop_flip":
            images = crop_flip(images, draws)
        return self._normalised(images)

    def test(self, samples: np.ndarray) -> Tensor:
        """Test images `samples` (m,): float32 (m, H, W, C)."""
        return self._normalised(self._test[torch.from_numpy(samples)].to(self._device))

    def _normalised(self, images: Tensor) -> Tensor:
        return images.to(torch.float32).div_(self._scale).sub_(self._mean).div_(self._std)


def crop_flip(images: Tensor, draws: Draws) -> Tensor:
    """Random crop after padding by `PADDING` black pixels, then a flip with probability 1/2.

    Args:
        images: (R, B, H, W, C), B images of R workers.
        draws: R generators; each gives its worker's B shifts down, B shifts right and B flips.
    Ref: the augmentation of He et al. 2016 for CIFAR-10, and of the paper's released code.
    """
    R, B, H, W, _ = images.shape
    shifts, flips = [], []
    for rng in draws:
        shifts.append(rng.integers(2 * PADDING + 1, size=(2, B)))
        flips.append(rng.random(B) < 0.5)
    device = images.device
    down, right = torch.from_numpy(np.stack(shifts, axis=1)).to(device)  # (R, B) each
    flip = torch.from_numpy(np.stack(flips)).to(device)
    rows = down[..., None] + torch.arange(H, device=device)  # (R, B, H)
    columns = torch.arange(W, device=device).expand(R, B, W)
    columns = right[..., None] + torch.where(flip[..., None], W - 1 - columns, columns)
    padded = torch.nn.functional.pad(images, (0, 0, PADDING, PADDING, PADDING, PADDING))
    worker = torch.arange(R, device=device)[:, None, None, None]
    image = torch.arange(B, device=device)[None, :, None, None]
    return padded[worker, image, rows[..., None], columns[:, :, None, :]]


class FolderImages:
    """The images of a `Folder`, decoded when they are needed by threads, a step ahead.

    Threads, not processes: decoding leaves the interpreter alone, and a forked process and MPI
    do not go together. EXPOGRAPH_LOADERS is their number; by default twice torch's threads.

    Attributes:
        shape: (size, size, 3).
    """

    def __init__(
        self, folder: Folder, device: torch.device, size: int, augment: str = "none"
    ) -> None:
        self.shape = (size, size, 3)
        self._folder, self._device, self._size, self._augment = folder, device, size, augment
        loaders = os.environ.get("EXPOGRAPH_LOADERS", "")
        fitting = 2 * torch.get_num_threads()
        count = int(loaders) if loaders.isdecimal() and int(loaders) else fitting
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="images")
        self._ahead: tuple[bytes, list[Future]] = (b"", [])
        self._mean = torch.tensor(folder.mean, dtype=torch.float32, device=device)
        self._std = torch.tensor(folder.std, dtype=torch.float32, device=device)

    def train(self, samples: np.ndarray, draws: Draws) -> Tensor:
        """Images `samples` (R, B) of R workers: float32 (R, B, size, size, 3)."""
        expected, futures = self._ahead
        if expected != samples.tobytes():
            futures = self._start(samples, draws)
        self._ahead = (b"", [])
        images = np.stack([future.result() for future in futures])
        return self._normalised(images).unflatten(0, samples.shape)

    def expect(self, samples: np.ndarray, draws: Draws) -> None:
        """Begin to decode what the next call of `train` will ask for."""
        self._ahead = (samples.tobytes(), self._start(samples, draws))

    def test(self, samples: np.ndarray) -> Tensor:
        """Test images `samples` (m,), short side resized, central crop: float32 (m, ..., 3)."""
        paths = [self._folder.test[i][0] for i in samples]
        return self._normalised(np.stack(list(self._pool.map(self._test_image, paths))))

    def _start(self, samples: np.ndarray, draws: Draws) -> list[Future]:
        if self._augment == "none":
            paths = [self._folder.train[i][0] for i in samples.ravel()]
            return [self._pool.submit(self._test_image, path) for path in paths]
        futures = []
        for worker, rng in zip(samples, draws, strict=True):
            # a generator is no thing to share: each image's draws are taken here, in order
            for i, u in zip(worker, rng.random((len(worker), 41)), strict=True):
                futures.append(self._pool.submit(self._train_image, self._folder.train[i][0], u))
        return futures

    def _train_image(self, path: str, u: np.ndarray) -> np.ndarray:
        with Image.open(path) as opened:
            image = opened.convert("RGB")
            box = resized_crop(*image.size, u[:40])
            image = image.resize((self._size, self._size), Image.Resampling.BILINEAR, box)
        pixels = np.asarray(image)
        return pixels[:, ::-1] if u[40] < 0.5 else pixels

    def _test_image(self, path: str) -> np.ndarray:
        with Image.open(path) as opened:
            image = opened.convert("RGB")
            side = min(image.size) / BORDER
            left, top = (image.size[0] - side) / 2, (image.size[1] - side) / 2
            box = (left, top, left + side, top + side)
            image = image.resize((self._size, self._size), Image.Resampling.BILINEAR, box)
        return np.asarray(image)

    def _normalised(self, images: np.ndarray) -> Tensor:
        pixels = torch.from_numpy(np.ascontiguousarray(images)).to(self._device)
        return pixels.to(torch.float32).div_(255).sub_(self._mean).div_(self._std)


def resized_crop(width: int, height: int, u: np.ndarray) -> tuple[float, float, float, float]:
    """The box (left, top, right, bottom) of a random resized crop.

    Of ten tries the first that fits the image: its share of the area is uniform in `AREA`, the
    logarithm of width over height uniform in `RATIO`'s. If none fits, all of the image but what
    leaves `RATIO`.

    Args:
        width, height: pixels.
        u: (40,) uniform in [0, 1): area, ratio, left and top of each try.
    Ref: Szegedy et al. 2015, arXiv:1409.4842; torchvision's RandomResizedCrop.
    """
    for area, ratio, left, top in u.reshape(10, 4):
        pixels = width * height * (AREA[0] + area * (AREA[1] - AREA[0]))
        shape = RATIO[0] * (RATIO[1] / RATIO[0]) ** ratio
        w, h = round((pixels * shape) ** 0.5), round((pixels / shape) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            x, y = int(left * (width - w + 1)), int(top * (height - h + 1))
            return (x, y, x + w, y + h)
    w = min(width, round(height * RATIO[1]))
    h = min(height, round(width / RATIO[0]))
    x, y = (width - w) // 2, (height - h) // 2
    return (x, y, x + w, y + h)


def build(
    dataset: Dataset | Folder, device: torch.device, augment: str, size: int | None
) -> ArrayImages | FolderImages:
    """The images of a data set; `size` is the side of a folder's, which have none of their own."""
    if isinstance(dataset, Folder):
        return FolderImages(dataset, device, size or 224, augment)
    return ArrayImages(dataset, device, augment)
