"""Networks: parameters, shapes, and a plain transcription of ResNetAP."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mipset.errors import SettingError
from mipset.nn.augment import IDC, Operation
from mipset.nn.engines import Engine, Native
from mipset.nn.native import Kernels
from mipset.nn.networks import ConvNet, DenseNet, Network, ResNet, ResNetAP, builder, fresh
from mipset.nn.training import Images, Schedule, TrainingRule, accuracy, fit
from mipset.settings.architecture import NETWORKS, Architecture

CPU = torch.device("cpu")
NARROW = {"convnet": 4, "resnet": 4, "resnet-ap": 4, "densenet": 2}


def narrow(name: str, shape: tuple[int, int, int] = (3, 16, 16), key: int = 0) -> Network:
    """A small network of this architecture, for five classes."""
    return fresh(builder(Architecture(name, NARROW[name], NETWORKS[name].depth), shape, 5), key, CPU)


def parameters(theta: Network) -> int:
    return sum(p.numel() for p in theta.parameters())


def noise(count: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def test_convnet_3_has_the_parameters_of_the_paper() -> None:
    theta = ConvNet(3, 10, (32, 32))
    assert sum(p.numel() for p in theta.parameters()) == 320_010
    assert sum(p.numel() for name, p in theta.named_parameters() if "conv" in name and p.dim() == 4) == 298_368
    assert theta.features(torch.zeros(2, 3, 32, 32)).shape == (2, 2048)


@pytest.mark.parametrize(
    ("channels", "size", "width", "depth", "features"),
    [(1, (28, 28), 8, 3, 8 * 16), (3, (16, 24), 4, 2, 4 * 4 * 6), (1, (12, 12), 4, 1, 4 * 36)],
)
def test_convnet_of_any_channels_resolution_width_and_depth(
    channels: int, size: tuple[int, int], width: int, depth: int, features: int
) -> None:
    theta = ConvNet(channels, 5, size, width, depth)
    x = torch.randn(2, channels, *size)
    assert theta.features(x).shape == (2, features)
    assert torch.equal(theta(x), theta.scores(theta.features(x)))


def test_convnet_refuses_images_too_small_for_its_depth() -> None:
    with pytest.raises(SettingError, match=r"`depth` 3 .* 4 x 4 pixels are too few\. Choose a smaller `depth`"):
        ConvNet(3, 10, (4, 4), 8, 3)
    ConvNet(1, 2, (8, 8), depth=3)
    with pytest.raises(SettingError, match=r"`depth` 9223372036854775808 .* are too few"):  # at once
        ConvNet(1, 2, (4, 4), depth=2**63)


@pytest.mark.parametrize("name", NETWORKS)
def test_fresh_network_depends_on_its_key_only(name: str) -> None:
    def weights(key: int) -> torch.Tensor:
        return nn.utils.parameters_to_vector(narrow(name, key=key).parameters())

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = weights(7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(weights(7), first)
    assert not torch.equal(weights(8), first)


def resnet_parameters(stem: int, width: int, classes: int, depth: int) -> int:
    """By hand: convolutions without bias, and two numbers for each channel of a norm."""
    w = width
    total = stem * w + 2 * w + 2 * 9 * w * w + 2 * 2 * w  # the first stage has no convolution in its shortcut
    for u in (w, 2 * w, 4 * w):
        total += (9 + 1) * u * (2 * u) + 9 * (2 * u) ** 2 + 3 * 2 * (2 * u)
    if depth == 18:
        total += sum(2 * 9 * u * u + 2 * 2 * u for u in (w, 2 * w, 4 * w, 8 * w))
    return total + (8 * w + 1) * classes


@pytest.mark.parametrize("depth", [10, 18])
def test_number_of_parameters_of_resnets(depth: int) -> None:
    stem, large = 3 * 3 * 3, 3 * 7 * 7
    assert parameters(ResNet(3, 10, (32, 32), depth=depth)) == resnet_parameters(stem, 32, 10, depth)
    assert parameters(ResNet(1, 7, (28, 28), 6, depth)) == resnet_parameters(9, 6, 7, depth)
    assert parameters(ResNetAP(3, 10, (224, 224), depth=depth)) == resnet_parameters(large, 64, 10, depth)
    assert parameters(ResNetAP(3, 10, (64, 80), 8, depth)) == resnet_parameters(large, 8, 10, depth)
    assert parameters(ResNetAP(3, 10, (63, 80), 8, depth)) == resnet_parameters(stem, 8, 10, depth)


def test_number_of_parameters_of_a_densenet() -> None:
    growth, inner = 12, 4 * 12
    channels, total = 24, 3 * 9 * 24
    for block, layers in enumerate((6, 12, 24, 16)):
        for number in range(layers):
            before = channels + number * growth
            total += 2 * before + before * inner + 2 * inner + 9 * inner * growth
        channels += layers * growth
        if block < 3:
            total += 2 * channels + channels * (channels // 2)
            channels //= 2
    assert channels == 384
    total += 2 * channels + (channels + 1) * 10
    assert parameters(DenseNet(3, 10, (32, 32))) == total == 1_000_618


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 20, 33)], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_scores_are_the_classifier_of_features(name: str, shape: tuple[int, int, int]) -> None:
    theta, x = narrow(name, shape).eval(), noise(2, *shape)
    features = theta.features(x)
    assert features.dim() == 2
    if name != "convnet":
        assert features.shape == (2, {"resnet": 32, "resnet-ap": 32, "densenet": 64}[name])
    assert theta(x).shape == (2, 5)
    assert torch.equal(theta(x), theta.scores(features))


@pytest.mark.parametrize("name", NETWORKS)
def test_network_without_batch_norm_processes_each_image_alone(name: str) -> None:
    theta, x = narrow(name), noise(5, 3, 16, 16)
    together, alone = theta.features(x)[2:3], theta.features(x[2:3])
    if not NETWORKS[name].batch_norm:
        torch.testing.assert_close(together, alone)
    else:
        assert not torch.allclose(together, alone, atol=0.01)
        theta.eval()
        torch.testing.assert_close(theta.features(x)[2:3], theta.features(x[2:3]))


def by_the_book(weights: Mapping[str, Tensor], x: Tensor, large: bool) -> Tensor:
    """ResNetAP-10 in plain functions. In the shortcut the convolution comes first, where a stride would be."""

    def norm(x: Tensor, name: str) -> Tensor:
        return F.instance_norm(x, weight=weights[f"{name}.weight"], bias=weights[f"{name}.bias"])

    def convolve(x: Tensor, name: str, padding: int = 1) -> Tensor:
        return F.conv2d(x, weights[f"{name}.weight"], padding=padding)

    x = F.relu(norm(convolve(x, "stem.0", 3 if large else 1), "stem.1"))
    x = F.avg_pool2d(x, 4) if large else x
    for block in (f"blocks.{stage}" for stage in range(4)):
        inside = F.relu(norm(convolve(x, f"{block}.conv1"), f"{block}.norm1"))
        shortcut = x
        if block != "blocks.0":
            inside = F.avg_pool2d(inside, 2)
            shortcut = F.avg_pool2d(convolve(x, f"{block}.shortcut.1", 0), 2)
            shortcut = norm(shortcut, f"{block}.shortcut.2")
        x = F.relu(norm(convolve(inside, f"{block}.conv2"), f"{block}.norm2") + shortcut)
    return F.linear(x.mean(dim=(2, 3)), weights["classifier.weight"], weights["classifier.bias"])


@pytest.mark.parametrize("size", [(16, 17), (28, 28), (64, 64)], ids=str)
def test_resnet_ap_equals_a_plain_transcription(size: tuple[int, int]) -> None:
    theta, x = narrow("resnet-ap", (3, *size)).double(), noise(3, 3, *size).double()
    weights = dict(theta.named_parameters())
    scores, expected = theta(x), by_the_book(weights, x, large=size == (64, 64))
    torch.testing.assert_close(scores, expected)
    for ours, books in zip(
        *(torch.autograd.grad(output.square().sum(), list(weights.values())) for output in (scores, expected)),
        strict=True,
    ):
        torch.testing.assert_close(ours, books)


def test_convolutions_of_resnet_ap_start_as_in_the_release() -> None:
    """Gradients are inversely proportional to the weights before a norm, so the pixel learning rate depends on it."""
    theta = fresh(builder(Architecture("resnet-ap", 32, 10), (3, 64, 64), 10), 0, CPU)
    for layer in (module for module in theta.modules() if isinstance(module, nn.Conv2d)):
        assert layer.bias is None
        expected = (2 / (layer.out_channels * layer.kernel_size[0] ** 2)) ** 0.5
        assert float(layer.weight.detach().std()) == pytest.approx(expected, rel=0.1)


def test_resnet_halves_images_in_its_last_three_stages() -> None:
    theta = ResNet(3, 10, (32, 32), 4)
    x = theta.stem(noise(1, 3, 32, 32))
    sizes = []
    for block in theta.blocks:
        x = block(x)
        sizes.append(tuple(x.shape[1:]))
    assert sizes == [(4, 32, 32), (8, 16, 16), (16, 8, 8), (32, 4, 4)]
    assert sum(module.stride == (2, 2) for module in theta.modules() if isinstance(module, nn.Conv2d)) == 6


@pytest.mark.parametrize(
    ("name", "depth", "message"),
    [
        ("resnet", 3, r"`depth` is 3: a ResNet has 10 or 18 layers\."),
        ("resnet-ap", 50, r"`depth` is 50: a ResNet has 10 or 18 layers\."),
        ("densenet", 10, r"`depth` is 10: a DenseNet has 121 layers\."),
    ],
)
def test_unknown_depth_is_refused(name: str, depth: int, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        builder(Architecture(name, 4, depth), (3, 32, 32), 10)()


LEAST = {"resnet": 9, "resnet-ap": 16, "densenet": 16}


@pytest.mark.parametrize("name", LEAST)
def test_images_too_small_for_the_last_norm_are_refused(name: str) -> None:
    least = LEAST[name]
    with pytest.raises(SettingError, match=rf"at least {least} x {least} pixels, not {least} x {least - 1}\. Choose"):
        narrow(name, (3, least, least - 1))


@pytest.mark.parametrize("name", LEAST)
def test_batch_of_one_smallest_image_can_be_learned(name: str) -> None:
    """Torch refuses batch norm of one value, which one image of one pixel would be."""
    shape = (3, LEAST[name], LEAST[name])
    images = Images.of(noise(9, *shape).sigmoid(), torch.arange(9) % 5, (0.5,) * 3, (0.3,) * 3, CPU)
    rule = TrainingRule(0.01, 0.9, 5e-4, IDC((Operation.COLOR,)), mix=0.5)
    theta = narrow(name, shape)
    assert list(fit(theta, images, rule, Schedule(epochs=2, batch=4), 0)) == [1, 2]
    assert all(bool(values.isfinite().all()) for values in theta.state_dict().values())
    features = theta.features(images.batch(slice(None))[0]).detach()
    assert features.std(dim=0).mean() > 0.05  # the last norm leaves something to tell images apart by
    assert 0 <= accuracy(theta, images) <= 100


@pytest.mark.parametrize(("name", "width"), [("resnet", 16), ("resnet-ap", 16), ("densenet", 4)])
def test_compiled_kernels_equal_torch_for_every_network(kernels: Kernels, name: str, width: int) -> None:
    def computed(engine: Engine) -> tuple[Tensor, Tensor]:
        theta = fresh(builder(Architecture(name, width, NETWORKS[name].depth), (3, 16, 16), 5, engine), 3, CPU)
        scores = theta(noise(3, 3, 16, 16))
        gradients = torch.autograd.grad(F.cross_entropy(scores, torch.arange(3)), list(theta.parameters()))
        return scores.detach(), torch.cat([gradient.flatten() for gradient in gradients])

    (scores, gradients), (expected, slopes) = computed(Native(kernels)), computed(Engine())
    torch.testing.assert_close(scores, expected, rtol=1e-3, atol=1e-3)
    assert (gradients - slopes).norm() < 0.05 * slopes.norm()  # rounding turns a few ReLUs on or off


@pytest.mark.parametrize("name", ["convnet", "resnet-ap"])
def test_hidden_features_are_the_input_of_the_last_block(name: str) -> None:
    theta = builder(Architecture(name, 4, 3 if name == "convnet" else 10), (3, 16, 16), 5)()
    assert isinstance(theta.classifier, nn.Linear)
    hidden, features = theta.hidden_and_features(torch.randn(2, 3, 16, 16))
    assert hidden.shape == ((2, 4, 4, 4) if name == "convnet" else (2, 16, 4, 4))
    assert features.shape == (2, theta.classifier.in_features)


def test_network_without_hidden_features_says_so() -> None:
    theta = builder(Architecture("densenet", 4, 121), (3, 32, 32), 5)()
    with pytest.raises(SettingError, match="DenseNet has no hidden features"):
        theta.hidden_and_features(torch.randn(1, 3, 32, 32))
