"""The leak check finds the nearest real image, and compares its distance with those between real images."""

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
    st.integers(6, 40),
    st.integers(2, 3),
    st.sampled_from([1, 3]),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(5, 8),
    st.integers(0, 99),
)
def test_audit_equals_brute_force(
    count: int, classes: int, channels: int, ranks: int, factor: int, side: int, seed: int
) -> None:
    data = noise(count, classes, channels, side, seed)
    rng = np.random.default_rng(seed + 1)
    artifact = file_of(rng.integers(0, 256, (ranks, classes, channels, side, side), dtype=np.uint8), factor)
    form = formation(factor)
    report = audit(artifact, data)
    assert len(report.neighbours) == ranks * classes * factor**2
    for neighbour in report.neighbours:
        stored = torch.from_numpy(artifact.images[neighbour.rank - 1, neighbour.label])[None].float() / 255
        shown = form.decode(stored)[neighbour.tile - 1]
        far = []
        for image in torch.from_numpy(data.train.images).float() / 255:
            coarse = form.decode(form.encode(image.expand(factor**2, -1, -1, -1)))[neighbour.tile - 1]
            far.append(255 * float((shown - coarse).square().mean().sqrt()))
        assert neighbour.distance == pytest.approx(min(far), rel=1e-3, abs=0.05)
        assert far[neighbour.row] == pytest.approx(min(far), rel=1e-3, abs=0.05)
        assert neighbour.real_label == data.train.labels[neighbour.row]
    distances = [neighbour.distance for neighbour in report.neighbours]
    assert distances == sorted(distances)


def test_copies_of_real_images_are_suspicious() -> None:
    data = noise(60, 2, 3, 8, 0)
    rng = np.random.default_rng(5)
    images = rng.integers(0, 256, (3, 2, 3, 8, 8), dtype=np.uint8)
    images[2, 1] = data.train.images[17]
    report = audit(file_of(images, 1), data)
    first = report.neighbours[0]
    assert (first.rank, first.label, first.tile, first.row) == (3, 1, 1, 17)
    assert first.distance < 0.1
    assert first.share == 0.0
    assert report.suspicious[0] == first
    assert report.usual > 50, "real images are not compared with themselves"


@pytest.mark.parametrize("side", [8, 9, 11])
def test_copies_are_found_in_every_tile(side: int) -> None:
    """Those at the edge hold fewer pixels where the factor does not divide the side."""
    data = noise(70, 2, 1, side, 0)
    images = torch.from_numpy(data.train.images[:36]).float() / 255
    stored = (formation(3).encode(images) * 255).round().byte().reshape(2, 2, 1, side, side).numpy()
    report = audit(file_of(stored, 3), data)
    assert len(report.suspicious) == 36
    for neighbour in report.neighbours:
        assert neighbour.row == ((neighbour.rank - 1) * 2 + neighbour.label) * 9 + neighbour.tile - 1
        assert neighbour.distance < 0.5


def test_audit_does_not_depend_on_the_block_length(monkeypatch: pytest.MonkeyPatch) -> None:
    data = noise(30, 3, 1, 6, 2)
    artifact = file_of(np.random.default_rng(0).integers(0, 256, (2, 3, 1, 6, 6), dtype=np.uint8), 2)
    whole = audit(artifact, data)
    reports: list[tuple[str, float, float]] = []
    monkeypatch.setattr(module, "BLOCK", 8)
    parts = audit(artifact, data, report=lambda *given: reports.append(given))
    assert [neighbour.row for neighbour in parts.neighbours] == [neighbour.row for neighbour in whole.neighbours]
    assert reports == [("comparing with real images", done, 30) for done in (8, 16, 24, 30)]


def test_images_that_were_not_condensed_are_their_real_images(toy: Dataset, recipe: Recipe) -> None:
    """A condensation that does nothing leaves real images, and the check says so."""
    still = recipe.replace(pixel_lr=0.0, outer=1)
    *_, step = condense(assemble(still, toy))
    artifact = pack(step, still, toy)
    report = audit(artifact, toy)
    assert report.neighbours[-1].distance < 1.0
    assert len(report.suspicious) == len(report.neighbours)
    for neighbour in report.neighbours:
        members = np.flatnonzero(toy.train.labels == neighbour.label)
        started_from = members[(neighbour.rank - 1) * 4 + neighbour.tile - 1]
        assert neighbour.row == started_from


def test_picture_shows_each_pair(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    from PIL import Image

    from mipset.display.pictures import side_by_side, write_picture

    *_, step = condense(assemble(recipe, toy))
    artifact = pack(step, recipe, toy)
    listed = audit(artifact, toy).neighbours[:5]
    shown = pairs(artifact, toy, listed)
    assert shown.shape == (5, 2, 3, 12, 12)
    assert np.array_equal(shown[0, 1], toy.train.images[listed[0].row])
    write_picture(side_by_side(shown, ["caption"] * 5), tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.size[0] > 4 * 2 * 64


def test_dataset_of_another_resolution_is_refused(toy: Dataset) -> None:
    with pytest.raises(DataError, match=r"The file holds images of 1x6x6, but the images of toy are 3x12x12\. Name"):
        audit(file_of(np.zeros((1, 2, 1, 6, 6), np.uint8), 1), toy)
