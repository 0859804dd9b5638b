"""Data sets against their publishers' facts, and every way in which a file can be bad or absent.

Fashion-MNIST's rules are tested on a tiny stand-in that the tests write as IDX by themselves.
"""

import gzip
import hashlib
import pickle
import runpy
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import load_digits

from expograph import data
from expograph.data import cifar10, fashion_mnist, generated

SCRIPT = Path(__file__).parent.parent / "scripts" / "fetch_data.py"
TRAIN_IMAGES = "train-images-idx3-ubyte.gz"


def idx(array: np.ndarray) -> bytes:
    """An IDX file as its specification says: magic number, big-endian sizes, values."""
    return struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A Fashion-MNIST of 20 + 10 images that `data` takes for the real one.

    No file is anywhere yet and nothing can be fetched; `write(folder)` puts the files down.
    """
    rng = np.random.default_rng(0)

    class Tiny:
        root = tmp_path / "root"
        train_images = rng.integers(256, size=(20, 28, 28), dtype=np.uint8)
        test_images = rng.integers(256, size=(10, 28, 28), dtype=np.uint8)
        train_labels = np.arange(20, dtype=np.uint8) % 10
        test_labels = np.arange(10, dtype=np.uint8)
        payloads: ClassVar = {
            TRAIN_IMAGES: idx(train_images),
            "train-labels-idx1-ubyte.gz": idx(train_labels),
            "t10k-images-idx3-ubyte.gz": idx(test_images),
            "t10k-labels-idx1-ubyte.gz": idx(test_labels),
        }

        @classmethod
        def write(cls, folder: Path, level: int = 9) -> Path:
            folder.mkdir(parents=True, exist_ok=True)
            for file, payload in cls.payloads.items():
                (folder / file).write_bytes(gzip.compress(payload, level))
            return folder

    sums = {file: hashlib.sha256(p).hexdigest() for file, p in Tiny.payloads.items()}
    monkeypatch.setattr(fashion_mnist, "SHA256", sums)
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", tmp_path / "not-installed")
    monkeypatch.setattr(fashion_mnist, "FETCHERS", {})
    return Tiny


def refuse(scratch: Path) -> Path:
    raise RuntimeError("no network")


# ---- what is read is what was published ------------------------------------------------------


def test_fashion_mnist_is_the_published_one():
    try:
        found = data.load("fashion_mnist")
    except data.DataUnavailable as error:
        pytest.skip(str(error))
    assert found.train_images.shape == (60000, 28, 28, 1)
    assert found.test_images.shape == (10000, 28, 28, 1)
    assert np.bincount(found.train_labels).tolist() == [6000] * 10
    assert np.bincount(found.test_labels).tolist() == [1000] * 10
    # the first labels, and the normalisation constants, as quoted all over the literature
    assert found.train_labels[:5].tolist() == [9, 0, 0, 3, 0]
    assert found.test_labels[:5].tolist() == [9, 2, 1, 1, 6]
    assert found.mean == pytest.approx([0.2860], abs=5e-5)
    assert found.std == pytest.approx([0.3530], abs=5e-5)


@pytest.mark.parametrize("level", [1, 9])
def test_idx_files_are_read_whoever_compressed_them(tiny, level):
    folder = tiny.write(tiny.root / "fashion_mnist", level)
    found = data.load("fashion_mnist", tiny.root)
    np.testing.assert_array_equal(found.train_images[..., 0], tiny.train_images)
    np.testing.assert_array_equal(found.test_images[..., 0], tiny.test_images)
    np.testing.assert_array_equal(found.train_labels, tiny.train_labels)
    np.testing.assert_array_equal(found.test_labels, tiny.test_labels)
    assert found.train_images.dtype == np.uint8 and found.train_labels.dtype == np.int64
    assert found.train_images.flags.writeable  # else torch.from_numpy warns
    assert found.mean == pytest.approx([(tiny.train_images / 255).mean()], rel=1e-12)
    assert found.std == pytest.approx([(tiny.train_images / 255).std()], rel=1e-12)
    assert found.num_classes == 10 and found.scale == 255
    assert str(folder) in found.source


def test_digits_are_sklearns():
    found = data.load("digits", "/nonexistent")
    published = load_digits()
    assert found.train_images.shape == (1438, 8, 8, 1) and found.test_images.shape == (
        359,
        8,
        8,
        1,
    )
    assert found.train_images.dtype == np.uint8 and found.train_labels.dtype == np.int64
    assert (found.train_images.min(), found.train_images.max(), found.scale) == (0, 16, 16)
    ours = np.concatenate([found.train_images, found.test_images])[..., 0]
    labels = np.concatenate([found.train_labels, found.test_labels])
    assert samples(ours, labels) == samples(published.images, published.target)
    share = np.bincount(found.test_labels) / np.bincount(labels)
    np.testing.assert_allclose(share, 0.2, atol=0.005)  # stratified
    again = data.load("digits", "/nonexistent")
    np.testing.assert_array_equal(found.test_images, again.test_images)
    assert found.mean == pytest.approx([(found.train_images / 16).mean()], rel=1e-12)
    assert found.std == pytest.approx([(found.train_images / 16).std()], rel=1e-12)


def samples(images: np.ndarray, labels: np.ndarray) -> list[tuple]:
    """The (pixels, label) of all samples, sorted, so that lists of them compare as multisets."""
    return sorted((*image.ravel().tolist(), k) for image, k in zip(images, labels, strict=True))


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """A folder of CIFAR-10 batches with 4 images each, and torchvision's md5s set to match."""
    CIFAR10 = pytest.importorskip("torchvision.datasets").CIFAR10
    folder = tmp_path / "cifar10" / CIFAR10.base_folder
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)

    def write(file: str, content: dict) -> list[str]:
        (folder / file).write_bytes(pickle.dumps(content))
        return [file, hashlib.md5((folder / file).read_bytes()).hexdigest()]

    def batch(labels: list[int]) -> dict:
        pixels = rng.integers(256, size=(len(labels), 3072), dtype=np.uint8)
        return {"data": pixels, "labels": labels}

    batches = [batch([i, 9, 2 * i, 0]) for i in range(5)]
    test = batch([0, 1, 2, 3])
    train_list = [write(f"data_batch_{i + 1}", b) for i, b in enumerate(batches)]
    monkeypatch.setattr(CIFAR10, "train_list", train_list)
    monkeypatch.setattr(CIFAR10, "test_list", [write("test_batch", test)])
    meta = write("batches.meta", {"label_names": [str(k) for k in range(10)]})
    names = {"filename": meta[0], "key": "label_names", "md5": meta[1]}
    monkeypatch.setattr(CIFAR10, "meta", names)
    monkeypatch.setattr(CIFAR10, "download", lambda self: refuse(folder))
    return tmp_path, batches, test


