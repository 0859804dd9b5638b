"""Detection: sets in their real formats, gradients against plain modules, mAP from 0 to 100."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from expograph import data
from expograph.config import Run
from expograph.data import generated, scenes
from expograph.networks import detectors
from expograph.problems import detection
from expograph.problems.detection import Detection
from expograph.randomness import SCENES, generator
from expograph.runs.assemble import assemble

ITEMS = np.zeros((3, 28, 28), dtype=np.uint8)
ITEMS[0, 5:20, 8:25], ITEMS[1, :, 10:14], ITEMS[2, 3:9, 3:9] = 200, 255, 120


def few_scenes(root=None) -> scenes.Scenes:
    """Sixteen scenes of three plain shapes: nothing to be fetched."""
    made = [scenes.compose(generator(0, SCENES, 0, i), ITEMS, np.arange(3)) for i in range(16)]

    def image(i):
        return torch.from_numpy(made[i][0])[None].float() / 255

    def train(i):
        return image(i), made[i][1]

    targets = [t for _, t in made]
    labels = np.array([scenes.largest(t) for t in targets])
    return scenes.Scenes("fashion_scenes", 11, labels, train, image, targets, "made by the test")


@pytest.fixture(autouse=True)
def shapes(monkeypatch):
    monkeypatch.setattr(scenes, "fashion_scenes", few_scenes)
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


def of(run: Run, ranks=None) -> Detection:
    """The run's problem, for all ranks or some."""
    return Detection(run.problem, run.ranks, ranks or range(run.ranks), run.seed)


def metrics(problem: Detection, x, buffers, final: bool = False) -> dict[str, float]:
    """What `train` records of models x (n, d), all of them held here."""
    mean = x.mean(dim=0)
    measured = problem.measure(x, buffers, mean, buffers.mean(dim=0), final)
    return problem.evaluate(mean, measured, final)


def start(problem: Detection, n: int = 4):
    """The initial model on n workers."""
    return [t.repeat(n, 1) for t in problem.initial()]


def finds(scores: torch.Tensor, blur: float = 0):
    """A stand-in for `predict`: sees everything where a model's first number is above 0.

    scores (16, 3) of the objects of each scene; boxes are off by `blur` times 1 - score pixels.
    """
    shown = few_scenes()

    def predict(x, buffers, images):
        found = []
        for image in images:
            (i,) = [i for i in range(16) if torch.equal(shown.test(i), image)]
            target = shown.test_targets[i]
            score = scores[i, : len(target["labels"])]
            boxes = target["boxes"] + blur * (1 - score[:, None])
            found.append({"boxes": boxes, "labels": target["labels"], "scores": score})
            if not x[0] > 0:
                found[-1] = {key: value[:0] for key, value in found[-1].items()}
        return found

    return predict


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
    whole, alone = of(run), of(run, [2])
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
    problem = of(small())
    monkeypatch.setattr(problem.model, "predict", finds(torch.ones(16, 3)))
    x = torch.tensor([[1.0], [1.0], [-1.0], [1.0]])  # worker 2 sees nothing, the average does
    found = metrics(problem, x, torch.empty(4, 0), final=True)
    assert found == pytest.approx(
        {"map_50": 100, "map": 100, "map_50_worker_mean": 75, "map_50_worker_worst": 0}
    )
    assert found.keys() == problem.metrics.keys()
    assert metrics(problem, -x, torch.empty(4, 0)) == {"map_50": 0, "map": 0}


@pytest.mark.parametrize("nodes", [1, 3, 8])
def test_map_is_that_of_all_test_images_at_once_whatever_the_ranks(monkeypatch, nodes):
    """Shares of unequal size, some ranks without any; held together or one a process."""
    monkeypatch.setattr(detection, "TEST_CHUNK", 3)
    scores = torch.rand(16, 3, generator=torch.Generator().manual_seed(0))
    scores = scores.mul(4).round() / 4  # many are equal: then the order of images counts
    monkeypatch.setattr(detection.FlatModel, "predict", staticmethod(finds(scores, blur=9)))
    whole = of(small(nodes=nodes))
    passes = [some for rank in range(nodes) for some in whole._passes(rank)]
    assert sorted(i for some in passes for i in some) == list(range(16))
    x, b = torch.ones(nodes, 1), torch.empty(nodes, 0)
    found = metrics(whole, x, b)
    images = [few_scenes().test(i) for i in range(16)]
    expected = whole._map(finds(scores, blur=9)(x[0], b[0], images))
    assert (found["map_50"], found["map"]) == expected
    assert 1 < found["map"] < found["map_50"] < 99
    rows = [
        of(small(nodes=nodes), [r]).measure(x[:1], b[:1], x[0], b[0], False) for r in range(nodes)
    ]
    assert whole.evaluate(x[0], torch.cat(rows), False) == found


def test_detections_survive_the_exchange():
    rng = torch.Generator().manual_seed(0)
    found = [
        {
            "boxes": 64 * torch.rand(m, 4, generator=rng),
            "labels": torch.randint(1, 91, (m,), generator=rng),
            "scores": torch.rand(m, generator=rng),
        }
        for m in (0, 5, detection.DETECTIONS)
    ]
    back = detection.unpacked(detection.packed(found, 4))
    assert len(back) == 4 and not len(back[3]["labels"])
    for ours, theirs in zip(found, back, strict=False):
        assert ours["labels"].dtype == theirs["labels"].dtype
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_difficult_objects_neither_count_nor_harm(monkeypatch):
    """A detector that finds all but what is difficult, or that too, is perfect."""
    problem = of(small())
    targets = [dict(t) for t in few_scenes().test_targets]
    for target in targets:
        if len(target["labels"]) > 1:
            target["iscrowd"] = torch.eye(len(target["labels"]), dtype=torch.int64)[0]
    shown = dataclasses.replace(problem.scenes, test_targets=targets)
    monkeypatch.setattr(problem, "scenes", shown)
    for kept in (lambda t: t["iscrowd"] == 0, lambda t: t["iscrowd"] >= 0):
        found = [{k: t[k][kept(t)] for k in ("boxes", "labels")} for t in targets]
        found = [{**f, "scores": torch.ones(len(f["labels"]))} for f in found]
        assert problem._map(found) == pytest.approx((100, 100))


