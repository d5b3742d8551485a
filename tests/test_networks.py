from __future__ import annotations

import pytest
import torch

from mipset.errors import SettingError
from mipset.networks import ConvNet, fresh


def test_convnet_3_has_the_parameters_of_the_paper() -> None:
    theta = ConvNet(3, 10, (32, 32))
    assert sum(p.numel() for p in theta.parameters()) == 320_010
    assert sum(p.numel() for name, p in theta.named_parameters() if "conv" in name and p.dim() == 4) == 298_368
    assert theta.features(torch.zeros(2, 3, 32, 32)).shape == (2, 2048)


@pytest.mark.parametrize(
    ("channels", "size", "width", "depth", "features"),
    [(1, (28, 28), 8, 3, 8 * 16), (3, (16, 24), 4, 2, 4 * 4 * 6), (1, (12, 12), 4, 1, 4 * 36)],
)
def test_any_channels_size_width_and_depth(
    channels: int, size: tuple[int, int], width: int, depth: int, features: int
) -> None:
    theta = ConvNet(channels, 5, size, width, depth)
    x = torch.randn(2, channels, *size)
    assert theta.features(x).shape == (2, features)
    assert torch.equal(theta(x), theta.scores(theta.features(x)))


def test_instance_norm_sees_each_image_alone() -> None:
    theta, x = ConvNet(3, 4, (8, 8), 4, 2), torch.randn(5, 3, 8, 8)
    torch.testing.assert_close(theta(x)[2:3], theta(x[2:3]))


def test_images_too_small_for_the_depth() -> None:
    with pytest.raises(SettingError, match=r"depth 3 .* 4 x 4"):
        ConvNet(3, 10, (4, 4), 8, 3)


def test_a_fresh_network_depends_on_its_key_alone() -> None:
    def weights(key: int) -> torch.Tensor:
        theta = fresh(lambda: ConvNet(3, 4, (8, 8), 4, 2), key, torch.device("cpu"))
        return torch.nn.utils.parameters_to_vector(theta.parameters())

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = weights(7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(weights(7), first)
    assert not torch.equal(weights(8), first)
