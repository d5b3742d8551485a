"""Adding accuracies to a file while other processes do the same, or replace the file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import GOLDEN
from mipset import Accuracy, ChangedError, read
from mipset.file.saving import save_accuracy


def point(seed: int) -> Accuracy:
    return Accuracy(1, 50.0, 1.0, 3, "convnet", "quick", seed, "0" * 64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    copy = tmp_path / "set"
    copy.write_bytes(GOLDEN.read_bytes())
    return copy


def test_processes_that_save_at_the_same_time_lose_nothing(path: Path) -> None:
    """Each has opened the file itself, as processes have: locks belong to open files."""
    measured = read(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: save_accuracy(path, measured, [point(seed)]), range(40)))
    present = read(path)
    assert {p.seed for p in present.accuracy} >= set(range(40))
    assert np.array_equal(present.images, measured.images)
    assert [entry.name for entry in path.parent.iterdir()] == ["set"]


@pytest.mark.parametrize("change", ["images", "std", "shorter"])
def test_accuracies_of_old_images_are_not_written_over_new_ones(path: Path, change: str) -> None:
    measured = read(path)
    match change:
        case "images":
            other = replace(measured, images=255 - measured.images)
        case "std":
            other = replace(measured, std=tuple(2 * value for value in measured.std))
        case _:
            other = measured.prefix(1)
    other.write(path)
    written = path.read_bytes()
    with pytest.raises(ChangedError, match=r"set was replaced by another set .* were not saved\. Evaluate it again"):
        save_accuracy(path, measured, [point(0)])
    assert path.read_bytes() == written
    other.write(path)
    save_accuracy(path, other, [point(0)])  # a file that was written again with the same images is the same set
    assert point(0) in read(path).accuracy
