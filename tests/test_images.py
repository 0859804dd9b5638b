"""Augmentation by address and image folders in the real layout, against numpy and torchvision."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from expograph import data
from expograph.config import Run
from expograph.data import images
from expograph.runs.assemble import assemble, records_of

CPU = torch.device("cpu")


def generators(*addresses: int) -> list[np.random.Generator]:
    return [np.random.default_rng(a) for a in addresses]


def test_crop_and_flip_are_slices_of_the_padded_image():
    rng = np.random.default_rng(0)
    batch = rng.integers(256, size=(2, 5, 6, 7, 3), dtype=np.uint8)
    found = images.crop_flip(torch.from_numpy(batch), generators(1, 2)).numpy()
    moved = set()
    for worker, drawn in enumerate(generators(1, 2)):
        down, right = drawn.integers(9, size=(2, 5))
        flips = drawn.random(5) < 0.5
        for b in range(5):
            padded = np.pad(batch[worker, b], ((4, 4), (4, 4), (0, 0)))
            crop = padded[down[b] : down[b] + 6, right[b] : right[b] + 7]
            np.testing.assert_array_equal(found[worker, b], crop[:, ::-1] if flips[b] else crop)
            moved.add((down[b], right[b], flips[b]))
    assert len(moved) > 5


@pytest.mark.parametrize("size", [(500, 375), (40, 400), (400, 40), (1, 1)])
def test_resized_crops_lie_in_the_image_and_have_the_stated_area_and_ratio(size):
    rng = np.random.default_rng(0)
    width, height = size
    for _ in range(200):
        left, top, right, bottom = images.resized_crop(width, height, rng.random(40))
        assert 0 <= left < right <= width and 0 <= top < bottom <= height
        if size == (500, 375):
            share = (right - left) * (bottom - top) / (width * height)
            assert 0.075 < share <= 1.0
            assert 0.73 < (right - left) / (bottom - top) < 1.36


def test_resized_crops_fill_their_range():
    rng = np.random.default_rng(0)
    boxes = np.array([images.resized_crop(500, 375, rng.random(40)) for _ in range(2000)])
    share = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) / (500 * 375)
    transform = v2.RandomResizedCrop(224)
    torch.manual_seed(0)
    theirs = [
        (p := transform.make_params([torch.empty(3, 375, 500)]))["height"] * p["width"]
        for _ in range(2000)
    ]
    assert share.mean() == pytest.approx(np.mean(theirs) / (500 * 375), abs=0.02)
    assert boxes[:, 0].min() == 0 and boxes[:, 2].max() == 500


@pytest.fixture
def imagenet(tmp_path, monkeypatch):
    """Three classes in ImageNet's layout: smooth photographs of several sizes, some grey."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 4), ("val", 3)):
        for name in ("n01440764", "n01443537", "n01484850"):
            folder = tmp_path / "imagenet" / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                width, height = 90 + 10 * i, 80
                small = Image.fromarray(rng.integers(256, size=(4, 4, 3), dtype=np.uint8))
                photo = small.resize((width, height), Image.Resampling.BICUBIC)
                photo = photo.convert("L") if i == 2 else photo
                photo.save(folder / f"{name}_{i}.JPEG")
    monkeypatch.setenv("EXPOGRAPH_DATA", str(tmp_path))
    return tmp_path


def test_test_images_are_torchvisions_resize_and_crop(imagenet):
    folder = data.load("imagenet")
    assert folder.num_classes == 3
    assert folder.train_labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    found = images.FolderImages(folder, CPU, 56).test(np.arange(9))
    assert found.shape == (9, 56, 56, 3)
    theirs = v2.Compose(
        [
            v2.PILToTensor(),
            v2.Resize(64, antialias=True),
            v2.CenterCrop(56),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    for i, (path, _) in enumerate(folder.test):
        expected = theirs(Image.open(path).convert("RGB")).permute(1, 2, 0)
        assert (found[i] - expected).abs().mean() < 0.05  # one resampling here, two there


def test_decoding_ahead_changes_nothing(imagenet):
    folder = data.load("imagenet")
    samples = np.array([[0, 5, 11], [3, 3, 8]])
    there, here = (images.FolderImages(folder, CPU, 48, "resized_crop_flip") for _ in range(2))
    there.expect(samples, generators(1, 2))
    ahead = there.train(samples, generators(8, 9))
    expected = here.train(samples, generators(1, 2))
    assert torch.equal(ahead, expected) and expected.shape == (2, 3, 48, 48, 3)
    assert not torch.equal(ahead[1, 0], ahead[1, 1])  # one image, two crops
    there.expect(samples[:, ::-1], generators(1, 2))  # another batch than the one that comes
    assert torch.equal(there.train(samples, generators(1, 2)), expected)


def test_folders_train(imagenet):
    run = Run.model_validate(
        {
            "problem": {
                "kind": "classification",
                "dataset": "imagenet",
                "model": "linear",
                "batch_size": 4,
                "image_size": 32,
                "augment": "resized_crop_flip",
            },
            "topology": "one_peer_exponential",
            "nodes": 2,
            "algorithm": "dmsgd",
            "steps": 3,
            "lr": 0.01,
            "beta": 0.9,
        }
    )
    *_, last = records_of(run)
    assert last.values["accuracy_averaged"] in [100 * c / 9 for c in range(10)]
    assembly = assemble(run)
    for _ in range(2):  # its problem serves again
        *_, again = assembly.records()
        assert torch.equal(again.x, last.x)


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda root: (root / "imagenet").rename(root / "away"), "expected as .*No such file"),
        (lambda root: (root / "imagenet/val/n01440764").rename(root / "x"), "differ in 1 classes"),
    ],
)
def test_a_bad_folder_is_one_line(imagenet, spoil, message):
    spoil(imagenet)
    with pytest.raises(data.DataUnavailable, match=message) as error:
        data.load("imagenet")
    assert "\n" not in str(error.value)