def test_cifar10_is_read_channels_last(cifar):
    root, batches, test = cifar
    found = data.load("cifar10", root)
    assert found.train_images.shape == (20, 32, 32, 3) and found.test_images.shape == (
        4,
        32,
        32,
        3,
    )
    # a row of a batch is all of red, then green, then blue, each row by row
    assert found.train_images[5, 2, 7, 1] == batches[1]["data"][1, 1024 + 2 * 32 + 7]
    assert found.train_labels.tolist() == [k for b in batches for k in b["labels"]]
    assert found.test_labels.tolist() == test["labels"]
    assert found.train_labels.dtype == np.int64 and found.num_classes == 10
    np.testing.assert_allclose(found.mean, (found.train_images / 255).mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(found.std, (found.train_images / 255).std((0, 1, 2)), rtol=1e-12)


def test_damaged_cifar10_is_not_read(cifar):
    root, _, _ = cifar
    (path,) = root.rglob("data_batch_3")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(data.DataUnavailable, match=r"(?s)CIFAR-10.*no network.*digits"):
        data.load("cifar10", root)


def test_a_file_among_the_data_does_not_make_them_trusted(tmp_path, monkeypatch):
    """Batches are pickled: what a data folder says of its own checksums counts for nothing."""
    CIFAR10 = pytest.importorskip("torchvision.datasets").CIFAR10
    monkeypatch.setattr(CIFAR10, "download", lambda self: refuse(tmp_path))
    monkeypatch.setattr(cifar10, "_made_up", {})
    generated.cifar10(tmp_path)
    for place in (tmp_path, tmp_path / "cifar10"):
        (place / "generated.json").write_bytes((tmp_path / "generated.json").read_bytes())
    with pytest.raises(data.DataUnavailable, match="no undamaged copy"):
        data.load("cifar10", tmp_path)
    generated.believe(tmp_path)
    found = data.load("cifar10", tmp_path)
    assert len(found.train_labels) == 500 and found.source.startswith("generated images")


# ---- bad files -------------------------------------------------------------------------------


@pytest.mark.parametrize("file", list(fashion_mnist.SHA256))
def test_one_wrong_byte_is_an_error_that_names_the_file(tiny, file):
    folder = tiny.write(tiny.root / "fashion_mnist")
    wrong = bytearray(tiny.payloads[file])
    wrong[-1] ^= 1
    (folder / file).write_bytes(gzip.compress(bytes(wrong)))  # a valid gzip file
    with pytest.raises(data.DataUnavailable, match=f"{file}.*SHA-256.*damaged"):
        data.load("fashion_mnist", tiny.root)


def test_a_wrong_file_of_debians_package_is_not_skipped(tiny, monkeypatch):
    folder = tiny.write(tiny.root / "installed")
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", folder)
    (folder / TRAIN_IMAGES).write_bytes(gzip.compress(b"something else"))
    monkeypatch.setattr(
        fashion_mnist, "FETCHERS", {"a good one": lambda scratch: tiny.write(scratch)}
    )
    with pytest.raises(data.DataUnavailable, match=f"{folder / TRAIN_IMAGES}.*SHA-256"):
        data.load("fashion_mnist", tiny.root)


@pytest.mark.parametrize("spoil", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"x" + b])
def test_truncated_and_foreign_files_are_clear_errors(tiny, spoil):
    path = tiny.write(tiny.root / "fashion_mnist") / TRAIN_IMAGES
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(data.DataUnavailable, match=f"{TRAIN_IMAGES}.*damaged"):
        data.load("fashion_mnist", tiny.root)


