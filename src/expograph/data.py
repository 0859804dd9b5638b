"""The data sets: found on disk or fetched once, verified, and handed over as plain arrays.

`load` is the only entry. A data set is looked for under a root folder, which is the environment
variable EXPOGRAPH_DATA if that is set, else `data` in the current working directory. Pixels stay
uint8 as published; `scale`, `mean` and `std` say how to normalise them.
"""

import gzip
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import time
import zlib
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock

from expograph.names import known


class DataUnavailable(RuntimeError):
    """A data set can't be had, or a file of it is damaged; the message says what to do."""


@dataclass(frozen=True)
class Dataset:
    """Images with their labels, in the order in which they were published.

    Attributes:
        name: its key in `DATASETS`.
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
        name: its key in `DATASETS`.
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


def load(name: str, root: Path | str | None = None) -> Dataset | Folder:
    """The data set called `name`, fetched into `root` first if it is nowhere to be found.

    Safe to call from many processes at once: one fetches, the others wait for it.

    Args:
        name: a key of `DATASETS`.
        root: folder that holds the data sets; by default $EXPOGRAPH_DATA, else ./data.
    Raises:
        ValueError: if there is no such name.
        DataUnavailable: if it can't be had, or if a file of it fails its checksum.
    """
    return DATASETS[known("data set", name, DATASETS)](
        Path(root or os.environ.get("EXPOGRAPH_DATA") or "data")
    )


# ---- Fashion-MNIST ---------------------------------------------------------------------------

# SHA-256 of the files as DEcompressed. Debian compresses them anew, so that the .gz differ from
# Zalando's (and from torchvision's md5); what is inside is the same, whoever compressed it.
FASHION_MNIST_SHA256 = {
    "train-images-idx3-ubyte.gz": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
    ),
    "train-labels-idx1-ubyte.gz": (
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
    ),
    "t10k-images-idx3-ubyte.gz": (
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
    ),
}
DEBIAN_PACKAGE = "dataset-fashion-mnist"
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # where that package puts the files
NETWORK_TIMEOUT = 10  # seconds without an answer, after which a server counts as unreachable
FETCH_TIMEOUT = 900  # seconds for one whole command of apt


def fashion_mnist(root: Path) -> Dataset:
    """Fashion-MNIST: 60000 + 10000 grey images of 28 x 28, 10 classes of equal size.

    Looked for in root/fashion_mnist and in the folder of Debian's package; else fetched from
    Debian's archive (no root rights needed) or by torchvision, and kept in root/fashion_mnist.

    Raises:
        DataUnavailable: if no way works, or if a file fails its checksum.
    Ref: Xiao, Rasul & Vollgraf 2017, arXiv:1708.07747.
    """
    kept = root / "fashion_mnist"
    for folder in (kept, DEBIAN_FOLDER):
        if not _missing(folder):
            return _read_fashion_mnist(folder, f"files in {folder}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / "fashion_mnist.lock"):
            if _missing(kept):  # else another process fetched it while this one waited
                source = f"{_fetch_fashion_mnist(kept)}, kept in {kept}"
            else:
                source = f"files in {kept}"
    except OSError as error:
        raise _fashion_mnist_unavailable(kept, {f"writing to {root}": str(error)}) from error
    return _read_fashion_mnist(kept, source)


def fetch_from_debian(scratch: Path) -> Path:
    """Unpack Debian's package under `scratch` and return the folder that holds the files.

    apt's package lists and caches are private to `scratch` where the system's don't do, so that
    neither root rights nor an earlier `apt-get update` are needed.

    Raises:
        RuntimeError: if this is no Debian-like system, or its archive can't be reached.
    """
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise RuntimeError("no apt-get and dpkg-deb on this machine")
    scratch = scratch.resolve()  # apt takes relative folders as relative to /
    for folder in ("lists/partial", "archives/partial"):
        (scratch / folder).mkdir(parents=True)
    options = {
        "Dir::Cache": scratch,
        "Acquire::http::Timeout": NETWORK_TIMEOUT,
        "Acquire::https::Timeout": NETWORK_TIMEOUT,
        "Acquire::Retries": 0,
        # root's apt would step down to the user _apt, who can't enter a private folder
        "APT::Sandbox::User": "root",
    }
    private = {
        **options,
        "Dir::State": scratch,
        "Dir::State::Lists": scratch / "lists",
        "APT::Update::Error-Mode": "any",  # else an update without a network "succeeds"
    }
    download = ("download", DEBIAN_PACKAGE)
    error = _apt(scratch, options, *download)
    if error:  # no lists, as in a bare container, or lists too old
        # update may fail: an unrelated source of the system may be down
        update_error = _apt(scratch, private, "update")
        error = _apt(scratch, private, *download)
        if error:
            raise RuntimeError("; ".join(filter(None, (update_error, error))))
    (package,) = scratch.glob("*.deb")
    _run(scratch, "dpkg-deb", "-x", package.name, "unpacked")
    return scratch / "unpacked" / DEBIAN_FOLDER.relative_to("/")


def fetch_with_torchvision(scratch: Path) -> Path:
    """Have torchvision download into `scratch` and return the folder that holds the files.

    Raises:
        RuntimeError, OSError: if its servers can't be reached.
    """
    from torchvision.datasets import FashionMNIST  # lazily: importing torch takes seconds

    with _network_timeout():
        FashionMNIST(scratch, download=True)
    return scratch / "FashionMNIST" / "raw"


FETCHERS: dict[str, Callable[[Path], Path]] = {
    f"Debian's archive, package {DEBIAN_PACKAGE}": fetch_from_debian,
    "torchvision's download": fetch_with_torchvision,
}


def _fetch_fashion_mnist(kept: Path) -> str:
    """Bring the four files, verified, into the folder `kept` in one rename; say whence."""
    scratch = kept.with_name("fashion_mnist.partial")
    reasons = {}
    for source, fetch in FETCHERS.items():
        # the caller holds the lock: what lies here is from a process that died, never in use
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        try:
            try:
                fetched = fetch(scratch)
            except Exception as error:  # other people's network code: whatever it raises is why
                reasons[source] = f"{error}"
                continue
            complete = scratch / "complete"
            complete.mkdir()
            for file in FASHION_MNIST_SHA256:
                _payload(fetched / file)
                (fetched / file).rename(complete / file)
            if kept.exists():  # an incomplete folder: the user's, so it is moved, not deleted
                kept.rename(kept.with_name(f"fashion_mnist.incomplete.{time.time_ns()}"))
            complete.rename(kept)
            return source
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    raise _fashion_mnist_unavailable(kept, reasons)


def _missing(folder: Path) -> list[str]:
    """Those of the four files that `folder` lacks."""
    return [file for file in FASHION_MNIST_SHA256 if not (folder / file).is_file()]


def _fashion_mnist_unavailable(kept: Path, reasons: dict[str, str]) -> DataUnavailable:
    """The error for when no way worked: what a user can do, and why each try failed."""
    looked = {}
    for folder in (kept, DEBIAN_FOLDER):
        lacks = f"lacks {', '.join(_missing(folder))}"
        looked[str(folder)] = lacks if folder.is_dir() else "no such folder"
    tried = "\n".join(
        f"  - {what}: {' '.join(why.split())}" for what, why in {**looked, **reasons}.items()
    )
    return DataUnavailable(
        "Fashion-MNIST can't be had. Any one of these makes it available:\n"
        f"  1. put its four files ({', '.join(FASHION_MNIST_SHA256)}) into {kept}\n"
        f"  2. install Debian's package {DEBIAN_PACKAGE}, or let `apt-get download` reach a"
        " Debian archive\n"
        "  3. let torchvision.datasets.FashionMNIST download it (it needs the network)\n"
        f"Tried:\n{tried}\n"
        "The data set `digits` always works: it comes with scikit-learn."
    )


def _read_fashion_mnist(folder: Path, source: str) -> Dataset:
    """The Dataset in the four files of `folder`."""
    arrays = [_idx(_payload(folder / file)) for file in FASHION_MNIST_SHA256]
    train_images, train_labels, test_images, test_labels = arrays
    return _dataset(
        "fashion_mnist",
        (train_images[..., None], train_labels),
        (test_images[..., None], test_labels),
        scale=255.0,
        source=source,
    )


def _payload(path: Path) -> bytes:
    """What is inside one of the .gz files, or DataUnavailable if that isn't Fashion-MNIST's."""
    advice = "a damaged file; remove it, if still there, to have it looked for and fetched anew"
    try:
        payload = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataUnavailable(f"{path} can't be decompressed ({error}): {advice}") from error
    found, expected = hashlib.sha256(payload).hexdigest(), FASHION_MNIST_SHA256[path.name]
    if found != expected:
        raise DataUnavailable(
            f"{path}: its content has SHA-256 {found}, expected {expected}: {advice}"
        )
    return payload


def _idx(payload: bytes) -> np.ndarray:
    """The uint8 array in an IDX file: 0, 0, 8 (= uint8), rank, big-endian sizes, values."""
    assert payload[:3] == b"\0\0\x08"  # its checksum was right
    rank = payload[3]
    shape = struct.unpack_from(f">{rank}I", payload, 4)
    # a copy, since a view of bytes is read-only and torch.from_numpy warns of that
    return np.frombuffer(payload, np.uint8, offset=4 + 4 * rank).reshape(shape).copy()


def _apt(scratch: Path, options: dict, *command: str) -> str:
    """Run apt-get in `scratch`; why it failed, or "" if it did not."""
    settings = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    try:
        _run(scratch, "apt-get", "-q", *settings, *command)
    except RuntimeError as error:
        return str(error)
    return ""


def _run(folder: Path, *command: str) -> None:
    """Run a command quietly in `folder`; RuntimeError with its last words if it fails."""
    name = f"{command[0]} {command[-1]}"
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{name}: no end after {FETCH_TIMEOUT} s") from error
    if done.returncode:
        raise RuntimeError(f"{name}: {' '.join(done.stderr.strip().splitlines()[-2:])}")


@contextmanager
def _network_timeout():
    """Let sockets give up: torchvision sets no timeout, and a silent firewall hangs it."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(NETWORK_TIMEOUT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


