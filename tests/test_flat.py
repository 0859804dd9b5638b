"""FlatModel against the plain way: one module a worker, one `.backward()` after the other."""

import copy

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from expograph.networks import build
from expograph.networks import flat as flat_module
from expograph.networks.flat import FlatModel

SMALL = ("linear", "mlp", "cnn", "resnet8_bn", "resnet8_gn")


def flat(tensors):
    return torch.cat([t.detach().flatten() for t in tensors] or [torch.empty(0)])


def statistics(module):
    return flat(b for b in module.buffers() if b.is_floating_point())


def workers(module, n):
    """n copies that differ, in parameters and in buffers."""
    copies = [copy.deepcopy(module) for _ in range(n)]
    for one in copies:
        for p in one.parameters():
            p.data += 0.02 * torch.randn_like(p)
        for b in one.buffers():
            if b.is_floating_point():
                b += 0.1 * torch.rand_like(b)
    return copies


def loop(modules, images, labels):
    """Losses, flat gradients, flat buffers of modules run one by one."""
    losses, gradients = [], []
    for module, x, y in zip(modules, images, labels, strict=True):
        module.train()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        losses.append(loss.detach())
        gradients.append(flat(p.grad for p in module.parameters()))
    return torch.stack(losses), torch.stack(gradients), torch.stack(list(map(statistics, modules)))


def assert_relative(found, expected, tolerance):
    assert found.shape == expected.shape
    assert (found - expected).norm() <= tolerance * max(expected.norm(), 1e-12)


def check(module, n, images, labels, tolerance):
    """Gradients of n workers, evaluation of each, arguments left alone, all on one module."""
    model, modules = FlatModel(module), workers(module, n)
    x = torch.stack([flat(m.parameters()) for m in modules])
    buffers = torch.stack([statistics(m) for m in modules])
    arguments = x, buffers, images, labels
    before = [a.clone() for a in arguments]

    losses, gradients, new_buffers = model.loss_and_gradient(*arguments)
    assert all(map(torch.equal, arguments, before))
    expected = loop(modules, images, labels)
    assert_relative(losses, expected[0], tolerance)
    for found, wanted in zip(gradients, expected[1], strict=True):
        assert_relative(found, wanted, tolerance)
    assert_relative(new_buffers, expected[2], tolerance)
    assert not any(t.requires_grad for t in (losses, gradients, new_buffers))

    for i, one in enumerate(modules):
        logits = model.predict(x[i], new_buffers[i], images[i])
        with torch.no_grad():
            assert_relative(logits, one.eval()(images[i]), 10 * tolerance)
    assert all(map(torch.equal, arguments, before))


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", [*SMALL, "resnet20"])
def test_gradients_equal_a_loop_over_workers(name, n):
    torch.manual_seed(0)
    module = build(name, (12, 10, 2), 5).double()
    images = torch.randn(n, 6, 12, 10, 2, dtype=torch.float64)
    check(module, n, images, torch.randint(5, (n, 6)), 1e-10)


@pytest.mark.parametrize("name", SMALL)
def test_gradients_equal_a_loop_over_workers_in_single_precision(name):
    torch.manual_seed(0)
    images = torch.randn(4, 8, 28, 28, 1)
    check(build(name, (28, 28, 1), 10), 4, images, torch.randint(10, (4, 8)), 1e-5)


def test_torchvision_networks_with_torch_batch_norm_work_too():
    torch.manual_seed(0)
    module = torchvision.models.resnet18(num_classes=10).double()
    images = torch.randn(2, 4, 3, 32, 32, dtype=torch.float64)
    check(module, 2, images, torch.randint(10, (2, 4)), 1e-8)


def test_buffers_follow_over_several_steps():
    torch.manual_seed(0)
    module = build("resnet8_bn", (8, 8, 1), 3).double()
    model, plain = FlatModel(module), copy.deepcopy(module)
    x, buffers = (v[None] for v in model.initial())
    for _ in range(3):
        images, labels = torch.randn(1, 5, 8, 8, 1).double(), torch.randint(3, (1, 5))
        _, _, buffers = model.loss_and_gradient(x, buffers, images, labels)
        plain(images[0])
    torch.testing.assert_close(buffers[0], statistics(plain))


def test_flat_order_is_the_modules_and_decay_is_for_matrices():
    module = build("resnet8_bn", (8, 8, 1), 3)
    model = FlatModel(module)
    assert model.shapes == [(k, tuple(p.shape)) for k, p in module.named_parameters()]
    assert model.dim == sum(p.numel() for p in module.parameters())
    x, buffers = model.initial()
    assert model.num_buffers == len(buffers) > 0
    assert torch.equal(x, flat(module.parameters()))
    assert torch.equal(buffers, statistics(module))
    assert model.matrix_mask.shape == (model.dim,)
    start = 0
    for name, p in module.named_parameters():
        part = model.matrix_mask[start : start + p.numel()]
        start += p.numel()
        matrix = name.split(".")[-1] == "weight" and "norm" not in name
        assert bool(part.all()) == matrix and bool(part.any()) == matrix, name


def test_the_module_and_the_initial_values_are_copies():
    module = build("resnet8_bn", (8, 8, 1), 3)
    state = copy.deepcopy(module.eval().state_dict())
    model = FlatModel(module)
    x, buffers = model.initial()
    expected = x.clone(), buffers.clone()
    images, labels = torch.randn(1, 5, 8, 8, 1), torch.randint(3, (1, 5))
    model.loss_and_gradient(x[None], buffers[None], images, labels)
    x += 1
    buffers += 1
    assert all(map(torch.equal, model.initial(), expected))
    assert all(torch.equal(v, module.state_dict()[k]) for k, v in state.items())
    assert not module.training


