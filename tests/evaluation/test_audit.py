"""The leak check: the nearest real image is found, whatever else is there, and what is near is told by real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.packing import pack
from mipset.condensing.synthetic import formation
from mipset.data import Dataset, Split
from mipset.errors import DataError
from mipset.evaluation import audit as module
from mipset.evaluation.audit import audit, pairs
from mipset.file.artifact import Artifact
from mipset.settings.recipe import Recipe


def noise(count: int, classes: int, channels: int, size: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, channels, size, size), dtype=np.uint8)
    split = Split.of(images, np.arange(count) % classes)
    return Dataset("noise", split, split, tuple(map(str, range(classes))), (0.5,) * channels, (0.3,) * channels)


def file_of(images: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], factor: int) -> Artifact:
    channels = images.shape[2]
    names = tuple(map(str, range(images.shape[1])))
    return Artifact(images, factor, (0.5,) * channels, (0.3,) * channels, names)


@given(
    st.integers(5, 40),
    st.integers(2, 3),
    st.sampled_from([1, 3]),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(5, 8),
    st.integers(0, 99),
)
def test_against_brute_force(
    count: int, classes: int, channels: int, ranks: int, factor: int, side: int, seed: int
) -> None:
    data = noise(count, classes, channels, side, seed)
    rng = np.random.default_rng(seed + 1)
    artifact = file_of(rng.integers(0, 256, (ranks, classes, channels, side, side), dtype=np.uint8), factor)
    form = formation(factor)
    found = audit(artifact, data)
    assert len(found.found) == ranks * classes * factor**2
    for one in found.found:
        stored = torch.from_numpy(artifact.images[one.rank - 1, one.label])[None].float() / 255
        shown = form.decode(stored)[one.tile - 1]
        far = []
        for image in torch.from_numpy(data.train.images).float() / 255:
            coarse = form.decode(form.encode(image.expand(factor**2, -1, -1, -1)))[one.tile - 1]
            far.append(255 * float((shown - coarse).square().mean().sqrt()))
        assert one.distance == pytest.approx(min(far), rel=1e-3, abs=0.05)
        assert far[one.row] == pytest.approx(min(far), rel=1e-3, abs=0.05)
        assert one.real_label == data.train.labels[one.row]
    assert [one.distance for one in found.found] == sorted(one.distance for one in found.found)


def test_copies_are_found_and_are_suspicious() -> None:
    data = noise(60, 2, 3, 8, 0)
    rng = np.random.default_rng(5)
    images = rng.integers(0, 256, (3, 2, 3, 8, 8), dtype=np.uint8)
    images[2, 1] = data.train.images[17]
    found = audit(file_of(images, 1), data)
    first = found.found[0]
    assert (first.rank, first.label, first.tile, first.row) == (3, 1, 1, 17)
    assert first.distance < 0.1
    assert first.share == 0.0
    assert found.suspicious[0] == first
    assert found.usual > 50, "real images are not compared with themselves"


@pytest.mark.parametrize("side", [8, 9, 11])
def test_copies_are_found_in_every_tile(side: int) -> None:
    """Those at the edge hold fewer pixels where the factor does not divide the side."""
    data = noise(70, 2, 1, side, 0)
    images = torch.from_numpy(data.train.images[:36]).float() / 255
    stored = (formation(3).encode(images) * 255).round().byte().reshape(2, 2, 1, side, side).numpy()
    found = audit(file_of(stored, 3), data)
    assert len(found.suspicious) == 36
    for one in found.found:
        assert one.row == ((one.rank - 1) * 2 + one.label) * 9 + one.tile - 1
        assert one.distance < 0.5


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    data = noise(30, 3, 1, 6, 2)
    artifact = file_of(np.random.default_rng(0).integers(0, 256, (2, 3, 1, 6, 6), dtype=np.uint8), 2)
    whole = audit(artifact, data)
    shares: list[float] = []
    monkeypatch.setattr(module, "BLOCK", 8)
    parts = audit(artifact, data, progress=shares.append)
    assert [one.row for one in parts.found] == [one.row for one in whole.found]
    assert shares == pytest.approx([8 / 30, 16 / 30, 24 / 30, 1.0])


def test_what_has_not_moved_is_what_it_started_from(toy: Dataset, recipe: Recipe) -> None:
    """A condensation that does nothing leaves real images, and the check says so."""
    still = recipe.replace(pixel_lr=0.0, outer=1)
    *_, step = condense(assemble(still, toy))
    artifact = pack(step, still, toy)
    found = audit(artifact, toy)
    assert found.found[-1].distance < 1.0
    assert len(found.suspicious) == len(found.found)
    for one in found.found:
        members = np.flatnonzero(toy.train.labels == one.label)
        started_from = members[(one.rank - 1) * 4 + one.tile - 1]
        assert one.row == started_from


def test_pictures_show_both(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    from PIL import Image

    from mipset.display.pictures import side_by_side, write_picture

    *_, step = condense(assemble(recipe, toy))
    artifact = pack(step, recipe, toy)
    listed = audit(artifact, toy).found[:5]
    shown = pairs(artifact, toy, listed)
    assert shown.shape == (5, 2, 3, 12, 12)
    assert np.array_equal(shown[0, 1], toy.train.images[listed[0].row])
    write_picture(side_by_side(shown, ["caption"] * 5), tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.size[0] > 4 * 2 * 64


def test_other_images_are_refused(toy: Dataset) -> None:
    with pytest.raises(DataError, match="The file holds images of 1x6x6, but the images of toy are 3x12x12. Name"):
        audit(file_of(np.zeros((1, 2, 1, 6, 6), np.uint8), 1), toy)