# ---- where it is looked for, and fetching ----------------------------------------------------


def test_the_default_root_is_the_environments_else_data_here(tiny, tmp_path, monkeypatch):
    tiny.write(tmp_path / "elsewhere" / "fashion_mnist")
    tiny.write(tmp_path / "data" / "fashion_mnist")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EXPOGRAPH_DATA", raising=False)
    assert data.load("fashion_mnist").source == "files in data/fashion_mnist"
    monkeypatch.setenv("EXPOGRAPH_DATA", str(tmp_path / "elsewhere"))
    assert str(tmp_path / "elsewhere") in data.load("fashion_mnist").source
    assert "data/fashion_mnist" in data.load("fashion_mnist", "data").source


def test_an_installed_debian_package_is_used_in_place(tiny, monkeypatch):
    folder = tiny.write(tiny.root / "installed")
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", folder)
    assert str(folder) in data.load("fashion_mnist", tiny.root).source
    assert not (tiny.root / "fashion_mnist").exists()


def test_the_first_fetcher_that_works_fills_the_root_and_leaves_no_trace(tiny, monkeypatch):
    fetchers = {"broken": refuse, "good": lambda scratch: tiny.write(scratch / "deep" / "down")}
    monkeypatch.setattr(fashion_mnist, "FETCHERS", fetchers)
    assert data.load("fashion_mnist", tiny.root).source.startswith("good, kept in ")
    monkeypatch.setattr(fashion_mnist, "FETCHERS", {})
    assert data.load("fashion_mnist", tiny.root).source.startswith("files in ")
    left = {path.name for path in tiny.root.iterdir()} - {"fashion_mnist.lock"}
    assert left == {"fashion_mnist"}
    assert {path.name for path in (tiny.root / "fashion_mnist").iterdir()} == set(tiny.payloads)


