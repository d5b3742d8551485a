"""The score of DD-Ranking for a file of ours, by its real training at toy size."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from framework_parts import import_stand_in, need, noise
from mipset import Dataset
from mipset.data import Split
from mipset.evaluation.evaluate import decoded

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]  # timm and kornia have deprecated names

import_stand_in()
need("ddranking", "ddranking")

from ddranking.metrics import AugmentationRobustScore, hard_label  # noqa: E402
from ddranking.metrics.hard_label import LabelRobustScoreHard  # noqa: E402

from mipset.integrations.ddranking import LabelRobustScore, label_robust_score  # noqa: E402

CLASSES = 6  # ddranking measures the accuracy of the first five guesses too


def real(shape: tuple[int, int, int] = (3, 32, 32)) -> Dataset:
    """Eight images of each class, of which three are tested; class 0 is dark, the last one bright."""
    labels = np.arange(8 * CLASSES) % CLASSES
    images = np.random.default_rng(0).integers(0, 40, (len(labels), *shape)) + labels[:, None, None, None] * 40
    split = Split.of(images.astype(np.uint8), labels)
    test = split.at(np.arange(3 * CLASSES))
    names = tuple(f"class {c}" for c in range(CLASSES))
    return Dataset("levels", split, test, names, (0.5,) * shape[0], (0.25,) * shape[0])


def score(shape: tuple[int, int, int], size: int = 2) -> LabelRobustScore:
    short: dict[str, Any] = {"model_name": "ConvNet-1", "num_epochs": 10, "num_eval": 1}
    return label_robust_score(noise(CLASSES, shape=shape), real(shape), size, full_accuracy=90.0, **short)


def test_ddranking_trains_on_the_decoded_prefix_and_on_as_many_bytes_of_random_images(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    trained: list[tuple[torch.Tensor, torch.Tensor]] = []
    train = LabelRobustScoreHard._compute_hard_label_metrics

    def recording(self: Any, **given: Any) -> Any:
        trained.append((given["image_tensor"], given["hard_labels"]))
        return train(self, **given)

    monkeypatch.setattr(LabelRobustScoreHard, "_compute_hard_label_metrics", recording)
    before = hard_label.get_dataset, hard_label.save_results, dict(hard_label.REAL_DATA_ACC_CACHE)
    measured = score((3, 32, 32))
    expected, labels = decoded(noise(CLASSES).prefix(2), torch.device("cpu")).batch(slice(None))
    assert len(trained) == 10  # five learning rates for each of the two sets
    for images, classes in trained[:5]:
        torch.testing.assert_close(images, expected, rtol=0, atol=0)
        assert classes.tolist() == labels.tolist()
    for images, classes in trained[5:]:
        assert classes.tolist() == [c for c in range(CLASSES) for _ in range(2)]
        assert images.shape == (2 * CLASSES, 3, 32, 32)
    (recovery,), (improvement,) = measured.recovery, measured.improvement
    assert 0 <= 90.0 - recovery <= 100  # the accuracy of the condensed images
    assert 0 <= 90.0 - recovery - improvement <= 100  # and of the random ones
    assert (hard_label.get_dataset, hard_label.save_results, dict(hard_label.REAL_DATA_ACC_CACHE)) == before
    assert not list(tmp_path.iterdir())


def test_grey_images_of_28_pixels_are_scored() -> None:
    assert len(score((1, 28, 28), size=1).recovery) == 1


def test_score_is_the_formula_of_ddranking_on_shares() -> None:
    """LRS is 1 if the condensed images are as good as all and random ones useless; alpha = -0.05 by hand."""
    assert LabelRobustScore(recovery=(0.0,), improvement=(200.0,)).score == pytest.approx(1)
    expected = (math.exp(-0.05) - math.exp(-1)) / (math.e - math.exp(-1))
    assert LabelRobustScore(recovery=(20.0,), improvement=(10.0,)).score == pytest.approx(expected)


def test_this_version_cannot_score_augmentation_for_hard_labels() -> None:
    """docs/frameworks.md says why there is no ARS: it uses a loader that it never makes."""
    source = inspect.getsource(AugmentationRobustScore)
    assert "loader=self.test_loader_real" in source
    assert "self.test_loader_real =" not in source
