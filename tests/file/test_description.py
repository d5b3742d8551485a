"""Descriptions: contradictions are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from golden_set import SHAPE, golden_set, point
from mipset import Accuracy, Artifact, ArtifactError


class TestContradictions:
    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"images": np.zeros(SHAPE, np.float32)}, r"^The images are float32 \[3, 2, 1, 4, 5\]: they must be uint8"),
            ({"images": np.zeros(SHAPE[1:], np.uint8)}, r"^The images are uint8 \[2, 1, 4, 5\]: they must be"),
            ({"images": np.zeros((0, *SHAPE[1:]), np.uint8)}, "no side may be 0"),
            ({"class_names": ("cat",)}, "The images have 2 classes, but there are 1 class names"),
            ({"mean": (0.5, 0.5)}, "one value for each of 1 channels"),
            ({"std": ()}, "one value for each of 1 channels"),
            ({"mean": (float("nan"),)}, "must be finite"),
            ({"std": (0.0,)}, "the std must be above 0"),
            ({"std": (float("inf"),)}, "must be finite"),
            ({"factor": 0}, "The factor is 0, which does not divide 4 x 5 pixels"),
            ({"factor": 5}, "The factor is 5, which does not divide 4 x 5 pixels"),
            ({"factor": 17, "images": np.zeros((1, 2, 1, 34, 34), np.uint8)}, "The factor is 17, .* from 1 to 16"),
            (
                {"factor": 3},
                "The factor is 3, which does not divide 4 x 5 pixels",
            ),  # two tiles of 2 pixels leave none for the third
        ],
    )
    def test_fields_that_contradict_the_images_are_refused(self, changes: dict[str, Any], reason: str) -> None:
        with pytest.raises(ArtifactError, match=reason):
            Artifact(**{**vars(golden_set()), **changes})

    @pytest.mark.parametrize(
        "wrong",
        [
            Accuracy(4, 50.0, 0.0, 1, "", "", 0, ""),
            Accuracy(0, 50.0, 0.0, 1, "", "", 0, ""),
            Accuracy(1, 101.0, 0.0, 1, "", "", 0, ""),
            Accuracy(1, float("nan"), 0.0, 1, "", "", 0, ""),
            Accuracy(1, 50.0, -1.0, 1, "", "", 0, ""),
            Accuracy(1, 50.0, 0.0, 0, "", "", 0, ""),
            replace(point(1), epochs=0),
            replace(point(1), least_steps=-1),
            replace(point(1), batch=0),
            replace(point(1), batch=10**10),
        ],
    )
    def test_accuracy_point_that_is_not_valid_is_refused(self, wrong: Accuracy) -> None:
        with pytest.raises(ArtifactError, match="is not valid"):
            golden_set().with_accuracy([wrong])