def test_unused_parameters_have_zero_gradient():
    class Partly(nn.Linear):
        def forward(self, images):
            return images @ self.weight.T

    model = FlatModel(Partly(3, 2))
    x, buffers = (v[None] for v in model.initial())
    _, gradient, _ = model.loss_and_gradient(
        x, buffers, torch.randn(1, 4, 3), torch.randint(2, (1, 4))
    )
    assert gradient[0, :6].all() and not gradient[0, 6:].any()


def test_gradients_do_not_depend_on_the_callers_grad_mode():
    model = FlatModel(build("cnn", (8, 8, 1), 3))
    x, buffers = (v[None] for v in model.initial())
    batch = torch.randn(1, 5, 8, 8, 1), torch.randint(3, (1, 5))
    expected = model.loss_and_gradient(x, buffers, *batch)
    with torch.no_grad():
        assert all(map(torch.equal, model.loss_and_gradient(x, buffers, *batch), expected))


class Counting(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.register_buffer("steps", torch.tensor(0))


@pytest.mark.parametrize(
    "module, message",
    [
        (nn.Sequential(Counting()), "^0.steps is of torch.int64"),
        (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()), "^1.weight is of .*float64"),
        (nn.Sequential(nn.BatchNorm2d(2, momentum=None)), "^0 has momentum None"),
        (nn.Sequential(nn.ReLU()), "no parameters"),
    ],
)
def test_modules_that_do_not_fit_are_refused(module, message):
    with pytest.raises(ValueError, match=message):
        FlatModel(module)


@pytest.mark.parametrize(
    "layer, random",
    [
        (nn.Dropout(0.5), True),
        (torchvision.ops.StochasticDepth(0.5, "row"), True),
        (nn.Dropout(0.0), False),
    ],
)
def test_draws_come_from_the_seeds_alone(layer, random):
    torch.manual_seed(0)
    model = FlatModel(nn.Sequential(nn.Linear(6, 40), layer, nn.Linear(40, 3)))
    assert model.random == random
    x, buffers = (v.repeat(3, 1) for v in model.initial())
    images, labels = torch.randn(1, 5, 6).repeat(3, 1, 1), torch.randint(3, (1, 5)).repeat(3, 1)
    state = torch.random.get_rng_state()
    losses, gradients, _ = model.loss_and_gradient(x, buffers, images, labels, [1, 2, 1])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(gradients[0], gradients[2]) and losses[0] == losses[2]
    assert torch.equal(gradients[0], gradients[1]) != random
    # a rank that holds one worker sees what the row of all saw
    alone = model.loss_and_gradient(x[1:2], buffers[1:2], images[1:2], labels[1:2], [2])
    assert torch.allclose(alone[1][0], gradients[1])


def test_frozen_parameters_are_constants():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    module[0].requires_grad_(False)
    model = FlatModel(module)
    assert model.dim == 15 and [name for name, _ in model.shapes] == ["1.weight", "1.bias"]
    x, buffers = (v.repeat(2, 1) for v in model.initial())
    images, labels = torch.randn(2, 5, 6), torch.randint(3, (2, 5))
    _, gradients, _ = model.loss_and_gradient(x, buffers, images, labels)
    F.cross_entropy(module(images[1]), labels[1]).backward()
    torch.testing.assert_close(gradients[1], flat(p.grad for p in module[1].parameters()))


def test_any_loss_of_one_worker():
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    model = FlatModel(module)
    images = torch.randn(4, 3)
    loss, gradient, _ = model.of_one(*model.initial(), lambda net: net(images).square().sum())
    wanted = module(images).square().sum()
    wanted.backward()
    torch.testing.assert_close(loss, wanted.detach())
    torch.testing.assert_close(gradient, flat(p.grad for p in module.parameters()))


@pytest.mark.parametrize("threads, parts", [(1, 3), (2, 2)])
def test_blocks_of_workers_follow_from_the_threads_and_change_no_worker(
    monkeypatch, threads, parts
):
    monkeypatch.setitem(flat_module.BLOCK, "convolution", 2)
    model, before = FlatModel(build("resnet8_bn", (9, 9, 1), 4).double()), torch.get_num_threads()
    x, buffers = (t.repeat(5, 1) for t in model.initial())
    x = x + 0.05 * torch.randn_like(x)
    images, labels = torch.randn(5, 3, 9, 9, 1).double(), torch.randint(4, (5, 3))
    passes, of_block = [], model._of_block

    def counted(*arrays):
        passes.append(len(arrays[0]))
        return of_block(*arrays)

    try:
        torch.set_num_threads(threads)
        monkeypatch.setattr(model, "_of_block", counted)
        found = model.loss_and_gradient(x, buffers, images, labels)
        again = model.loss_and_gradient(x, buffers, images, labels)
    finally:
        torch.set_num_threads(before)
    assert len(passes) == 2 * parts
    whole = model.loss_and_gradient(x, buffers, images, labels, block=5)
    assert len(passes) == 2 * parts + 1
    for one, same, expected in zip(found, again, whole, strict=True):
        assert torch.equal(one, same)
        torch.testing.assert_close(one, expected)


@pytest.mark.parametrize("name", [*SMALL, "resnet20"])
def test_models_that_see_the_same_images_are_evaluated_together(name):
    model = FlatModel(build(name, (16, 16, 3), 5))
    x, buffers = (t.repeat(3, 1) for t in model.initial())
    x, images = x + 0.05 * torch.randn_like(x), torch.randn(4, 16, 16, 3)
    found = model.predict_all(x, buffers, images)
    expected = [model.predict(*one, images) for one in zip(x, buffers, strict=True)]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-5)
