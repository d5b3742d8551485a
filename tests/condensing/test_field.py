"""The methods of the field: DC, DSA, DM, MTT, IDC and DREAM are assemblies of axes, alone and with every policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.growing import grown
from mipset.condensing.objectives import FeatureMatching, GradientMatching, RowCosine, Squared
from mipset.condensing.optimisers import Moment, MomentumSGD
from mipset.condensing.packing import pack
from mipset.data import Dataset
from mipset.nn.augment import DSA, Operation
from mipset.nn.networks import ConvNet, fresh
from mipset.nn.randomness import Purpose, generator, key, permutation
from mipset.settings.catalogue import RECIPES
from mipset.settings.methods import FIELD
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")
SIZES = {"ipc": 3, "width": 4, "depth": 2, "outer": 2, "inner": 2, "period": 1, "real_batch": 6}
EXPERTS = {"experts": 2, "snapshot_steps": 3, "expert_starts": 2, "student_steps": 2}
TOY: dict[str, Any] = {**SIZES, **EXPERTS, "train_batch": 9, "train_images": 18, "train_epochs": 2}


def at_toy_size(name: str, **changes: Any) -> Recipe:
    """The affordable recipe of a method, for the toy data."""
    r = RECIPES[f"cifar10-{FIELD[name]}-cpu"].recipe
    return r.replace(**{**TOY, "cluster_images": min(12, r.cluster_images), **changes})


def network() -> ConvNet:
    return ConvNet(3, 3, (12, 12), 4, 2)


def real_images(count: int = 6) -> Tensor:
    return torch.randn(1, count, 3, 12, 12, generator=torch.Generator().manual_seed(0))


class TestAcceptance:
    @pytest.mark.parametrize(
        "objective", [GradientMatching(RowCosine(), classifier=True), GradientMatching(), FeatureMatching()]
    )
    def test_loss_is_zero_if_synthetic_and_real_images_are_the_same(self, objective: Any) -> None:
        """With one draw for both sides, also if the batches have different lengths."""
        theta, real = fresh(network, 0, CPU), real_images()
        draw = DSA(tuple(Operation)).draw(generator(0, Purpose.MATCH_AUGMENTATION, 1), (12, 12))
        same, twice = draw(real[0])[None], draw(torch.cat([real[0], real[0]]))[None]
        target = objective.target(theta, twice, [1])
        assert float(objective.distances(theta, same, [1], target, [6]).distances) == pytest.approx(0, abs=1e-3)
        other = objective.distances(theta, real.flip(4) + 1, [1], target, [6])
        assert float(other.distances) > 0.01

    def test_row_cosine_does_not_depend_on_the_scale_of_the_loss(self) -> None:
        draws = torch.Generator().manual_seed(0)
        one, other = (torch.randn(5, 4, 3, 3, generator=draws) for _ in range(2))
        expected = RowCosine()(one[None], other)
        torch.testing.assert_close(RowCosine()(7 * one[None], 7 * other), expected)
        assert float(Squared()(7 * one[None], 7 * other)) == pytest.approx(49 * float(Squared()(one[None], other)))

    def test_classifier_is_compared_by_dc_and_not_by_idc(self, toy: Dataset) -> None:
        theta = fresh(network, 0, CPU)
        for name, compared in {"dc": 3, "dsa": 3, "idc": 2, "dream": 2}.items():
            objective = assemble(at_toy_size(name), toy).objective
            assert isinstance(objective, GradientMatching)
            (gradients,) = objective.target(theta, real_images(), [0]).gradients
            assert [gradient.dim() for gradient in gradients] == [4, 4, 2][:compared]  # no biases, no norms

    @pytest.mark.parametrize("name", FIELD)
    def test_policy_without_weight_is_the_method_alone_to_the_bit(self, toy: Dataset, name: str) -> None:
        alone = at_toy_size(name, policy="baseline-c")
        off = alone.replace(policy="mdc", subset_weight=0.0, freeze="never")
        pixels = [[*condense(assemble(r, toy))][-1].parts.S.pixels for r in (alone, off)]
        assert torch.equal(*pixels)
        assert not torch.equal(pixels[0], assemble(alone, toy).S.pixels)


@pytest.mark.parametrize("policy", ["mdc", "every-prefix"])
@pytest.mark.parametrize("name", FIELD)
def test_set_of_every_method_grows(toy: Dataset, name: str, policy: str) -> None:
    """`test_checkpoint` resumes their axes, `test_distributed` shares them."""
    first = at_toy_size(name, policy=policy, outer=1)
    *_, step = condense(assemble(first, toy))
    published = pack(step, first, toy)
    more = first.replace(ipc=4)
    *_, step = condense(grown(published, toy, more, CPU))
    assert np.array_equal(pack(step, more, toy).images[:3], published.images)
    assert not torch.equal(step.parts.S.pixels[3], assemble(more, toy).S.pixels[3])


def test_rate_of_normalised_pixels_equals_one_step_of_all_classes_there() -> None:
    std = (0.2, 0.3)
    pixels = torch.rand(2, 3, 2, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    deviation = torch.tensor(std).double().reshape(-1, 1, 1)
    normalised = (pixels / deviation).requires_grad_()
    ours = MomentumSGD(pixels, tuple(0.1 * d**2 for d in std), 0.5, coasting=False)
    theirs = torch.optim.SGD([normalised], lr=0.1, momentum=0.5)
    for number in range(4):
        gradient = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(number)).double()
        for c in range(3):
            ours.step(c, gradient[:, c] / deviation, 0, None, Moment(number, 4))
        normalised.grad = gradient
        theirs.step()
    torch.testing.assert_close(pixels, normalised.detach() * deviation)


@pytest.mark.parametrize("name", ["dc", "dsa"])
def test_run_equals_the_loop_of_the_authors(toy: Dataset, name: str) -> None:
    """One outer iteration, written down plainly: pixels are normalised there, and clamped at its end by us."""
    r = at_toy_size(name, policy="baseline-c", init="random", ipc=2, outer=1, inner=3)
    r = r.replace(pixel_lr=0.05, network_lr=0.1)
    parts = assemble(r, toy)
    mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (toy.mean, toy.std))
    S = ((parts.S.pixels - mean) / std).requires_grad_()
    theta = fresh(network, key(r.seed, Purpose.NETWORK, 1), CPU)
    pixels, weights = torch.optim.SGD([S], 0.05, momentum=0.5), torch.optim.SGD(theta.parameters(), 0.1)
    labels = torch.arange(3).repeat(2)
    for e in range(1, 4):
        loss = torch.zeros(())
        for c in range(3):
            siamese = parts.augmentation.draw(generator(r.seed, Purpose.MATCH_AUGMENTATION, 1, e, c), (12, 12))
            sides = siamese(parts.sampler.sample(c, theta, e - 1)), siamese(S[:, c])
            losses = [F.cross_entropy(theta(side), torch.full((len(side),), c)) for side in sides]
            real = torch.autograd.grad(losses[0], list(theta.parameters()))
            synthetic = torch.autograd.grad(losses[1], list(theta.parameters()), create_graph=True)
            loss = loss + sum(row_cosine(*pair) for pair in zip(real, synthetic, strict=True))
        pixels.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        pixels.step()
        for epoch in range(2 if e < 3 else 0):
            order = permutation(6, r.seed, Purpose.TRAIN_BATCH, e - 1, epoch)
            draws = generator(r.seed, Purpose.TRAIN_AUGMENTATION, e - 1, epoch)
            images = DSA(parts.augmentation.operations).draw(draws, (12, 12), images=6)(S.detach().flatten(0, 1)[order])
            weights.zero_grad()
            F.cross_entropy(theta(images), labels[order]).backward()  # type: ignore[no-untyped-call]
            weights.step()
    *_, step = condense(parts)
    expected = (S.detach() * std + mean).clamp(0, 1)
    assert float((step.parts.S.pixels - expected).abs().max()) < 1e-5
    assert float((step.parts.S.pixels - assemble(r, toy).S.pixels).abs().max()) > 5e-3


def row_cosine(real: Tensor, synthetic: Tensor) -> Tensor:
    """The distance of DC: 1-D parameters count nothing."""
    if real.dim() < 2:
        return torch.zeros(())
    a, b = real.reshape(len(real), -1), synthetic.reshape(len(real), -1)
    lengths: Tensor = torch.linalg.vector_norm(a, dim=1) * torch.linalg.vector_norm(b, dim=1)
    return (1 - (a * b).sum(dim=1) / (lengths + 1e-6)).sum()
