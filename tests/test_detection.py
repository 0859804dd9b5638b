"""Detection: sets in their real formats, gradients against plain modules, mAP from 0 to 100."""

import json

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from expograph import data, detectors, generated, scenes
from expograph.config import Run
from expograph.problems import detection
from expograph.problems.detection import Detection
from expograph.randomness import SCENES, generator
from expograph.train import train

ITEMS = np.zeros((3, 28, 28), dtype=np.uint8)
ITEMS[0, 5:20, 8:25], ITEMS[1, :, 10:14], ITEMS[2, 3:9, 3:9] = 200, 255, 120


def few_scenes(root=None) -> scenes.Scenes:
    """Sixteen scenes of three plain shapes: nothing to be fetched."""
    made = [scenes.compose(generator(0, SCENES, 0, i), ITEMS, np.arange(3)) for i in range(16)]

    def read(i):
        return torch.from_numpy(made[i][0])[None].float() / 255, made[i][1]

    labels = np.array([scenes.largest(t) for _, t in made])
    return scenes.Scenes("fashion_scenes", 11, labels, read, read, 16, "made by the test")


@pytest.fixture(autouse=True)
def shapes(monkeypatch):
    monkeypatch.setitem(scenes.DATASETS, "fashion_scenes", few_scenes)
    detection._load.cache_clear()
    yield
    detection._load.cache_clear()


def small(**changes) -> Run:
    problem = {
        "kind": "detection",
        "dataset": "fashion_scenes",
        "model": "faster_rcnn_small",
        "batch_size": 2,
        "flip": True,
    }
    values = {
        "problem": problem | changes.pop("problem", {}),
        "topology": "one_peer_exponential",
        "nodes": 4,
        "algorithm": "dmsgd",
        "steps": 2,
        "lr": 0.05,
        "beta": 0.9,
        "record_every": 2,
    }
    return Run.model_validate(values | changes)


def test_boxes_are_tight_apart_and_the_same_every_time():
    counts = set()
    for i in range(50):
        canvas, target = scenes.compose(generator(0, SCENES, 0, i), ITEMS, np.arange(3))
        again, _ = scenes.compose(generator(0, SCENES, 0, i), ITEMS, np.arange(3))
        np.testing.assert_array_equal(canvas, again)
        counts.add(len(target["labels"]))
        inside = np.zeros_like(canvas, dtype=bool)
        for left, top, right, bottom in target["boxes"].int().tolist():
            box = canvas[top:bottom, left:right]
            assert not inside[top:bottom, left:right].any()  # boxes are apart
            inside[top:bottom, left:right] = True
            for rim in (box[0], box[-1], box[:, 0], box[:, -1]):
                assert rim.max() > 0  # no empty margin
            assert box.max() > 60
        assert canvas[~inside].max() < 25  # noise alone outside of boxes
    assert counts == {1, 2, 3}


def test_a_mirror_of_a_mirror_is_the_image():
    image, target = few_scenes().train(3)
    once = detection.flipped(image, target)
    left, _, right, _ = target["boxes"].unbind(dim=1)
    assert torch.equal(once[1]["boxes"][:, 0], 64 - right)
    assert torch.equal(once[1]["boxes"][:, 2], 64 - left)
    twice = detection.flipped(*once)
    assert torch.equal(twice[0], image) and torch.equal(twice[1]["boxes"], target["boxes"])


@pytest.mark.parametrize("model", ["retinanet_small", "faster_rcnn_small"])
def test_gradient_is_the_plain_modules_and_a_rank_sees_its_row(model):
    run = small(problem={"model": model, "weight_decay": 0.01})
    whole, alone = Detection(run, range(4)), Detection(run, [2])
    x, b = (t.repeat(4, 1) for t in whole.initial())
    losses, gradients, _ = whole.gradient(x, b, 1)
    ours = alone.gradient(x[:1], b[:1], 1)
    assert torch.equal(ours[0][0], losses[2]) and torch.equal(ours[1][0], gradients[2])

    plain = detectors.build(model, 11, None, 800, 1333).train()
    vector_to_parameters(x[2].clone(), plain.parameters())
    images, targets = whole._batch(whole.batches.at(1)[2], generator(run.seed, 6, 2, 1))
    torch.manual_seed(int(generator(run.seed, 7, 2, 1).integers(2**63)))
    loss = sum(plain(images, targets).values())
    loss.backward()
    for p in plain.parameters():
        if p.ndim > 1:
            p.grad += 0.01 * p.detach()
    expected = parameters_to_vector([p.grad for p in plain.parameters()])
    torch.testing.assert_close(losses[2], loss.detach())
    torch.testing.assert_close(gradients[2], expected, rtol=1e-4, atol=1e-6)


def test_perfect_predictions_have_a_map_of_100_and_none_have_0(monkeypatch):
    problem = Detection(small(), range(4))

    def perfect(x, buffers, images):
        found = []
        for image in images:
            (i,) = [i for i in range(16) if torch.equal(few_scenes().test(i)[0], image)]
            target = few_scenes().test(i)[1]
            found.append({**target, "scores": torch.ones(len(target["labels"]))})
        return found

    monkeypatch.setattr(problem.model, "predict", perfect)
    assert problem._map(*problem.initial()) == pytest.approx((100, 100))
    nothing = {"boxes": torch.empty(0, 4), "labels": torch.empty(0).long()}
    nothing["scores"] = torch.empty(0)
    monkeypatch.setattr(problem.model, "predict", lambda x, b, images: [nothing] * len(images))
    assert problem._map(*problem.initial()) == (0, 0)


