"""Smaller sets from a condensed set alone: truncated components, and condensing once more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mipset import Artifact
from mipset.data import Dataset
from mipset.experiments.builders import BUILDERS, Condensation
from mipset.experiments.comparison import Comparison
from mipset.experiments.slimming import as_dataset, component_bytes, truncated
from mipset.file.artifact import read
from mipset.settings.recipe import Recipe
from toy_comparisons import finished, sets_in, stop_after, toy_comparison

SIZES = (1, 2, 3)


def a_set(seed: int, ipc: int = 5, factor: int = 1) -> Artifact:
    images = np.random.default_rng(seed).integers(0, 256, (ipc, 2, 1, 6, 6), dtype=np.uint8)
    return Artifact(images, factor, (0.5,), (0.5,), ("a", "b"))


def error(artifact: Artifact, rank: int, c: int) -> float:
    change = truncated(artifact, rank).images[:, c].astype(float) - artifact.images[:, c]
    return float(np.square(change / 255).sum())


@given(seed=st.integers(0, 99), rank=st.integers(1, 5))
def test_error_is_that_of_the_components_left_out(seed: int, rank: int) -> None:
    artifact = a_set(seed)
    for c in (0, 1):
        pixels = artifact.images[:, c].reshape(5, -1) / 255
        values = np.linalg.svd(pixels - pixels.mean(axis=0), compute_uv=False)
        left_out = float(np.square(values[rank:]).sum())
        assert error(artifact, rank, c) <= left_out + 0.01, "clamping to the range of a pixel never adds to it"
        assert error(artifact, rank, c) >= 0.7 * left_out - 0.01


@given(seed=st.integers(0, 99))
def test_all_components_give_the_images_back(seed: int) -> None:
    artifact = a_set(seed)
    change = truncated(artifact, 4).images.astype(int) - artifact.images  # 5 centred images have 4 components
    assert np.abs(change).max() <= 1


def test_truncated_set_says_so_and_counts_its_coefficients() -> None:
    artifact = a_set(0, factor=2)
    small = truncated(artifact, 2)
    assert small.provenance["components"] == 2
    assert small.factor == 2
    assert component_bytes(artifact.images.shape, 2) == 2 * 2 * (36 + 2 * 36 + 5 * 2)  # classes, float16


def test_condensations_of_recondense(recipe: Recipe) -> None:
    baseline = recipe.replace(policy="baseline-c")
    whole = Condensation(baseline)
    runs = BUILDERS["recondense"].condensations(baseline, SIZES)
    assert runs == [whole, *(Condensation(baseline.replace(ipc=n), of=whole) for n in (1, 2))]
    assert BUILDERS["recondense"].condensations(baseline, (1,))[0] == whole, "even if its size is not asked for"
    assert BUILDERS["svd-truncate"].condensations(baseline, SIZES) == [whole]


@pytest.mark.parametrize("factor", [1, 2])
def test_condensed_set_stands_for_the_real_images(toy: Dataset, factor: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 3, 12, 12), dtype=np.uint8)
    artifact = Artifact(images, factor, toy.mean, toy.std, toy.class_names)
    data = as_dataset(artifact, toy)
    assert len(data.train) == 2 * factor**2 * 3
    assert np.bincount(data.train.labels).tolist() == [2 * factor**2] * 3
    assert data.test is toy.test
    if factor == 1:
        assert np.array_equal(data.train.images[data.train.labels == 1], images[:, 1])


def test_both_are_compared_and_use_no_real_images(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    r = recipe.replace(real_batch=16, train_batch=16, pixel_lr=5.0)  # batches of more than the condensed set has
    comparison = toy_comparison(tmp_path, toy, r, "baseline-c,svd-truncate,recondense", networks=1)
    base, svd, again = finished(comparison)
    assert [(row.method, row.condensations) for row in (base, svd, again)] == [
        ("baseline-c", 1),
        ("svd-truncate", 1),
        ("recondense", 3),
    ]
    assert all(sorted(row.scores) == [1, 2, 3] for row in (base, svd, again))
    folder = tmp_path / "out"
    whole = read(folder / base.files[0])
    truncated_sets = [read(folder / file) for file in svd.files]
    assert [each.provenance["components"] for each in truncated_sets] == [1, 2, 3]
    assert {each.ipc for each in truncated_sets} == {3}, "every size is trained on all images"
    assert (svd.images, svd.bytes) == (3 * 4, component_bytes(whole.images.shape, 3))
    sets = {each.ipc: each for each in (read(folder / file) for file in again.files)}
    assert sorted(sets) == [1, 2, 3]
    assert np.array_equal(sets[3].images, whole.images)
    for n in (1, 2):
        assert sets[n].provenance["recondensed_from"] == 3
        assert sets[n].provenance["sha256"] == as_dataset(whole, toy).sha256, "its real images are the condensed ones"
        assert not np.array_equal(sets[n].images, whole.images[:n])
    assert again.images == 3 * (1 + 2 + 3)


def test_interrupted_recondensing_goes_on_with_the_same_sets(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    def comparison(folder: str) -> Comparison:
        return toy_comparison(tmp_path / folder, toy, recipe, "recondense", networks=1, sizes=[1, 3])

    finished(comparison("whole"))
    stop_after(comparison("parts"), 5)
    finished(comparison("parts"))
    assert sets_in(tmp_path / "whole") == sets_in(tmp_path / "parts")