def test_a_folder_with_three_of_the_four_files_is_not_used(tiny, monkeypatch):
    folder = tiny.write(tiny.root / "fashion_mnist")
    (folder / TRAIN_IMAGES).unlink()
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"half")
    with pytest.raises(data.DataUnavailable, match=f"fashion_mnist: lacks {TRAIN_IMAGES}\n"):
        data.load("fashion_mnist", tiny.root)
    monkeypatch.setattr(fashion_mnist, "FETCHERS", {"good": lambda scratch: tiny.write(scratch)})
    data.load("fashion_mnist", tiny.root)
    (moved,) = tiny.root.glob("fashion_mnist.incomplete.*")  # the user's files, not deleted
    assert len(list(moved.iterdir())) == 3


def test_a_fetch_that_died_halfway_is_not_reused(tiny, monkeypatch):
    tiny.write(tiny.root / "fashion_mnist.partial" / "complete")
    (tiny.root / "fashion_mnist.partial" / "complete" / TRAIN_IMAGES).write_bytes(b"half")
    monkeypatch.setattr(fashion_mnist, "FETCHERS", {"good": lambda scratch: tiny.write(scratch)})
    found = data.load("fashion_mnist", tiny.root)
    np.testing.assert_array_equal(found.train_images[..., 0], tiny.train_images)


def test_a_wrong_fetched_file_is_an_error_and_is_not_kept(tiny, monkeypatch):
    def fetch(scratch: Path) -> Path:
        (tiny.write(scratch) / TRAIN_IMAGES).write_bytes(gzip.compress(b"captive portal"))
        return scratch

    monkeypatch.setattr(fashion_mnist, "FETCHERS", {"wrong": fetch})
    with pytest.raises(data.DataUnavailable, match=f"{TRAIN_IMAGES}.*SHA-256"):
        data.load("fashion_mnist", tiny.root)
    assert [path.name for path in tiny.root.iterdir()] in ([], ["fashion_mnist.lock"])


PROCESS = """
import sys, time, pickle, shutil
from pathlib import Path
from expograph import data
from expograph.data import fashion_mnist

root, log, files, sums = sys.argv[1:]
fashion_mnist.SHA256 = pickle.loads(bytes.fromhex(sums))
fashion_mnist.DEBIAN_FOLDER = Path("/nonexistent")

def fetch(scratch):
    with open(log, "a") as file:
        file.write("fetched\\n")
    for path in Path(files).iterdir():
        shutil.copy(path, scratch)
        time.sleep(0.2)  # long enough for the others to arrive
    return scratch

fashion_mnist.FETCHERS = {"slow": fetch}
print(len(data.load("fashion_mnist", root).train_labels))
"""


def test_many_processes_fetch_once(tiny, tmp_path):
    files, log = tiny.write(tmp_path / "files"), tmp_path / "log"
    sums = pickle.dumps(fashion_mnist.SHA256).hex()
    command = [sys.executable, "-c", PROCESS, tiny.root, log, files, sums]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["20\n"] * 3
    assert log.read_text() == "fetched\n"


def test_when_nothing_works_the_error_names_every_way_and_every_reason(tiny, monkeypatch):
    fetchers = {"Debian": refuse, "torchvision": refuse}
    monkeypatch.setattr(fashion_mnist, "FETCHERS", fetchers)
    with pytest.raises(data.DataUnavailable) as caught:
        data.load("fashion_mnist", tiny.root)
    message = str(caught.value)
    ways, reasons = message.split("Tried:")
    for file in tiny.payloads:
        assert file in ways
    for words in (str(tiny.root / "fashion_mnist"), "dataset-fashion-mnist", "torchvision"):
        assert words in ways
    assert reasons.count("no such folder") == 2 and reasons.count("no network") == 2
    assert "`digits` always works" in message
    assert not (tiny.root / "fashion_mnist").exists()


