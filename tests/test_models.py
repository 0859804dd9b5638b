"""The networks' layers against torch's own, which they promise to equal."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import vmap

from expograph.networks import MODELS, build
from expograph.networks.small import (
    BatchLast,
    BatchNorm,
    Classifier,
    Conv2d,
    GroupNorm,
    Patches,
)

GEOMETRIES = [  # (kernel, stride, padding, height, width), what divides evenly and what does not
    (1, 1, 0, 5, 4),
    (1, 2, 0, 8, 7),
    (2, 2, 0, 6, 5),
    (3, 1, 1, 7, 8),
    (3, 2, 1, 14, 14),
    (3, 2, 1, 9, 6),
    (3, 2, 0, 8, 9),
    (3, 3, 2, 1, 2),  # the padding is wider than the image
    (4, 3, 1, 9, 10),
    (5, 1, 2, 3, 6),
    (5, 4, 3, 11, 9),
]


def batch_last(images):
    """(B, C, H, W) -> (C, H, W, B)."""
    return images.permute(1, 2, 3, 0)


def batch_first(images):
    """(C, H, W, B) -> (B, C, H, W)."""
    return images.permute(3, 0, 1, 2)


def test_a_patch_holds_the_pixels_under_the_kernel():
    images = torch.arange(12.0).reshape(1, 3, 4, 1)
    patches = Patches.apply(images, 3, 2, 1)
    assert patches.shape == (1, 3, 3, 2, 2, 1)
    corner = torch.tensor([[0.0, 0, 0], [0, 0, 1], [0, 4, 5]])
    assert torch.equal(patches[0, :, :, 0, 0, 0], corner)
    inner = torch.tensor([[5.0, 6, 7], [9, 10, 11], [0, 0, 0]])
    assert torch.equal(patches[0, :, :, 1, 1, 0], inner)


@pytest.mark.parametrize("kernel, stride, padding, height, width", GEOMETRIES)
def test_patches_have_the_derivatives_that_finite_differences_give(
    kernel, stride, padding, height, width
):
    images = torch.randn(2, height, width, 2, dtype=torch.float64, requires_grad=True)

    def patches(x):
        return Patches.apply(x, kernel, stride, padding)

    assert torch.autograd.gradcheck(patches, images, fast_mode=True)
    assert torch.autograd.gradgradcheck(patches, images, fast_mode=True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel, stride, padding, height, width", GEOMETRIES)
def test_convolution_equals_torch(kernel, stride, padding, height, width, bias):
    layer = Conv2d(3, 4, kernel, stride, padding, bias=bias).double()
    if bias:
        nn.init.normal_(layer.bias)
    images = torch.randn(5, 3, height, width, dtype=torch.float64, requires_grad=True)
    ours = batch_first(layer(batch_last(images)))
    theirs = F.conv2d(images, layer.weight, layer.bias, stride, padding)
    torch.testing.assert_close(ours, theirs)
    leaves = [images, *layer.parameters()]
    direction = torch.randn_like(theirs)
    torch.testing.assert_close(
        torch.autograd.grad(ours, leaves, direction),
        torch.autograd.grad(theirs, leaves, direction),
    )


def test_convolution_of_stacked_workers_equals_a_loop_over_them():
    images = torch.randn(3, 2, 7, 6, 4, dtype=torch.float64)  # (n, C, H, W, B)
    weight = torch.randn(3, 5, 2, 3, 3, dtype=torch.float64)
    layer = Conv2d(2, 5, 3, 2, 1).double()

    def loss(weight, images):
        return torch.func.functional_call(layer, {"weight": weight}, (images,)).square().sum()

    found = vmap(torch.func.grad(loss, argnums=(0, 1)))(weight, images)
    for i in range(3):
        expected = torch.func.grad(loss, argnums=(0, 1))(weight[i], images[i])
        torch.testing.assert_close(tuple(g[i] for g in found), expected)


def test_convolution_weights_are_drawn_as_he_et_al_say():
    torch.manual_seed(0)
    layer = Conv2d(16, 200, 3)
    assert layer.weight.var().item() == pytest.approx(2 / (16 * 9), rel=0.03)
    assert not layer.bias.any()


def test_batch_norm_equals_torch_over_several_steps():
    ours, theirs = BatchNorm(3).double(), nn.BatchNorm2d(3).double()
    for layer in (ours, theirs):
        nn.init.uniform_(layer.weight, generator=torch.Generator().manual_seed(1))
        nn.init.uniform_(layer.bias, generator=torch.Generator().manual_seed(2))
    for _ in range(4):
        images = torch.randn(5, 3, 4, 2, dtype=torch.float64) * 3 + 1
        images.requires_grad_()
        direction = torch.randn_like(images)
        found, expected = batch_first(ours(batch_last(images))), theirs(images)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(
            torch.autograd.grad(found, [images, *ours.parameters()], direction),
            torch.autograd.grad(expected, [images, *theirs.parameters()], direction),
        )
        torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()))
    ours.eval(), theirs.eval()
    torch.testing.assert_close(batch_first(ours(batch_last(images))), theirs(images))


def test_batch_norm_statistics_by_hand():
    layer, images = BatchNorm(2), torch.randn(2, 3, 4, 5)
    normalised = layer(images).flatten(1)
    torch.testing.assert_close(normalised.mean(1), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(normalised.var(1, correction=0), torch.ones(2), atol=1e-4, rtol=0)
    rows = images.flatten(1)
    torch.testing.assert_close(layer.running_mean, 0.1 * rows.mean(1))
    torch.testing.assert_close(layer.running_var, 0.9 + 0.1 * rows.var(1, correction=1))


@pytest.mark.parametrize("groups, channels", [(1, 4), (2, 4), (4, 4), (4, 8)])
def test_group_norm_equals_torch(groups, channels):
    ours = GroupNorm(groups, channels).double()
    nn.init.uniform_(ours.weight), nn.init.uniform_(ours.bias)
    images = torch.randn(3, channels, 4, 5, dtype=torch.float64, requires_grad=True) * 2 + 1
    found = batch_first(ours(batch_last(images)))
    expected = F.group_norm(images, groups, ours.weight, ours.bias, ours.eps)
    torch.testing.assert_close(found, expected)
    leaves, direction = [images, *ours.parameters()], torch.randn_like(images)
    torch.testing.assert_close(
        torch.autograd.grad(found, leaves, direction),
        torch.autograd.grad(expected, leaves, direction),
    )


def test_the_ends_only_move_axes():
    images = torch.randn(5, 4, 3, 2)
    assert torch.equal(BatchLast()(images), images.permute(3, 1, 2, 0))
    layer = Classifier(24, 10)
    features = torch.randn(5, 2, 4, 3)
    expected = F.linear(features.flatten(1), layer.weight, layer.bias)
    torch.testing.assert_close(layer(batch_last(features)), expected)


class Block(nn.Module):
    """The residual block of He et al. with shortcut A, on NCHW, in torch's own layers."""

    def __init__(self, inputs, outputs, stride, norm):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = norm(outputs)
        self.stride = stride

    def forward(self, x):
        y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
        shortcut = torch.zeros_like(y)
        shortcut[:, : x.shape[1]] = F.avg_pool2d(x, 1, self.stride)  # every stride-th pixel
        return (y + shortcut).relu()


