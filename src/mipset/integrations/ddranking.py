"""DD-Ranking: the label-robust score (LRS) of a size of a condensed set, from DD-Ranking's own training, on the CPU.

Networks, augmentation, learning rates and tests are those of `LabelRobustScoreHard` of ddranking 0.2.0. Three things
are given to it: the real images (it would download them by torchvision), the decoded images of S_[n], and their labels.
What it would write to a file is collected, because 0.2.0 cannot write it: its lists have different lengths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from mipset.data import Dataset, Split
from mipset.errors import SettingError
from mipset.evaluation.evaluate import decoded
from mipset.file.artifact import Artifact
from mipset.integrations import needing
from mipset.nn.training import Images

with needing("ddranking", "ddranking", "mipset.integrations.ddranking"):
    from ddranking.metrics import hard_label
    from ddranking.metrics.hard_label import LabelRobustScoreHard

CPU = torch.device("cpu")
NAME = "CIFAR10"  # by which ddranking finds how to train on real images, and that they are no files
CUTMIX = {"beta": 1.0}
LEAST_CLASSES = 5  # ddranking counts the best five guesses too


@dataclass(frozen=True)
class LabelRobustScore:
    """What DD-Ranking measured, one value for each of its runs, in percentage points."""

    recovery: tuple[float, ...]  # HLR: accuracy of all real images - accuracy of the condensed ones; less is better
    improvement: tuple[float, ...]  # IOR: accuracy of the condensed images - accuracy of as many random real ones

    @property
    def score(self) -> float:
        """LRS with w = 1/2, as DD-Ranking defines it: 0 to 1 for accuracies from 0 to 1. The mean over runs."""
        pairs = zip(self.improvement, self.recovery, strict=True)
        alphas = [(better - worse) / 2 / 100 for better, worse in pairs]
        return fmean((math.exp(alpha) - math.exp(-1)) / (math.e - math.exp(-1)) for alpha in alphas)


class _Pairs(TorchDataset[tuple[Tensor, int]]):
    """Normalised images of three channels, and their labels."""

    def __init__(self, images: Images) -> None:
        self.images, self.targets = images, images.labels.tolist()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        pixels, _ = self.images.batch(slice(index, index + 1))
        return _as_expected(pixels)[0], self.targets[index]


def label_robust_score(
    condensed: Artifact,
    data: Dataset,
    size: int,
    *,
    full_accuracy: float | None = None,
    model_name: str = "ConvNet-3",
    num_epochs: int = 300,
    num_eval: int = 5,
    **settings: Any,
) -> LabelRobustScore:
    """The score of S_[size]. Random real images are as many as the stored ones: they have the same bytes.

    `full_accuracy` is the accuracy, in percent, of the network trained on all real images. If it is None, DD-Ranking
    measures it, which takes long. `settings` are those of `LabelRobustScoreHard`, such as `lr_scheduler`.
    """
    key = f"{NAME}-{model_name}"
    _check(condensed, num_epochs, key, model_name, full_accuracy)
    images = decoded(condensed.prefix(size), CPU)
    normalised, labels = images.batch(slice(None))
    pixels = _as_expected(normalised)
    usual = {"data_aug_func": "cutmix", "aug_params": CUTMIX, "step_size": max(1, num_epochs // 2), "num_workers": 0}
    ordered = data.with_class_order(condensed.class_names)
    with TemporaryDirectory() as folder, _given(ordered, condensed, key, full_accuracy) as results:
        evaluator = LabelRobustScoreHard(
            dataset=NAME,
            ipc=size,
            model_name=model_name,
            num_epochs=num_epochs,
            num_eval=num_eval,
            im_size=tuple(pixels.shape[2:]),
            device="cpu",
            eval_full_data=full_accuracy is None,
            save_path=str(Path(folder) / "scores.csv"),
            random_data_path=folder,
            **{**usual, **settings},
        )
        evaluator.compute_metrics(image_tensor=pixels, hard_labels=labels)
    return LabelRobustScore(tuple(results["hard_label_recovery"]), tuple(results["improvement_over_random"]))


def _check(condensed: Artifact, num_epochs: int, key: str, model_name: str, full_accuracy: float | None) -> None:
    """Refuse at the start what ddranking fails at after hours."""
    if num_epochs < 10:
        raise SettingError(f"`num_epochs` is {num_epochs}: DD-Ranking tests after every 10 epochs. Choose at least 10.")
    classes = len(condensed.class_names)
    if classes < LEAST_CLASSES:
        raise SettingError(
            f"The set has {classes} classes: DD-Ranking counts the best five guesses, so it needs at least "
            f"{LEAST_CLASSES}. Choose another set."
        )
    known = [
        name.removeprefix(f"{NAME}-") for name in hard_label.REAL_DATA_TRAINING_CONFIG if name.startswith(f"{NAME}-")
    ]
    if full_accuracy is None and key not in hard_label.REAL_DATA_TRAINING_CONFIG:
        raise SettingError(
            f"`model_name` is {model_name!r}: DD-Ranking knows how to train {' and '.join(known)} on all real images. "
            "Choose one of them, or give `full_accuracy`, the accuracy of the network on all real images in percent."
        )


@contextmanager
def _given(
    data: Dataset, condensed: Artifact, key: str, full_accuracy: float | None
) -> Iterator[dict[str, Sequence[float]]]:
    """Give ddranking the real images, and the accuracy of all of them. Yields a dict that gets its results."""
    results: dict[str, Sequence[float]] = {}

    def pairs(split: Split) -> _Pairs:
        images, labels = torch.from_numpy(split.images), torch.from_numpy(split.labels)
        return _Pairs(Images.of(images, labels, condensed.mean, condensed.std, CPU))

    def get_dataset(*_: object) -> tuple[Any, ...]:
        classes, test = {number: number for number in range(data.classes)}, pairs(data.test)
        train = pairs(data.train)
        size = tuple(train[0][0].shape[1:])
        return 3, size, condensed.mean, condensed.std, data.classes, train, test, test, classes, classes

    def save_results(values: Mapping[str, Sequence[float]], _: str) -> None:
        results.update(values)

    with ExitStack() as stack:
        stack.enter_context(patch.object(hard_label, "get_dataset", get_dataset))
        stack.enter_context(patch.object(hard_label, "save_results", save_results))
        if full_accuracy is not None:
            stack.enter_context(patch.dict(hard_label.REAL_DATA_ACC_CACHE, {key: full_accuracy}))
        yield results


def _as_expected(pixels: Tensor) -> Tensor:
    """Images as the networks of ddranking expect them: three channels, and 32 pixels along a side in place of 28."""
    colour = pixels.expand(-1, 3, -1, -1) if pixels.shape[1] == 1 else pixels
    return F.pad(colour, (2, 2, 2, 2), mode="replicate") if colour.shape[2:] == (28, 28) else colour
