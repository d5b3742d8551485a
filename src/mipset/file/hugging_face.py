"""Training images as a dataset of Hugging Face `datasets`, imported only here and when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mipset.errors import ArtifactError, missing
from mipset.file.pixels import Pixels, to_uint8
from mipset.file.training_images import TrainingImages

if TYPE_CHECKING:
    from datasets import Dataset


def hf_dataset(images: TrainingImages) -> Dataset:
    """A dataset with the columns `image` (a picture) and `label` (with the class names), as an export to Parquet has.

    Values are rounded to bytes, so they differ by at most 1/510.
    """
    try:
        import datasets
    except ImportError as error:
        raise missing("datasets", "A dataset of Hugging Face") from error
    channels = images.shape[0]
    if channels not in (1, 3):
        raise ArtifactError(f"Images of {channels} channels cannot be pictures, which need 1 or 3. Export to npz.")
    names = distinct_names(images.class_names)
    numbers = range(len(images))
    return datasets.Dataset.from_dict(
        {
            "image": [_picture(to_uint8(images.values(number))) for number in numbers],
            "label": [images.label(number) for number in numbers],
        },
        features=datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=names)}),
    )


def _picture(pixels: Pixels) -> Pixels:
    """Pixels [ch, h, w] in the order of pictures: [h, w] or [h, w, ch]."""
    return pixels[0] if len(pixels) == 1 else np.ascontiguousarray(np.moveaxis(pixels, 0, -1))


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names as valid Unicode, all different: a second `cat` becomes `cat (2)`."""
    last_numbers: dict[str, int] = {}  # of each name so far, in their order
    for name in names:
        candidate = valid = name.encode("utf-8", "replace").decode("utf-8")
        while candidate in last_numbers:
            last_numbers[valid] += 1
            candidate = f"{valid} ({last_numbers[valid]})"
        last_numbers[candidate] = 1
    return list(last_numbers)
