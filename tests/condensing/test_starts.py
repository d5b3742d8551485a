"""First pixels: tiles of real images in some order, k-means, and the features by which they are chosen."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mipset.condensing.assembly import assemble
from mipset.condensing.clustering import k_means, random_points
from mipset.condensing.learners import Untrained
from mipset.condensing.orders import herding, nearest_to_centroids
from mipset.condensing.starts import Look, clustered_real_images, herded_real_images
from mipset.condensing.synthetic import MultiFormation, Plain
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.nn.networks import ConvNet, Network, fresh
from mipset.nn.pixels import to_unit
from mipset.nn.randomness import Purpose, key
from mipset.settings.choices import INITIALISATIONS
from mipset.settings.recipe import Recipe
from tiny_data import make_dataset

CPU = torch.device("cpu")


def build() -> Network:
    return ConvNet(3, 3, (12, 12), 4, 2)


def points(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("start", [herded_real_images, clustered_real_images])
def test_copies_of_only_one_class_are_in_memory_at_a_time(start: Callable[..., torch.Tensor]) -> None:
    alive: list[weakref.ref[torch.Tensor]] = []

    class Watching(Look):
        def features(self, pixels: torch.Tensor) -> torch.Tensor:
            assert not any(seen() is not None for seen in alive)
            alive.append(weakref.ref(pixels))
            return points(len(pixels))

    look = Watching(build, Plain(), (0.5,) * 3, (0.5,) * 3, CPU)
    assert start(Recipe(ipc=2, factor=1), make_dataset(), look).shape == (2, 5, 3, 4, 4)
    assert len(alive) == 5


class TestKMeans:
    def test_separate_clusters_are_found(self) -> None:
        centres = 20 * torch.eye(5)[:4]
        data = torch.cat([centre + 0.1 * points(7 + i, i) for i, centre in enumerate(centres)])
        results = [k_means(data, random_points(data, 4, seeded(seed))) for seed in range(10)]
        best = min(results, key=lambda result: float(torch.cdist(data, result[0]).min(dim=1).values.sum()))
        assert sorted(best[1].tolist()) == [7, 8, 9, 10]
        assert float(torch.cdist(centres, best[0]).min(dim=1).values.max()) < 0.5

    @given(st.integers(1, 12), st.integers(12, 30), st.integers(0, 50))
    def test_every_point_belongs_to_one_of_k_clusters(self, k: int, count: int, seed: int) -> None:
        data = points(count, seed)
        centroids, counts = k_means(data, random_points(data, k, seeded(seed)))
        assert centroids.shape == (k, 5)
        assert bool(centroids.isfinite().all())
        assert (len(counts), int(counts.sum())) == (k, count)
        assert int(counts.min()) >= 1

    def test_copies_of_one_point_fill_all_clusters(self) -> None:
        centroids, counts = k_means(torch.ones(6, 5), torch.ones(3, 5))
        assert torch.equal(centroids, torch.ones(3, 5))
        assert int(counts.min()) >= 1

    def test_one_cluster_is_the_mean(self) -> None:
        data = points(9)
        centroids, counts = k_means(data, random_points(data, 1, seeded()))
        torch.testing.assert_close(centroids[0], data.mean(dim=0))
        assert counts.tolist() == [9]


class TestNearestToCentroids:
    def test_one_image_is_the_nearest_to_the_mean(self) -> None:
        data = points(20)
        expected = (data - data.mean(dim=0)).square().sum(dim=1).argmin()
        assert nearest_to_centroids(data, 1, 0, 0).tolist() == [int(expected)]

    @given(st.integers(1, 15), st.integers(0, 50))
    def test_no_image_is_selected_twice(self, n: int, seed: int) -> None:
        rows = nearest_to_centroids(points(15, seed), n, seed, 3).tolist()
        assert len(set(rows)) == n
        assert set(rows) <= set(range(15))

    def test_more_images_than_there_are_cannot_be_selected(self) -> None:
        with pytest.raises(SettingError, match="4 of 3 images cannot be selected"):
            nearest_to_centroids(points(3), 4, 0, 0)


class TestLook:
    def test_images_are_seen_as_tiles(self, toy: Dataset) -> None:
        theta = fresh(build, 0, CPU)
        pixels = torch.from_numpy(toy.train.images[:5])
        for form in (Plain(), MultiFormation(2)):
            look = Look(lambda: theta, form, toy.mean, toy.std, CPU)
            shown = form.decode(form.encode(to_unit(pixels).repeat_interleave(form.images, dim=0)))[:: form.images]
            mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (toy.mean, toy.std))
            torch.testing.assert_close(look.features(pixels), theta.features((shown - mean) / std).detach())


class TestStarts:
    def test_normal_noise_is_standard_normal_when_it_is_normalised(self, toy: Dataset, recipe: Recipe) -> None:
        pixels = assemble(recipe.replace(init="normal-noise", ipc=30, factor=1), toy).S.pixels
        mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (toy.mean, toy.std))
        normalised = (pixels - mean) / std
        inside = (pixels > 0) & (pixels < 1)
        assert float((~inside).float().mean()) == pytest.approx(0.0912 + 0.0228, abs=0.01)  # below 0 and above 1
        for level in (-1.0, 0.0, 1.0):
            below = torch.special.ndtr(torch.tensor(level))
            assert float((normalised < level).float().mean()) == pytest.approx(float(below), abs=0.01)

    def test_random_start_is_of_the_class_and_follows_the_seed(self, toy: Dataset, recipe: Recipe) -> None:
        first, other = (assemble(recipe.replace(init="random", factor=1, seed=s), toy).S.pixels for s in (0, 1))
        assert not torch.equal(first, other)
        for c in range(3):
            own = to_unit(torch.from_numpy(toy.train.images[toy.train.labels == c]))
            assert all(any(torch.equal(image, real) for real in own) for image in first[:, c])

    def test_k_means_of_dream_looks_with_an_untrained_network(self, toy: Dataset, recipe: Recipe) -> None:
        r = recipe.replace(init="k-means", sampler="k-means")
        parts = assemble(r, toy)
        theta = fresh(build, key(r.seed, Purpose.NETWORK, 1), CPU)
        images = torch.from_numpy(toy.train.images[toy.train.labels == 2])
        features = Look(lambda: theta, parts.S.formation, toy.mean, toy.std, CPU).features(images)
        chosen = images[nearest_to_centroids(features, r.ipc * 4, r.seed, 2)]
        assert torch.equal(parts.S.pixels[:, 2], parts.S.formation.encode(to_unit(chosen)))

    @pytest.mark.parametrize("init", [name for name in INITIALISATIONS if name != "k-means"])
    def test_start_of_a_smaller_set_is_a_prefix(self, toy: Dataset, recipe: Recipe, init: str) -> None:
        whole = assemble(recipe.replace(init=init), toy).S.pixels
        assert torch.equal(assemble(recipe.replace(init=init, ipc=2), toy).S.pixels, whole[:2])
        rest = assemble(recipe.replace(init=init, ipc=2), toy, first_rank=1).S.pixels
        assert torch.equal(rest, whole[1:])

    def test_herding_looks_with_the_network_of_the_learner(self, toy: Dataset, recipe: Recipe) -> None:
        experts = recipe.replace(init="herding", learner="experts", experts=1, expert_steps=5, objective="feature")
        parts = assemble(experts, toy)
        theta = parts.learner.trained(parts.learner.start(1))
        images = torch.from_numpy(toy.train.images[toy.train.labels == 1])
        look = Look(lambda: theta, parts.S.formation, toy.mean, toy.std, CPU)
        chosen = images[herding(look.features(images), experts.ipc * 4)]
        assert torch.equal(parts.S.pixels[:, 1], parts.S.formation.encode(to_unit(chosen)))
        assert not torch.equal(parts.S.pixels, assemble(experts.replace(init="mix"), toy).S.pixels)

    @pytest.mark.parametrize("init", ["mix", "herding", "k-means", "random"])
    def test_too_few_real_images_are_refused(self, toy: Dataset, recipe: Recipe, init: str) -> None:
        with pytest.raises(SettingError, match=r"`ipc` 6 with `factor` 2 starts from 24\. Choose a smaller `ipc`"):
            assemble(recipe.replace(init=init, ipc=6), toy)

    def test_images_that_are_not_square_can_be_chosen(self, toy: Dataset, recipe: Recipe) -> None:
        cut = replace(toy.train, images=toy.train.images[:, :, :, :10].copy())
        wide = replace(toy, train=cut, test=replace(toy.test, images=toy.test.images[:, :, :, :10].copy()))
        for init in INITIALISATIONS:
            assert assemble(recipe.replace(init=init), wide).S.pixels.shape == (3, 3, 3, 12, 10)


def test_untrained_networks_differ_and_depend_on_the_place_in_the_run() -> None:
    def first_weight(theta: Network) -> torch.Tensor:
        return next(theta.parameters()).detach()

    one, other = Untrained(build, CPU, 0), Untrained(build, CPU, 0)
    theta = one.start(1)
    assert torch.equal(first_weight(one.advance(theta, 3)), first_weight(other.advance(other.start(2), 3)))
    assert not torch.equal(first_weight(theta), first_weight(one.advance(theta, 3)))
    assert not torch.equal(first_weight(theta), first_weight(Untrained(build, CPU, 1).start(1)))
    assert one.trained(theta) is theta