def test_training_raises_the_map():
    exact = {"topology": "fully_connected", "algorithm": "psgd"}
    steps = {"steps": 150, "warmup_steps": 10, "record_every": 50}
    run = small(nodes=1, lr=0.1, problem={"batch_size": 4}, **exact, **steps)
    problem = Detection(run, range(1))
    untrained, _ = problem._map(*problem.initial())
    *_, last = train(run, problem)
    assert untrained < 5 < 20 < last.values["map_50"]
    assert last.values["map_50_worker_worst"] <= last.values["map_50_worker_mean"]


# ---- folders ---------------------------------------------------------------------------------


def test_voc_is_read_as_it_is_written(tmp_path):
    generated.voc(tmp_path, images=3)
    path = tmp_path / "VOCdevkit/VOC2007/Annotations/2007_000000.xml"
    text = path.read_text()
    path.write_text(text.replace("<difficult>0", "<difficult>1", 1))
    (test_path,) = (tmp_path / "VOCdevkit/VOC2007/Annotations").glob("2007_100000.xml")
    test_path.write_text(test_path.read_text().replace("<difficult>0", "<difficult>1", 1))
    found = scenes.load("voc", tmp_path)
    assert len(found.train_labels) == 6 and found.test_size == 3 and found.num_classes == 21
    image, target = found.train(0)
    assert image.shape == (3, 375, 500) and 0 <= image.min() < image.max() <= 1
    assert len(target["labels"]) == 2  # the difficult one is not trained on
    rng = np.random.default_rng(0)
    generated.photograph(rng, 500, 375)
    boxes = generated.boxes(rng, 500, 375)
    assert target["boxes"].tolist() == [list(map(float, box)) for box in boxes[1:]]
    assert found.test(0)[1]["iscrowd"].tolist() == [1, 0, 0]


def test_coco_is_read_as_it_is_written(tmp_path):
    generated.coco(tmp_path, images=3)
    path = tmp_path / "coco/annotations/instances_train2017.json"
    content = json.loads(path.read_text())
    content["annotations"] = [a for a in content["annotations"] if a["image_id"] != 1]
    content["annotations"][0]["iscrowd"] = 1
    path.write_text(json.dumps(content))
    found = scenes.load("coco", tmp_path)
    assert len(found.train_labels) == 2  # the image without objects is left out
    assert found.num_classes == 81 and found.test_size == 3
    _, target = found.train(0)
    wanted = content["annotations"][1:3]
    x, y, w, h = wanted[0]["bbox"]
    assert target["boxes"][0].tolist() == [x, y, x + w, y + h]
    ids = sorted(c["id"] for c in content["categories"])
    assert target["labels"].tolist() == [1 + ids.index(a["category_id"]) for a in wanted]
    assert int(target["labels"].max()) <= 80


@pytest.mark.parametrize("name", ["voc", "coco"])
def test_a_folder_that_is_not_there_is_one_line(name, tmp_path):
    with pytest.raises(data.DataUnavailable, match="is expected as") as error:
        scenes.load(name, tmp_path)
    assert "\n" not in str(error.value)


def test_damaged_annotations_are_one_line(tmp_path):
    generated.voc(tmp_path, images=2)
    (tmp_path / "VOCdevkit/VOC2012/Annotations/2012_000001.xml").write_text("<annotation>")
    with pytest.raises(data.DataUnavailable, match="VOC can't be had"):
        scenes.load("voc", tmp_path)
    generated.coco(tmp_path, images=2)
    (tmp_path / "coco/annotations/instances_val2017.json").write_text("{")
    with pytest.raises(data.DataUnavailable, match="COCO can't be had"):
        scenes.load("coco", tmp_path)


def test_pretrained_backbones_are_loaded_and_partly_frozen(tmp_path):
    generated.backbone_weights(tmp_path / "r50.pth")
    built = detectors.build("faster_rcnn_resnet50_fpn", 21, str(tmp_path / "r50.pth"), 320, 640)
    state = torch.load(tmp_path / "r50.pth", weights_only=True)
    assert torch.equal(built.backbone.body.conv1.weight, state["conv1.weight"])
    frozen = {n for n, p in built.named_parameters() if not p.requires_grad}
    assert (
        "backbone.body.conv1.weight" in frozen and "backbone.body.layer1.0.conv1.weight" in frozen
    )
    assert not any("layer2" in name or "fpn" in name for name in frozen)
    torch.save({"wrong": torch.zeros(1)}, tmp_path / "bad.pth")
    for name in ("bad.pth", "absent.pth"):
        with pytest.raises(detectors.WeightsUnavailable, match="no state_dict") as error:
            detectors.build("retinanet_resnet50_fpn", 21, str(tmp_path / name), 320, 640)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model": "retinanet_resnet50_fpn"}, "not made for the images of fashion_scenes"),
        ({"dataset": "voc"}, "faster_rcnn_small is not made for the images of voc"),
        ({"min_size": 64}, "are for the ResNet-50 detectors"),
        ({"model": "retinanet"}, "did you mean 'retinanet_small'"),
        ({"partition": "dirichlet"}, "alpha goes with"),
    ],
)
def test_bad_combinations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        small(problem=changes)
