"""Samplers: which real images are compared, and how often they are chosen anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mipset.condensing import clustering
from mipset.condensing.assembly import as_named, assemble
from mipset.condensing.clustering import k_means, nearest_by_faiss, nearest_by_torch, random_points
from mipset.condensing.own_parts import replaced
from mipset.condensing.samplers import Representatives, Uniform
from mipset.data import Dataset
from mipset.nn.networks import ConvNet, Network, fresh
from mipset.nn.training import Images, last_features
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")


def network(seed: int = 0) -> Network:
    return fresh(lambda: ConvNet(3, 3, (12, 12), 8, 2), seed, CPU)


@pytest.fixture
def images(toy: Dataset) -> Images:
    return Images.of(torch.from_numpy(toy.train.images), torch.from_numpy(toy.train.labels), toy.mean, toy.std, CPU)


@pytest.fixture
def members(images: Images) -> list[Tensor]:
    return [(images.labels == c).nonzero().squeeze(1) for c in range(3)]


def rows(batch: Tensor, images: Images, members: Tensor) -> list[int]:
    """The numbers of the images of a batch among those of its class."""
    own, _ = images.batch(members)
    same = (batch[:, None] == own[None]).flatten(2).all(dim=2)
    assert bool(same.any(dim=1).all()), "an image of another class"
    return [int(row) for row in same.int().argmax(dim=1)]


def test_uniform_sampler_draws_different_images_anew(images: Images, members: list[Tensor]) -> None:
    sampler = Uniform(images, members, 15, seed=0)
    drawn = [rows(sampler.sample(1, network(), number), images, members[1]) for number in range(3)]
    assert all(len(set(numbers)) == 15 for numbers in drawn)
    assert drawn[0] != drawn[1] != drawn[2]
    assert set(drawn[0]) & set(drawn[1])  # not the rest of an epoch: 15 of 20 images


class TestRepresentatives:
    @pytest.fixture
    def make(self, images: Images, members: list[Tensor]) -> Callable[..., Representatives]:
        def of(batch: int = 6, **settings: Any) -> Representatives:
            return Representatives(images, members, batch, 0, **{"inner": 6, "every": 3, **settings})

        return of

    def test_one_cluster_gives_the_image_nearest_to_the_mean(
        self, images: Images, members: list[Tensor], make: Callable[..., Representatives]
    ) -> None:
        theta = network()
        for c in range(3):
            features = last_features(theta, images.at(members[c]))
            nearest = int((features - features.mean(dim=0)).square().sum(dim=1).argmin())
            assert rows(make(batch=1).sample(c, theta, 0), images, members[c]) == [nearest]

    def test_images_are_the_nearest_to_centroids_of_the_features(
        self, images: Images, members: list[Tensor], make: Callable[..., Representatives]
    ) -> None:
        theta, sampler = network(), make()
        chosen = rows(sampler.sample(2, theta, 0), images, members[2])
        features = last_features(theta, images.at(members[2]))
        centroids, _ = k_means(features, features[chosen])  # the clusters of which they are the nearest images
        distances = torch.cdist(centroids, features)
        torch.testing.assert_close(distances[range(6), chosen], distances.min(dim=1).values)

    def test_images_are_chosen_anew_after_every_interval_and_for_every_outer_iteration(
        self, make: Callable[..., Representatives], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sampler, chosen = make(every=4), []
        choose = sampler._choose

        def noted(c: int, theta: Network, number: int) -> Tensor:
            chosen.append((c, number))
            return choose(c, theta, number)

        monkeypatch.setattr(sampler, "_choose", noted)
        for number in range(12):
            for c in (0, 2):
                sampler.sample(c, network(), number)
        assert chosen == [(c, number) for number in (0, 4, 6, 10) for c in (0, 2)]  # 6 inner iterations

    def test_images_are_reused_within_an_interval(self, make: Callable[..., Representatives]) -> None:
        sampler = make()
        first = sampler.sample(0, network(0), 0)
        assert torch.equal(first, sampler.sample(0, network(1), 2))  # though the network is another one
        assert not torch.equal(first, sampler.sample(0, network(1), 3))

    def test_k_means_starts_from_the_images_chosen_before_at_the_new_weights(
        self, images: Images, members: list[Tensor], make: Callable[..., Representatives]
    ) -> None:
        sampler = make(steps=1)
        before = rows(sampler.sample(0, network(0), 0), images, members[0])
        after = rows(sampler.sample(0, network(1), 3), images, members[0])
        features = last_features(network(1), images.at(members[0]))
        centroids, _ = k_means(features, features[before], 1)
        distances = torch.cdist(centroids, features)
        torch.testing.assert_close(distances[range(6), after], distances.min(dim=1).values)

    def test_part_of_the_class_is_drawn_anew(
        self, images: Images, members: list[Tensor], make: Callable[..., Representatives]
    ) -> None:
        sampler = make(looked_at=6)
        first, second = (rows(sampler.sample(0, network(), number), images, members[0]) for number in (0, 3))
        assert len(set(first)) == len(set(second)) == 6  # every image is its own cluster
        assert set(first) != set(second)

    def test_recipe_has_its_settings(self, toy: Dataset, recipe: Recipe) -> None:
        named = recipe.replace(sampler="k-means", cluster_every=4, cluster_images=12, cluster_steps=7, inner=9)
        sampler = assemble(named, toy).sampler
        assert isinstance(sampler, Representatives)
        assert (sampler.batch, sampler.inner, sampler.every) == (recipe.real_batch, 9, 4)
        assert (sampler.looked_at, sampler.steps) == (12, 7)


def test_empty_clusters_get_a_point() -> None:
    points = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    far = points[:5] + torch.tensor([[0.0], [0.0], [0.0], [1000.0], [2000.0]])
    centroids, counts = k_means(points, far)
    assert int(counts.min()) >= 1
    assert float(centroids.abs().max()) < 10


class TestFaiss:
    def test_faiss_is_used_if_it_is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for found, expected in ((None, nearest_by_torch), (object(), nearest_by_faiss)):
            monkeypatch.setattr(clustering, "find_spec", lambda name, found=found: found if name == "faiss" else None)
            assert clustering.faster_nearest(CPU) is expected
            assert clustering.faster_nearest(torch.device("cuda")) is nearest_by_torch

    @pytest.mark.parametrize("found", [None, object()], ids=["absent", "installed"])
    def test_file_does_not_call_the_sampler_another_one(
        self, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, found: object
    ) -> None:
        monkeypatch.setattr(clustering, "find_spec", lambda _: found)
        r = recipe.replace(sampler="k-means")
        parts = assemble(r, toy)
        assert f"with_faiss={found is not None}" in repr(parts.sampler)
        assert replaced(parts, as_named(r, parts)) == {}

    def test_faiss_finds_the_same_clusters(self) -> None:
        pytest.importorskip("faiss")
        points = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
        first = random_points(points, 12, torch.Generator().manual_seed(1))
        ours, theirs = (k_means(points, first, 20, nearest) for nearest in (nearest_by_torch, nearest_by_faiss))
        torch.testing.assert_close(ours[0], theirs[0])
        assert torch.equal(ours[1], theirs[1])