# ---- the others ------------------------------------------------------------------------------


def digits(root: Path) -> Dataset:
    """Scikit-learn's digits: 1797 grey images of 8 x 8 with values 0..16, 10 classes.

    They come with scikit-learn, `root` is not read. Of each class, every fifth sample in the
    published order is a test sample (1438 train, 359 test): the same split everywhere, by a
    rule that no random generator's version can change.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8, 1).astype(np.uint8)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        is_test[np.flatnonzero(labels == label)[2::5]] = True
    return _dataset(
        "digits",
        (images[~is_test], labels[~is_test]),
        (images[is_test], labels[is_test]),
        scale=16.0,
        source="scikit-learn's load_digits",
    )


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
            with FileLock(root / "cifar10.lock"), _network_timeout():
                train, test = read(download=True)  # a no-op if another process was first
        except Exception as error:  # torchvision's network code: whatever it raises is why
            raise DataUnavailable(
                f"CIFAR-10 can't be had: {folder} holds no undamaged copy, and torchvision's"
                f" download failed ({error}). Put cifar-10-python.tar.gz from {CIFAR10.url}"
                f" into {folder}, or let torchvision reach that address. The data set"
                " `digits` always works: it comes with scikit-learn."
            ) from error
    return _dataset(
        "cifar10",
        (train.data, np.array(train.targets)),
        (test.data, np.array(test.targets)),
        scale=255.0,
        source=source,
    )


def imagenet(root: Path) -> Folder:
    """ImageNet-1K: 1,281,167 + 50,000 color photographs, 1000 classes.

    Read from root/imagenet/train/<class>/* and root/imagenet/val/<class>/*, the layout of every
    ImageNet recipe. It cannot be fetched: its licence is between you and image-net.org.

    Raises:
        DataUnavailable: if the folders are not there or do not hold the same classes.
    Ref: Russakovsky et al. 2015, arXiv:1409.0575.
    """
    from torchvision.datasets import ImageFolder

    folder = root / "imagenet"
    advice = (
        f"ImageNet can't be had: it is expected as {folder}/train/<class>/*.JPEG and "
        f"{folder}/val/<class>/*.JPEG (EXPOGRAPH_DATA sets another root than {root})"
    )
    try:
        train, test = (ImageFolder(folder / part) for part in ("train", "val"))
    except (OSError, RuntimeError) as error:
        raise DataUnavailable(f"{advice}: {' '.join(str(error).split())}") from None
    if train.classes != test.classes:
        odd = sorted(set(train.classes) ^ set(test.classes))
        raise DataUnavailable(f"{advice}: train and val differ in {len(odd)} classes, as {odd[0]}")
    return Folder(
        name="imagenet",
        train=train.samples,
        test=test.samples,
        num_classes=len(train.classes),
        mean=(0.485, 0.456, 0.406),  # of ImageNet's training pixels, as every recipe has them
        std=(0.229, 0.224, 0.225),
        source=f"files in {folder}",
    )


def _dataset(name: str, train: tuple, test: tuple, scale: float, source: str) -> Dataset:
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


DATASETS: dict[str, Callable[[Path], Dataset | Folder]] = {
    loader.__name__: loader for loader in (fashion_mnist, digits, cifar10, imagenet)
}
FOLDERS = ("imagenet",)  # those that stay on disk, photographs of any size
SIZES = {  # training images, for configs that count in epochs
    "fashion_mnist": 60_000,
    "digits": 1_438,
    "cifar10": 50_000,
    "imagenet": 1_281_167,
}