class ChannelsFirst(nn.Module):
    def forward(self, images):
        return images.permute(0, 3, 1, 2)


def in_torch_layers(name, shape, classes):
    """The network of that name out of torch's layers only, NHWC in, as the docstrings say it."""
    height, width, channels = shape
    if name == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(height * width * channels, classes))
    if name == "mlp":
        first = nn.Linear(height * width * channels, 64)
        return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(64, classes))
    if name == "cnn":
        return nn.Sequential(
            ChannelsFirst(),
            nn.Conv2d(channels, 16, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.LazyLinear(classes),
        )
    norm = {"resnet8_bn": nn.BatchNorm2d, "resnet8_gn": lambda c: nn.GroupNorm(4, c)}[name]
    return nn.Sequential(
        ChannelsFirst(),
        nn.Conv2d(channels, 16, 4, 4, bias=False),
        norm(16),
        nn.ReLU(),
        Block(16, 16, 1, norm),
        Block(16, 32, 2, norm),
        Block(32, 64, 2, norm),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


SMALL = ("linear", "mlp", "cnn", "resnet8_bn", "resnet8_gn")


@pytest.mark.parametrize(
    "name, side, classes, millions",
    [
        ("resnet20", 32, 10, 0.27),  # as in He et al. 2016, table 6
        ("resnet56", 32, 10, 0.85),
        ("resnet50", 64, 1000, 25.6),
        ("mobilenet_v2", 64, 1000, 3.5),
        ("efficientnet_b0", 64, 1000, 5.3),
    ],
)
def test_the_papers_networks_have_their_size(name, side, classes, millions):
    network = build(name, (side, side, 3), classes).eval()
    count = sum(p.numel() for p in network.parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.05)
    assert network(torch.randn(2, side, side, 3)).shape == (2, classes)


def test_resnet56_has_55_convolutions_and_shortcuts_without_parameters():
    network = build("resnet56", (32, 32, 3), 10)
    assert sum(isinstance(m, nn.Conv2d) for m in network.modules()) == 55
    block = network.stages[9]  # the first of 32 channels
    with torch.no_grad():  # a residual of zero leaves the shortcut
        block.norm2.weight.zero_()
        image = torch.rand(1, 16, 8, 8)
        found = block(image)
    assert torch.equal(found[:, 8:24], image[:, :, ::2, ::2])
    assert not found[:, :8].any() and not found[:, 24:].any()


@pytest.mark.parametrize("shape", [(28, 28, 1), (9, 10, 3)])
@pytest.mark.parametrize("name", SMALL)
def test_networks_equal_the_same_in_torch_layers(name, shape):
    ours, theirs = build(name, shape, 7).double(), in_torch_layers(name, shape, 7).double()
    images = torch.randn(6, *shape, dtype=torch.float64)
    theirs(images[:2])  # gives the lazy layer its shape
    names = list(theirs.state_dict())
    theirs.load_state_dict(dict(zip(names, ours.state_dict().values(), strict=True)))
    for _ in range(2):
        found, expected = ours(images), theirs(images)
        assert found.shape == (6, 7)
        torch.testing.assert_close(found, expected)
    losses = [F.cross_entropy(logits, torch.arange(6)) for logits in (found, expected)]
    torch.testing.assert_close(
        torch.autograd.grad(losses[0], list(ours.parameters())),
        torch.autograd.grad(losses[1], list(theirs.parameters())),
    )
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(images), theirs(images))


def test_an_unknown_model_names_the_known_and_the_closest():
    with pytest.raises(ValueError, match="unknown model 'resnet8'") as error:
        build("resnet8", (28, 28, 1), 10)
    assert ", ".join(MODELS) in str(error.value)
    assert "did you mean 'resnet8_" in str(error.value)
    with pytest.raises(ValueError, match="unknown model 'xyz'") as error:
        build("xyz", (28, 28, 1), 10)
    assert "did you mean" not in str(error.value)
