"""The networks' layers against torch's own, which they promise to equal."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from expograph.networks import MODELS, build
from expograph.networks.small import (
    BatchNorm,
    Beside,
    Classifier,
    Conv2d,
    GroupNorm,
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


N = 3  # workers


def beside(images):
    """(n, B, C, H, W) -> (B, n C, H, W), channels_last: how the layers have them."""
    return images.movedim(0, 1).flatten(1, 2).contiguous(memory_format=torch.channels_last)


def apart(images):
    """(B, n C, H, W) -> (n, B, C, H, W)."""
    return images.unflatten(1, (N, -1)).movedim(1, 0)


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def assert_equal_with_derivatives(found, expected, leaves):
    torch.testing.assert_close(found, expected)
    direction = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, leaves, direction),
        torch.autograd.grad(expected, leaves, direction),
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel, stride, padding, height, width", GEOMETRIES)
def test_convolution_equals_torchs_for_each_worker(kernel, stride, padding, height, width, bias):
    layer = Conv2d(3, 4, kernel, stride, padding, bias=bias)
    images, weight = random(N, 5, 3, height, width), random(N, 4, 3, kernel, kernel)
    biases = random(N, 4) if bias else [None] * N
    given = {"weight": weight} | ({"bias": biases} if bias else {})
    found = apart(functional_call(layer, given, (beside(images),)))
    each = zip(images, weight, biases, strict=True)
    expected = torch.stack([F.conv2d(*one, stride, padding) for one in each])
    assert_equal_with_derivatives(found, expected, [images, *given.values()])


def test_models_that_see_the_same_images_share_them():
    layer, images, weight = Conv2d(3, 4, 3, 2, 1), random(5, 3, 7, 8), random(N, 4, 3, 3, 3)
    given = {"weight": weight, "bias": random(N, 4)}
    found = apart(functional_call(layer, given, (images,)))
    expected = [F.conv2d(images, w, b, 2, 1) for w, b in zip(*given.values(), strict=True)]
    torch.testing.assert_close(found, torch.stack(expected))


def test_convolution_weights_are_drawn_as_he_et_al_say():
    torch.manual_seed(0)
    layer = Conv2d(16, 200, 3)
    assert layer.weight.var().item() == pytest.approx(2 / (16 * 9), rel=0.03)
    assert not layer.bias.any()


def test_batch_norm_equals_torchs_for_each_worker_over_several_steps():
    layer, theirs = BatchNorm(4), [nn.BatchNorm2d(4).double() for _ in range(N)]
    weight, bias = random(N, 4), random(N, 4)
    mean, variance = torch.zeros(N, 4).double(), torch.ones(N, 4).double()
    given = {"weight": weight, "bias": bias, "running_mean": mean, "running_var": variance}
    for _ in range(4):
        images = random(N, 5, 4, 3, 2) * 3 + 1
        found = apart(functional_call(layer, given, (beside(images),)))
        expected = torch.stack(
            [
                functional_call(one, {"weight": w, "bias": b}, (image,))
                for one, w, b, image in zip(theirs, weight, bias, images, strict=True)
            ]
        )
        assert_equal_with_derivatives(found, expected, [images, weight, bias])
        torch.testing.assert_close(mean, torch.stack([one.running_mean for one in theirs]))
        torch.testing.assert_close(variance, torch.stack([one.running_var for one in theirs]))


def test_batch_norm_statistics_by_hand():
    layer, images = BatchNorm(2), torch.randn(5, 2, 3, 4)
    rows = images.movedim(1, 0).flatten(1)
    normalised = layer(images).movedim(1, 0).flatten(1)
    torch.testing.assert_close(normalised.mean(1), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(normalised.var(1, correction=0), torch.ones(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(layer.running_mean, 0.1 * rows.mean(1))
    torch.testing.assert_close(layer.running_var, 0.9 + 0.1 * rows.var(1, correction=1))


@pytest.mark.parametrize("groups, channels", [(1, 4), (2, 4), (4, 4), (4, 8)])
def test_group_norm_equals_torchs_for_each_worker(groups, channels):
    layer = GroupNorm(groups, channels)
    images, weight, bias = random(N, 5, channels, 4, 3), random(N, channels), random(N, channels)
    given = {"weight": weight, "bias": bias}
    found = apart(functional_call(layer, given, (beside(images),)))
    each = zip(images, weight, bias, strict=True)
    expected = torch.stack([F.group_norm(i, groups, w, b, layer.eps) for i, w, b in each])
    assert_equal_with_derivatives(found, expected, [images, weight, bias])


def test_classifier_equals_torchs_for_each_worker_and_its_derivative_is_channels_last():
    images, weight, bias = random(N, 5, 4, 3, 2), random(N, 7, 24), random(N, 7)
    layer, given = Classifier(24, 7), {"weight": weight, "bias": bias}
    given_images = beside(images)
    found = functional_call(layer, given, (given_images,))
    each = zip(images.flatten(2), weight, bias, strict=True)
    expected = torch.stack([F.linear(*one) for one in each])
    assert_equal_with_derivatives(found, expected, [images, weight, bias])
    logits = functional_call(layer, given, (given_images,))
    (gradient,) = torch.autograd.grad(logits.sum(), given_images)
    assert gradient.is_contiguous(memory_format=torch.channels_last)


def test_images_of_workers_are_laid_beside_each_other_as_channels():
    images = torch.randn(N, 5, 4, 3, 2)  # (n, B, H, W, C)
    found = Beside()(images)
    assert torch.equal(apart(found), images.movedim(-1, 2))
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(Beside()(images[0]), images[0].permute(0, 3, 1, 2))


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
