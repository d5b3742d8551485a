"""Fidelity: our numbers against those of the authors' released code (tests/data/README.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.npyio import NpzFile
from torch import Tensor

from mipset.condensing.metrics import feature_distances
from mipset.condensing.objectives import (
    L1,
    Distance,
    FeatureMatching,
    GradientMatching,
    Objective,
    RowCosine,
    Squared,
    Student,
)
from mipset.condensing.policies import MostLearnableSubset, Ratchet
from mipset.condensing.states import weights_of
from mipset.condensing.synthetic import MultiFormation
from mipset.nn.augment import augmentation
from mipset.nn.networks import ConvNet

DATA = Path(__file__).parents[1] / "data"
MATCHING: list[tuple[str, Distance]] = [
    ("matching_rgb", Squared()),
    ("matching_rgb_f1", Squared()),
    ("matching_l1", L1()),
]


def golden(name: str) -> NpzFile:
    file: Any = np.load(DATA / f"{name}.npz", allow_pickle=False)
    assert isinstance(file, NpzFile)
    return file


def network(file: NpzFile, title: str = "weights") -> ConvNet:
    weights = {key.removeprefix(f"{title}/"): torch.tensor(file[key]) for key in file if key.startswith(f"{title}/")}
    _, channels, height, width = file["img_syn"].shape
    theta = ConvNet(channels, int(file["classes"]), (height, width), len(weights["layers.conv.0.weight"]))
    theta.load_state_dict(weights)
    return theta


def relative(ours: torch.Tensor, expected: np.ndarray[Any, Any]) -> float:
    theirs = torch.tensor(expected)
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("name", [name for name, _ in MATCHING])
def test_network_equals_the_release(name: str) -> None:
    file = golden(name)
    theta, real = network(file), torch.tensor(file["img_real"])
    assert relative(theta(real).detach(), file["logits_real"]) < 1e-6
    assert relative(theta.features(real).detach(), file["features_real"].reshape(len(real), -1)) < 1e-6


@pytest.mark.parametrize(("name", "distance"), MATCHING)
def test_losses_and_pixel_gradients_equal_the_release(name: str, distance: Distance) -> None:
    file = golden(name)
    theta, label, per_image = network(file), int(file["label"]), int(file["factor"]) ** 2
    N = int(file["images_per_class"])
    objective = GradientMatching(distance)
    target = objective.target(theta, torch.tensor(file["img_real"])[None], [label])
    prefixes = [n for n in range(1, N) if f"subset{n}_loss" in file]
    assert prefixes
    for n in [None, *prefixes]:
        pixels = torch.tensor(file["img_syn"]).requires_grad_()
        ends = [N * per_image] if n is None else [n * per_image, N * per_image]
        loss = objective.distances(theta, pixels[None], [label], target, ends).distances.sum()
        (gradient,) = torch.autograd.grad(loss, pixels)
        title = "base" if n is None else f"subset{n}"
        assert loss.item() == pytest.approx(float(file[f"{title}_loss"]), rel=1e-5)
        assert relative(gradient, file[f"{title}_grad"]) < 1e-5


@pytest.mark.parametrize(
    ("name", "objective"),
    [("dm_match", FeatureMatching()), ("dc_match", GradientMatching(RowCosine(), classifier=True))],
    ids=["dm", "dc"],
)
def test_distances_of_every_size_equal_the_release_of_dm_and_dc(name: str, objective: Objective[Any]) -> None:
    file = golden(name)
    theta, real, label = network(file), torch.tensor(file["img_real"])[None], int(file.get("label", 0))
    sizes = [n for n in range(1, 100) if f"size{n}_loss" in file]
    assert len(sizes) > 1
    target = objective.target(theta, real, [label])
    for n in sizes:
        pixels = torch.tensor(file["img_syn"]).requires_grad_()
        ends = sorted({n, len(pixels)})
        losses = objective.distances(theta, pixels[None], [label], target, ends).distances[0]
        (gradient,) = torch.autograd.grad(losses[ends.index(n)], pixels)
        assert losses[ends.index(n)].item() == pytest.approx(float(file[f"size{n}_loss"]), rel=1e-5)
        assert relative(gradient, file[f"size{n}_grad"]) < 1e-5


@dataclass(frozen=True)
class GivenBatches(Student):
    """A student whose batches are known."""

    rows: tuple[Tensor, ...] = ()

    def _batch(self, images: int, step: int, *address: int) -> Tensor:
        return self.rows[step]


def test_distance_of_a_student_equals_that_of_mtt() -> None:
    file = golden("mtt_step")
    start, goal = (network(file, title) for title in ("start", "target"))
    batches = tuple(torch.tensor(rows) for rows in file["batches"])
    student = GivenBatches(len(batches), len(batches[0]), augmentation("none"), 0, batches)
    images, labels, rate = torch.tensor(file["img_syn"]), torch.tensor(file["labels"]), torch.tensor(float(file["lr"]))
    loss, by_images, by_rate = student.distance(start, weights_of(goal), images, labels, rate)
    assert loss.item() == pytest.approx(float(file["loss"]), rel=1e-5)
    assert relative(by_images, file["grad"]) < 1e-4
    assert by_rate.item() == pytest.approx(float(file["lr_grad"]), rel=1e-4)


@pytest.mark.parametrize(("name", "distance"), MATCHING)
def test_feature_distances_equal_the_release(name: str, distance: Distance) -> None:
    file = golden(name)
    theta, label, N = network(file), int(file["label"]), int(file["images_per_class"])
    objective = GradientMatching(distance)
    target = objective.target(theta, torch.tensor(file["img_real"])[None], [label])
    pixels = torch.tensor(file["img_syn"])
    match = objective.distances(theta, pixels[None], [label], target, [len(pixels)])
    distances = feature_distances(match.features[0], target.features[0], N, distance)[: N - 1]
    assert distances.numpy() == pytest.approx(file["feature_distances"], rel=1e-4)


@pytest.mark.parametrize("name", ["mls_trace", "mls_trace_long"])
def test_selection_and_freezing_equal_the_released_trace(name: str) -> None:
    file = golden(name)
    period, N = int(file["period"]), int(file["images_per_class"])
    measured = {int(row[0]): row[1:] for row in file["distances"]}
    policy = MostLearnableSubset(N, period, Ratchet())
    differing = []
    for iteration, active, frozen in file["trace"].tolist():
        t = iteration + 1  # the trace counts from 0
        assert policy.n_star == active
        if policy.frozen(0) != frozen:
            differing.append(iteration)
        assert policy.measures(t) == (iteration in measured)
        if policy.measures(t):
            policy.select(t, torch.tensor([*measured[iteration], 0.0])[None])
    assert differing == [period]  # the release freezes one iteration late, the first time only


@pytest.mark.parametrize(("factor", "size"), [(2, 32), (3, 32), (3, 24), (2, 28)])
def test_decoded_images_equal_the_release(factor: int, size: int) -> None:
    file = golden("decode")
    decoded = MultiFormation(factor).decode(torch.tensor(file[f"pixels_f{factor}_s{size}"]))
    assert decoded.numpy() == pytest.approx(file[f"decoded_f{factor}_s{size}"], abs=1e-6)
