"""Fashion-MNIST: found on disk, or fetched once and verified."""

import gzip
import hashlib
import shutil
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from filelock import FileLock

from expograph.data.dataset import DataUnavailable, Dataset, from_arrays
from expograph.data.fetch import debian_package, network_timeout

# SHA-256 of the files as DEcompressed. Debian compresses them anew, so that the .gz differ from
# Zalando's (and from torchvision's md5); what is inside is the same, whoever compressed it.
SHA256 = {
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
            return _read(folder, f"files in {folder}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / "fashion_mnist.lock"):
            if _missing(kept):  # else another process fetched it while this one waited
                source = f"{_fetch(kept)}, kept in {kept}"
            else:
                source = f"files in {kept}"
    except OSError as error:
        raise _unavailable(kept, {f"writing to {root}": str(error)}) from error
    return _read(kept, source)


def fetch_from_debian(scratch: Path) -> Path:
    """Unpack Debian's package under `scratch` and return the folder that holds the files.

    Raises:
        RuntimeError: if this is no Debian-like system, or its archive can't be reached.
    """
    return debian_package(DEBIAN_PACKAGE, scratch) / DEBIAN_FOLDER.relative_to("/")


def fetch_with_torchvision(scratch: Path) -> Path:
    """Have torchvision download into `scratch` and return the folder that holds the files.

    Raises:
        RuntimeError, OSError: if its servers can't be reached.
    """
    from torchvision.datasets import FashionMNIST  # lazily: importing torch takes seconds

    with network_timeout():
        FashionMNIST(scratch, download=True)
    return scratch / "FashionMNIST" / "raw"


FETCHERS: dict[str, Callable[[Path], Path]] = {
    f"Debian's archive, package {DEBIAN_PACKAGE}": fetch_from_debian,
    "torchvision's download": fetch_with_torchvision,
}


def _fetch(kept: Path) -> str:
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
            for file in SHA256:
                _payload(fetched / file)
                (fetched / file).rename(complete / file)
            if kept.exists():  # an incomplete folder: the user's, so it is moved, not deleted
                kept.rename(kept.with_name(f"fashion_mnist.incomplete.{time.time_ns()}"))
            complete.rename(kept)
            return source
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    raise _unavailable(kept, reasons)


def _missing(folder: Path) -> list[str]:
    """Those of the four files that `folder` lacks."""
    return [file for file in SHA256 if not (folder / file).is_file()]


def _unavailable(kept: Path, reasons: dict[str, str]) -> DataUnavailable:
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
        f"  1. put its four files ({', '.join(SHA256)}) into {kept}\n"
        f"  2. install Debian's package {DEBIAN_PACKAGE}, or let `apt-get download` reach a"
        " Debian archive\n"
        "  3. let torchvision.datasets.FashionMNIST download it (it needs the network)\n"
        f"Tried:\n{tried}\n"
        "The data set `digits` always works: it comes with scikit-learn."
    )


def _read(folder: Path, source: str) -> Dataset:
    """The Dataset in the four files of `folder`."""
    arrays = [_idx(_payload(folder / file)) for file in SHA256]
    train_images, train_labels, test_images, test_labels = arrays
    return from_arrays(
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
    found, expected = hashlib.sha256(payload).hexdigest(), SHA256[path.name]
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