def test_training_raises_the_map():
    exact = {"topology": "fully_connected", "algorithm": "psgd"}
    steps = {"steps": 150, "warmup_steps": 10, "record_every": 50}
    run = small(nodes=1, lr=0.1, problem={"batch_size": 4}, **exact, **steps)
    assembly = assemble(run)
    problem = assembly.problem
    untrained = metrics(problem, *start(problem, 1))["map_50"]
    *_, last = assembly.records()
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
    found = data.load("voc", tmp_path)
    assert len(found.train_labels) == 6 and len(found.test_targets) == 3 and found.num_classes == 21
    image, target = found.train(0)
    assert image.shape == (3, 375, 500) and 0 <= image.min() < image.max() <= 1
    assert len(target["labels"]) == 2  # the difficult one is not trained on
    rng = np.random.default_rng(0)
    generated.photograph(rng, 500, 375)
    boxes = generated.boxes(rng, 500, 375)
    assert target["boxes"].tolist() == [list(map(float, box)) for box in boxes[1:]]
    assert found.test_targets[0]["iscrowd"].tolist() == [1, 0, 0]
    assert found.test(0).shape == (3, 375, 500)


def test_coco_is_read_as_it_is_written(tmp_path):
    generated.coco(tmp_path, images=3)
    path = tmp_path / "coco/annotations/instances_train2017.json"
    content = json.loads(path.read_text())
    content["annotations"] = [a for a in content["annotations"] if a["image_id"] != 1]
    content["annotations"][0]["iscrowd"] = 1
    path.write_text(json.dumps(content))
    found = data.load("coco", tmp_path)
    assert len(found.train_labels) == 2  # the image without objects is left out
    assert found.num_classes == 81 and len(found.test_targets) == 3
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
        data.load(name, tmp_path)
    assert "\n" not in str(error.value)


VOC = "VOCdevkit/VOC2007"
XML = f"{VOC}/Annotations/2007_000000.xml"
COCO = "coco/annotations/instances_train2017.json"


def edit(path: str, pattern: str, new: str):
    """Damage: the first match of a pattern in a file is replaced."""

    def damage(root):
        text = (root / path).read_text()
        changed = re.sub(pattern, new, text, count=1)
        assert changed != text
        (root / path).write_text(changed)

    return damage


@pytest.mark.parametrize(
    "name, damage, message",
    [
        ("voc", edit(f"{VOC}/Annotations/2007_000000.xml", "</annotation>", ""), "2007_000000.xml"),
        ("voc", edit(f"{VOC}/Annotations/2007_000000.xml", r"<xmin>\d+", "<xmin>"), "float"),
        ("voc", edit(f"{VOC}/Annotations/2007_000000.xml", r"<name>\w+", "<name>whale"), "whale"),
        ("voc", lambda root: (root / f"{VOC}/JPEGImages/2007_000000.jpg").unlink(), "is not there"),
        ("voc", edit(f"{VOC}/ImageSets/Main/test.txt", r"(?s).*", ""), "no test images"),
        ("voc", edit(XML, r"<xmax>\d+", "<xmax>nan"), r"0.xml: box \(.*nan.*\) is not inside"),
        ("voc", edit(XML, r"<xmin>\d+", "<xmin>-9"), r"box \(-10, .* of 500 x 375 pixels"),
        ("coco", lambda root: (root / COCO).write_text("{"), "instances_"),
        ("coco", edit(COCO, r'"bbox": \[\d+', '"bbox": [Infinity'), r"annotation 1 of .* \(inf, "),
        ("coco", edit(COCO, r'"bbox": \[\d+', '"bbox": [9999'), "is not inside the image of 640"),
        ("coco", lambda root: (root / COCO).write_text("[]"), "not supported"),
        ("coco", edit(COCO, r'"bbox": \[[^]]*\]', '"bbox": null'), "NoneType"),
        ("coco", edit(COCO, r'"categories": \[\{[^}]*\}, ', '"categories": ['), "80 categories"),
        ("coco", lambda root: shutil.rmtree(root / "coco/val2017"), "val2017/.* is not there"),
    ],
)
def test_a_damaged_folder_is_one_line(name, damage, message, tmp_path):
    getattr(generated, name)(tmp_path, images=2)
    data.load(name, tmp_path)
    damage(tmp_path)
    with pytest.raises(data.DataUnavailable, match=message) as error:
        data.load(name, tmp_path)
    assert "can't be had" in str(error.value) and "\n" not in str(error.value)


def test_a_damaged_photograph_is_one_line_that_names_it(tmp_path):
    generated.coco(tmp_path, images=2)
    path = tmp_path / "coco/train2017/000000000001.jpg"
    path.write_bytes(path.read_bytes()[:3000])
    found = data.load("coco", tmp_path)
    with pytest.raises(data.DataUnavailable, match=r"000000000001\.jpg cannot be .*truncated"):
        found.train(1)


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
