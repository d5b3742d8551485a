"""What the adapter of DD-Ranking refuses at the start, without the library: a module of its name is there instead."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from framework_parts import noise
from mipset import SettingError
from mipset.data import load

ADAPTER = "mipset.integrations.ddranking"


@pytest.fixture
def score(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The function of the adapter. Work of ddranking would be an AttributeError."""
    for name in ("ddranking", "ddranking.metrics", "ddranking.metrics.hard_label"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    hard_label: Any = sys.modules["ddranking.metrics.hard_label"]
    hard_label.LabelRobustScoreHard = None
    names = ("CIFAR10-ConvNet-3", "CIFAR10-ConvNet-3-BN", "TinyImageNet-ConvNet-4-BN")
    hard_label.REAL_DATA_TRAINING_CONFIG = dict.fromkeys(names)
    sys.modules["ddranking.metrics"].hard_label = hard_label  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, ADAPTER, raising=False)
    function: Callable[..., Any] = import_module(ADAPTER).label_robust_score
    monkeypatch.delitem(sys.modules, ADAPTER)  # afterwards, it is as it was before
    return function


@pytest.mark.parametrize(
    ("classes", "given", "message"),
    [
        (4, {}, r"^The set has 4 classes: DD-Ranking counts the best five guesses, so it needs at least 5\. Choose"),
        (5, {"model_name": "ResNet-18"}, r"^`model_name` is 'ResNet-18': .* train ConvNet-3 and ConvNet-3-BN on all"),
        (5, {"num_epochs": 9}, "^`num_epochs` is 9: DD-Ranking tests after every 10 epochs"),
    ],
)
def test_what_would_fail_late_is_refused_at_the_start(
    score: Callable[..., Any], classes: int, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        score(noise(classes), load("fashion-mini"), 1, **given)


@pytest.mark.parametrize("given", [{}, {"model_name": "ResNet-18", "full_accuracy": 90.0}])
def test_what_ddranking_can_do_is_not_refused(score: Callable[..., Any], given: dict[str, Any]) -> None:
    data = replace(load("fashion-mini"), class_names=noise(10).class_names)
    with pytest.raises(AttributeError, match="get_dataset"):  # of the empty module
        score(noise(10), data, 1, **given)
