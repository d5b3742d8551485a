"""Networks of one's own: a function that makes a module with two methods condenses and is evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import mipset
from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.costs import cost
from mipset.condensing.packing import pack
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.evaluation.evaluate import Evaluation
from mipset.file.artifact import read
from mipset.settings.architecture import Architecture
from mipset.settings.protocol import protocol
from mipset.settings.recipe import Recipe

SOURCE = """
from torch import nn


class Small(nn.Module):
    def __init__(self, channels, classes, resolution, norm=lambda width: nn.GroupNorm(width, width)):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, 6, 3, stride=2), norm(6), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.last = nn.Linear(24, classes)

    def features(self, images):
        return self.body(images).flatten(1)

    def scores(self, features):
        return self.last(features)


def small(channels, classes, resolution):
    return Small(channels, classes, resolution)


def with_batch_norm(channels, classes, resolution):
    return Small(channels, classes, resolution, nn.BatchNorm2d)


class Twice(Small):
    def __init__(self, channels, classes, resolution):
        super().__init__(channels, classes, resolution)
        self.same = nn.Conv2d(channels, channels, 3, padding=1)

    def features(self, images):
        return super().features(self.same(self.same(images)))


def no_module(channels, classes, resolution):
    return nn.Linear(channels, classes)


def two_arguments(channels, classes):
    return None


number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """The name of a network in a module of the current folder."""
    (tmp_path / "own_nets.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "own_nets", raising=False)
    return lambda title: f"own_nets:{title}"


@pytest.mark.parametrize("objective", ["gradient", "feature"])
@pytest.mark.parametrize("title", ["Small", "small"])
def test_own_network_condenses_and_is_evaluated(
    toy: Dataset, recipe: Recipe, own: Callable[[str], str], tmp_path: Path, objective: str, title: str
) -> None:
    chosen = recipe.replace(network=own(title), objective=objective, policy="every-prefix")
    first = assemble(chosen, toy).S.pixels.clone()
    *_, step = condense(assemble(chosen, toy))
    assert step.loss > 0
    assert not torch.equal(step.parts.S.pixels, first)
    file = tmp_path / "own.safetensors"
    pack(step, chosen, toy).write(file)
    written = read(file)
    assert written.recipe["network"] == own(title)
    evaluation = Evaluation(written, toy, protocol("quick", epochs=1, least_steps=0), Architecture(own(title)))
    (score,) = evaluation.scores([1], networks=1)
    assert 0 <= score.accuracy <= 100
    (point,) = evaluation.curve([score])
    assert point.network == own(title)
    with pytest.raises(SettingError, match=r"which is not a part of mipset and is not taken from a file\. Choose"):
        list(Evaluation(written, toy).scores([1]))


def test_cost_of_an_own_network_is_counted(toy: Dataset, recipe: Recipe, own: Callable[[str], str]) -> None:
    counted = cost(recipe.replace(network=own("Small")), toy.shape, toy.classes, len(toy.train))
    assert counted.parameters == 3 * 9 * 6 + 6 + 2 * 6 + 24 * toy.classes + toy.classes
    assert counted.run_flops > 0


@pytest.mark.parametrize(
    ("title", "message"),
    [
        ("with_batch_norm", "gives an image other features in another batch, so it cannot be used to condense"),
        ("no_module", "gives a Linear: it must be a torch.nn.Module with the methods features(images) and"),
        ("two_arguments", "cannot be called with the channels, the classes and (height, width)"),
        ("number", "there is no function or class of this name"),
        ("missing", "there is no function or class of this name"),
    ],
)
def test_network_that_cannot_condense_is_refused(
    toy: Dataset, recipe: Recipe, own: Callable[[str], str], title: str, message: str
) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        assemble(recipe.replace(network=own(title)), toy)


def test_layer_that_is_used_twice_cannot_be_matched(toy: Dataset, recipe: Recipe, own: Callable[[str], str]) -> None:
    with pytest.raises(SettingError, match="uses each of its convolutions once"):
        next(condense(assemble(recipe.replace(network=own("Twice")), toy)))
    next(condense(assemble(recipe.replace(network=own("Twice"), objective="feature"), toy)))


def test_width_of_an_own_network_is_refused(own: Callable[[str], str]) -> None:
    with pytest.raises(SettingError, match=r"`width` needs `network` convnet or resnet-ap, not own_nets:small"):
        mipset.recipe("demo", network=own("small"), width=8)