def test_a_root_that_cannot_be_written_is_a_reason(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(data.DataUnavailable, match=f"writing to {tmp_path / 'file'}"):
        data.load("fashion_mnist", tmp_path / "file")


# ---- Debian's archive, with apt-get and dpkg-deb played by scripts ---------------------------

APT = """#!/bin/sh
echo "$@" >> "$LOG"
case "$*" in
*update*) echo "E: one source is down" >&2; exit 100;;
*download*)
  case "$HAS_LISTS$*" in yes*|*State::Lists=$PWD/lists*) ;; *)
    echo "E: Unable to locate package" >&2; exit 100;; esac
  echo "W: Download is performed unsandboxed" >&2; touch dataset-fashion-mnist_0_all.deb;;
esac
"""
DPKG = """#!/bin/sh
mkdir -p "$3/usr/share/datasets" && cp -r "$FILES" "$3/usr/share/datasets/fashion-mnist"
"""


@pytest.fixture
def fake_apt(tiny, tmp_path, monkeypatch):
    """apt-get and dpkg-deb first on PATH; returns the file that logs apt-get's arguments."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG)):
        (programs / name).write_text(text)
        (programs / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FILES", str(tiny.write(tmp_path / "files")))
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", Path("/usr/share/datasets/fashion-mnist"))
    monkeypatch.setattr(
        fashion_mnist, "_missing", lambda folder: ["all"]
    )  # even if it is installed here
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    return tmp_path / "log"


@pytest.mark.parametrize("has_lists, calls", [("yes", 1), ("", 3)])
def test_debians_package_comes_with_and_without_package_lists(
    tiny, fake_apt, monkeypatch, has_lists, calls
):
    monkeypatch.setenv("HAS_LISTS", has_lists)
    folder = fashion_mnist.fetch_from_debian(Path("scratch"))  # relative, as ./data is
    assert {path.name for path in folder.iterdir()} == set(tiny.payloads)
    log = fake_apt.read_text().splitlines()
    assert len(log) == calls  # download; else update, in private folders, and download again
    assert all("download dataset-fashion-mnist" in log[i] for i in (0, -1))
    scratch = fake_apt.parent / "scratch"
    assert all(f"Dir::Cache={scratch}" in line for line in log)
    assert all(f"Dir::State={scratch}" in line for line in log[1:])


def test_apts_own_words_are_the_reason(fake_apt, monkeypatch):
    (fake_apt.parent / "programs" / "apt-get").write_text("#!/bin/sh\necho E: $0 no >&2; exit 100")
    with pytest.raises(RuntimeError, match="apt-get no"):
        fashion_mnist.fetch_from_debian(Path("scratch"))


def test_a_machine_without_apt_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="no apt-get"):
        fashion_mnist.fetch_from_debian(tmp_path)


# ---- names and the script --------------------------------------------------------------------


def test_an_unknown_name_is_met_with_the_known_ones_and_the_closest():
    with pytest.raises(ValueError, match=r"'fashoin'; did you mean 'fashion_mnist'.*digits"):
        data.load("fashoin")
    with pytest.raises(
        ValueError, match=r"'svhn'; known: fashion_mnist, digits, cifar10, imagenet"
    ):
        data.load("svhn")


def test_the_script_prints_one_line_and_fails_without_a_traceback(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "fashion_mnist"
    folder.mkdir()
    for file in fashion_mnist.SHA256:
        (folder / file).write_bytes(b"rubbish")
    command = [str(SCRIPT), "--root", str(tmp_path), "digits", "fashion_mnist"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as caught:  # and not DataUnavailable
        runpy.run_path(str(SCRIPT), run_name="__main__")
    out, err = capsys.readouterr()
    assert caught.value.code == 1 and TRAIN_IMAGES in err
    assert out == "digits: 1438 train, 359 test, scikit-learn's load_digits\n"
