"""Orders whose prefixes are subsets: of real images, and of the tiles of a condensed set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.orders import herding, k_center, random_order
from mipset.condensing.packing import pack
from mipset.condensing.synthetic import join
from mipset.data import Dataset
from mipset.errors import DivergedError, SettingError
from mipset.evaluation.evaluate import Evaluation, decoded
from mipset.evaluation.selection import (
    SELECTIONS,
    easiest_first,
    prediction_errors,
    reorder,
    select,
    sum_over_best,
)
from mipset.file.artifact import Artifact
from mipset.file.description import Accuracy
from mipset.file.provenance import Provenance
from mipset.settings.architecture import Architecture
from mipset.settings.protocol import Protocol
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")
SHORT = Protocol(epochs=4, batch=16)

counts, seeds, few = st.integers(1, 12), st.integers(0, 999), st.integers(1, 3)


def cloud(count: int, seed: int, kinds: int = 0) -> Tensor:
    """Points in three dimensions, in double precision; with copies, if there are fewer `kinds` than points."""
    points = torch.randn(kinds or count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return points[torch.arange(count) % len(points)]


class TestOrders:
    @given(counts, counts, seeds, st.integers(0, 3))
    def test_orders_are_distinct_and_nested(self, count: int, n: int, seed: int, kinds: int) -> None:
        """Also where images are copies of each other."""
        points = cloud(count, seed, kinds)
        orders: list[Callable[[int], Tensor]] = [
            lambda m: random_order(count, m, seed, 2),
            lambda m: herding(points, m),
            lambda m: k_center(points, m),
        ]
        for order in orders:
            whole = order(count)
            assert sorted(whole.tolist()) == list(range(count))
            assert torch.equal(order(min(n, count)), whole[:n])

    def test_a_shuffle_depends_on_seed_and_class(self) -> None:
        orders = {tuple(random_order(20, 20, seed, c).tolist()) for seed in range(3) for c in range(3)}
        assert len(orders) == 9

    @given(counts, seeds)
    def test_herding_selects_the_best_addition(self, count: int, seed: int) -> None:
        points = cloud(count, seed)
        order = herding(points, count).tolist()
        for size in range(count):

            def gap(image: int, before: list[int] = order[:size]) -> float:
                return float((points[[*before, image]].mean(dim=0) - points.mean(dim=0)).norm())

            assert gap(order[size]) == pytest.approx(min(gap(image) for image in order[size:]), abs=1e-9)

    def test_herding_by_hand(self) -> None:
        """The mean is 3: 4 is the nearest; with 1 the mean of both is 2.5, with 7 as the third it is 4."""
        assert herding(torch.tensor([0.0, 1.0, 4.0, 7.0])[:, None], 4).tolist() == [2, 1, 3, 0]

    @given(counts, seeds)
    def test_k_center_selects_the_farthest_image(self, count: int, seed: int) -> None:
        points = cloud(count, seed)
        order = k_center(points, count).tolist()
        from_mean = (points - points.mean(dim=0)).norm(dim=1)
        assert from_mean[order[0]] == from_mean.min()
        for size in range(1, count):

            def gap(image: int, before: list[int] = order[:size]) -> float:
                return min(float((points[image] - points[other]).norm()) for other in before)

            assert gap(order[size]) == pytest.approx(max(gap(image) for image in range(count)), abs=1e-9)

    def test_k_center_by_hand(self) -> None:
        """The mean is 3.75: 4 is the nearest; 10 is 6 away from it, 0 is 4, and 1 is then 1 away from 0."""
        assert k_center(torch.tensor([0.0, 1.0, 4.0, 10.0])[:, None], 4).tolist() == [2, 3, 0, 1]

    @pytest.mark.parametrize("n", [0, -1, 5])
    def test_selecting_no_image_or_too_many_is_refused(self, n: int) -> None:
        with pytest.raises(SettingError, match=f"{n} of 4 images cannot be selected: the number must be from 1 to 4"):
            random_order(4, n, 0, 0)
        for order in (herding, k_center):
            with pytest.raises(SettingError, match="must be from 1 to 4"):
                order(cloud(4, 0), n)


def of_class(data: Dataset, c: int) -> Tensor:
    return torch.from_numpy(data.train.images[data.train.labels == c])


def decoded_of_class(artifact: Artifact, c: int) -> Tensor:
    """The decoded images of a class in their order."""
    images = decoded(artifact, CPU)
    return images.pixels[images.labels == c]


def orders_by_hand(name: str, r: Recipe, data: Dataset) -> list[Tensor]:
    """The order in each class, from a network that is trained here."""
    n = r.ipc * r.factor**2
    if name == "random":
        return [random_order(len(of_class(data, c)), n, r.seed, c) for c in range(data.classes)]
    learner = assemble(r, data, CPU).learner
    theta = learner.start(1)
    for number in range(r.outer * r.inner):
        learner.advance(theta, number)
    mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (data.mean, data.std))
    rule = {"herding": herding, "k-center": k_center}[name]
    with torch.no_grad():
        return [rule(theta.features((of_class(data, c) / 255 - mean) / std), n) for c in range(data.classes)]


class TestSelect:
    @pytest.mark.parametrize("name", SELECTIONS)
    @pytest.mark.parametrize(("factor", "ipc"), [(1, 5), (2, 3), (4, 1)])
    def test_training_images_are_selected_images_made_coarser(
        self, toy: Dataset, recipe: Recipe, name: str, factor: int, ipc: int
    ) -> None:
        r = recipe.replace(factor=factor, ipc=ipc)
        selection = select(name, r, toy, CPU)
        assert (selection.ipc, selection.factor) == (ipc, factor)
        for c, order in enumerate(orders_by_hand(name, r, toy)):
            images = of_class(toy, c)[order].float() / 255
            coarse = F.interpolate(images, size=(12 // factor, 12 // factor), mode="nearest")
            expected = F.interpolate(coarse, size=(12, 12), mode="bilinear", align_corners=False)
            torch.testing.assert_close(decoded_of_class(selection, c), expected, rtol=0, atol=1e-6)

    @pytest.mark.parametrize("name", SELECTIONS)
    def test_a_smaller_selection_is_a_prefix_of_a_larger_one(self, toy: Dataset, recipe: Recipe, name: str) -> None:
        whole = select(name, recipe, toy, CPU)
        part = select(name, recipe.replace(ipc=2), toy, CPU)
        np.testing.assert_array_equal(part.images, whole.prefix(2).images)

    def test_selections_differ_by_name_and_seed(self, toy: Dataset, recipe: Recipe) -> None:
        selections = [select(name, recipe.replace(seed=seed), toy, CPU) for name in SELECTIONS for seed in (0, 1)]
        assert len({artifact.images.tobytes() for artifact in selections}) == 6

    def test_selection_has_the_recipe_and_provenance_of_a_condensed_set(self, toy: Dataset, recipe: Recipe) -> None:
        *_, step = condense(assemble(recipe, toy))
        origin: Provenance = {"size": None, "split_seed": 4}
        condensed, selected = pack(step, recipe, toy, origin), select("herding", recipe, toy, CPU, origin=origin)
        assert selected.recipe == condensed.recipe
        assert selected.provenance == {**condensed.provenance, "selection": "herding"}
        assert replace(selected, images=condensed.images, provenance=condensed.provenance) == condensed
        (score,) = Evaluation(selected, toy, SHORT).scores([2], networks=1)
        assert 0 <= score.accuracy <= 100

    @pytest.mark.parametrize("name", SELECTIONS)
    @pytest.mark.parametrize("init", ["mix", "noise"])
    def test_selected_images_are_real_for_every_init(self, toy: Dataset, recipe: Recipe, name: str, init: str) -> None:
        selection = select(name, recipe.replace(init=init), toy, CPU)
        np.testing.assert_array_equal(selection.images, select(name, recipe, toy, CPU).images)
        with pytest.raises(SettingError, match="Class 'a' has 20 training images, but `ipc` 6 with `factor` 2"):
            select(name, recipe.replace(init=init, ipc=6), toy, CPU)

    def test_unknown_selection_and_diverging_network_are_refused(self, toy: Dataset, recipe: Recipe) -> None:
        with pytest.raises(SettingError, match=r"no selection 'best'\. Choose random, herding or k-center"):
            select("best", recipe, toy, CPU)
        with pytest.raises(DivergedError, match="Choose a smaller `network_lr`"):
            select("herding", recipe.replace(network_lr=1e3, outer=8), toy, CPU)

    @pytest.mark.parametrize(("name", "parts"), [("random", 3), ("herding", 7)])
    def test_selecting_reports_every_iteration_and_class(
        self, toy: Dataset, recipe: Recipe, name: str, parts: int
    ) -> None:
        """A part for each of three classes, and where a network learns, for each of 2 x 2 iterations."""
        reports: list[tuple[str, float, float]] = []
        select(name, recipe, toy, CPU, report=lambda *given: reports.append(given))
        assert [(done, total) for _, done, total in reports] == [(part, parts) for part in range(1, parts + 1)]
        stages = ["training a network"] * (parts - 3) + ["selecting images"] * 3
        assert [stage for stage, *_ in reports] == stages


def noise(*shape: int, seed: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def tiles_of_class(images: npt.NDArray[np.uint8], factor: int, c: int) -> list[bytes]:
    """The tiles of all stored images of a class, in the order in which they are decoded."""
    height, width = (side // factor for side in images.shape[3:])
    return [
        stored[:, row * height : (row + 1) * height, column * width : (column + 1) * width].tobytes()
        for stored in images[:, c]
        for row in range(factor)
        for column in range(factor)
    ]


class TestEasiestFirst:
    @given(few, few, few, few, few, seeds, st.booleans())
    def test_tiles_are_ordered_by_their_scores(
        self, ranks: int, classes: int, factor: int, h: int, w: int, seed: int, coarse: bool
    ) -> None:
        """Python's sort, which keeps the order of equals as well."""
        images = noise(ranks, classes, 2, factor * h, factor * w, seed=seed)
        scores = np.random.default_rng(seed).random((ranks, classes, factor**2))
        if coarse:
            scores = scores.round(1)
        ordered = easiest_first(images, factor, torch.from_numpy(scores))
        assert (ordered.shape, ordered.dtype) == (images.shape, images.dtype)
        for c in range(classes):
            score = scores[:, c].flatten()
            before, after = tiles_of_class(images, factor, c), tiles_of_class(ordered, factor, c)
            assert after == [before[j] for j in sorted(range(len(score)), key=lambda j: score[j])]
            assert sorted(after) == sorted(before)

    @given(few, few, st.integers(1, 4), st.integers(4, 9), st.integers(4, 9), seeds)
    def test_decoded_images_are_exactly_those_from_before(
        self, ranks: int, classes: int, factor: int, h: int, w: int, seed: int
    ) -> None:
        """Also where tiles are not all of one size."""
        if any((factor - 1) * -(-side // factor) >= side for side in (h, w)):
            factor = 1
        images = noise(ranks, classes, 1, h, w, seed=seed)
        scores = torch.rand(ranks, classes, factor**2, generator=torch.Generator().manual_seed(seed))
        before = Artifact(images, factor, (0.5,), (0.5,), tuple("abc"[:classes]))
        after = replace(before, images=easiest_first(images, factor, scores))
        for c in range(classes):
            old, new = ([image.numpy().tobytes() for image in decoded_of_class(a, c)] for a in (before, after))
            assert sorted(new) == sorted(old)

    @given(few, few, seeds)
    def test_a_prefix_holds_the_easiest(self, ranks: int, classes: int, seed: int) -> None:
        images = noise(ranks, classes, 1, 4, 4, seed=seed)
        scores = torch.rand(ranks, classes, 4, generator=torch.Generator().manual_seed(seed))
        ordered = easiest_first(images, 2, scores)
        for c in range(classes):
            score = dict(zip(tiles_of_class(images, 2, c), scores[:, c].flatten().tolist(), strict=True))
            for n in range(1, ranks):
                inside, outside = (tiles_of_class(part, 2, c) for part in (ordered[:n], ordered[n:]))
                assert max(score[tile] for tile in inside) <= min(score[tile] for tile in outside)

    @given(few, few, seeds, st.integers(-8, 8))
    def test_the_scale_of_scores_does_not_matter(self, ranks: int, classes: int, seed: int, power: int) -> None:
        images = noise(ranks, classes, 1, 4, 4, seed=seed)
        scores = torch.rand(ranks, classes, 4, generator=torch.Generator().manual_seed(seed))
        np.testing.assert_array_equal(easiest_first(images, 2, scores), easiest_first(images, 2, scores * 2.0**power))

    def test_stored_images_stay_whole_where_tiles_are_unequal(self) -> None:
        images = noise(3, 1, 1, 5, 6, seed=0)
        scores = torch.tensor([[[0.0, 9.0, 9.0, 9.0]], [[3.0, 3.0, 3.0, 3.0]], [[4.0, 4.0, 4.0, 4.0]]])
        np.testing.assert_array_equal(easiest_first(images, 2, scores), images[[1, 2, 0]])


class TestScores:
    def test_prediction_error_is_the_distance_from_the_label(self) -> None:
        scores = torch.tensor([[99.0, 0.0], [99.0, 0.0], [1.0, 1.0]])
        assert prediction_errors(scores, torch.tensor([0, 1, 1])).tolist() == pytest.approx([0, 2**0.5, 0.5**0.5])

    def test_errors_are_summed_over_the_epochs_with_most_correct_images(self) -> None:
        errors = torch.tensor([[1.0, 0.0], [2.0, 1.0], [4.0, 0.0], [8.0, 1.0]])
        right = torch.tensor([3, 5, 3, 4])
        assert sum_over_best(errors, right, 1).tolist() == [2, 1]
        assert sum_over_best(errors, right, 3).tolist() == [11, 2]
        assert sum_over_best(errors, right, 99).tolist() == [15, 2]


WRONG = (0, 5, 13)  # places of mislabelled images among the 16 of a class


@pytest.fixture(scope="module")
def mislabelled() -> Artifact:
    """Four stored images of four tiles for each class: rows, columns or squares, but some show what the next should."""
    dark = np.arange(8) // 2 % 2
    patterns = np.stack([*np.broadcast_arrays(dark[:, None], dark), dark[:, None] ^ dark])
    shown = np.tile(np.arange(3)[:, None], 16)
    shown[:, WRONG] = (shown[:, WRONG] + 1) % 3
    tiles = 160 * patterns[shown] + np.random.default_rng(0).integers(0, 80, (3, 16, 8, 8))
    stored = join(torch.from_numpy(tiles.astype(np.uint8)).reshape(-1, 1, 8, 8), 2)
    return Artifact(
        stored.reshape(3, 4, 1, 16, 16).transpose(0, 1).contiguous().numpy(),
        factor=2,
        mean=(0.5,),
        std=(0.3,),
        class_names=("rows", "columns", "squares"),
        recipe={"network": "convnet", "width": 8, "depth": 2},
        provenance={"dataset": "toy"},
        accuracy=(Accuracy(1, 50.0, 1.0, 2, "convnet", "quick", 0, "00" * 32),),
    )


class TestReorder:
    def test_mislabelled_images_come_last(self, mislabelled: Artifact) -> None:
        reordered = reorder(mislabelled, Protocol(epochs=30, batch=16, rate=0.05), 0, CPU)
        for c in range(3):
            before, after = (tiles_of_class(artifact.images, 2, c) for artifact in (mislabelled, reordered))
            assert set(after[-len(WRONG) :]) == {before[place] for place in WRONG}
            assert sorted(after) == sorted(before)

    def test_reordering_changes_only_order_provenance_and_accuracy(self, mislabelled: Artifact) -> None:
        reordered = reorder(mislabelled, SHORT, 3, CPU, first=2, best=1)
        assert reordered.accuracy == ()
        assert reordered.provenance == {
            "dataset": "toy",
            "reordered": "yoco",
            "reordered_with": "paper, 4 epochs; seed 3; best 1 of the first 2 epochs",
        }
        for name in ("factor", "mean", "std", "class_names", "recipe"):
            assert getattr(reordered, name) == getattr(mislabelled, name)
        assert reordered.to_bytes()

    def test_digits_are_not_mirrored(self, mislabelled: Artifact) -> None:
        digits = replace(mislabelled, provenance={"dataset": "mnist"})
        assert "no flips" in reorder(digits, SHORT, 0, CPU, first=1).provenance["reordered_with"]

    def test_reordering_depends_on_the_seed(self, mislabelled: Artifact) -> None:
        first, again, other = (reorder(mislabelled, SHORT, seed, CPU).images for seed in (0, 0, 1))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    @pytest.mark.parametrize(("first", "epochs"), [(1, 1), (3, 3), (4, 4), (100, 4)])
    def test_reordering_trains_for_the_first_epochs_or_for_all(
        self, mislabelled: Artifact, first: int, epochs: int
    ) -> None:
        reports: list[tuple[str, float, float]] = []
        reordered = reorder(mislabelled, SHORT, 0, CPU, first=first, report=lambda *given: reports.append(given))
        assert reports == [(f"epoch {epoch} of {epochs}", epoch, epochs) for epoch in range(1, epochs + 1)]
        if first > 4:
            np.testing.assert_array_equal(reordered.images, reorder(mislabelled, SHORT, 0, CPU, first=4).images)

    def test_reordering_uses_the_architecture_of_the_file(self, mislabelled: Artifact) -> None:
        deep = replace(mislabelled, recipe={**mislabelled.recipe, "depth": 9})
        assert Architecture.of(deep.recipe).depth == 9
        with pytest.raises(SettingError, match="Choose a smaller `depth`"):
            reorder(deep, SHORT, 0, CPU)

    def test_reordering_refuses_impossible_settings(self, mislabelled: Artifact) -> None:
        with pytest.raises(SettingError, match="`first` is 0: it must be at least 1"):
            reorder(mislabelled, SHORT, 0, CPU, first=0)
        with pytest.raises(SettingError, match="`best` is -1: it must be at least 1"):
            reorder(mislabelled, SHORT, 0, CPU, best=-1)
        with pytest.raises(DivergedError, match="Choose another `protocol`"):
            reorder(mislabelled, replace(SHORT, rate=1e20), 0, CPU)
