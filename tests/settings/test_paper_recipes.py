"""The recipes of the paper: every constant of the paper and of the releases, in one table."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.objectives import GradientMatching, Match
from mipset.data import Dataset
from mipset.settings.catalogue import RECIPES, recipe, sources
from mipset.settings.paper_recipes import AUTHORS, OURS, PAPER, PAPER_CIFAR10, RELEASE
from mipset.settings.protocol import PROTOCOLS, imagenet_epochs, protocol
from mipset.settings.recipe import Recipe

Settings = dict[str, Any]
CONVNET: Settings = {"network": "convnet", "width": 128, "depth": 3, "factor": 2, "cutmix": 0.5, "early_epochs": 0}
RESNET: Settings = {"network": "resnet-ap", "width": 64, "depth": 10, "factor": 3, "cutmix": 1.0, "early_epochs": 10}
SMALL_IMAGES: dict[str, Any] = {**CONVNET, "outer": 2000, "inner": 100, "period": 100}
COMMON: dict[str, Any] = {
    "policy": "mdc",
    "objective": "gradient",
    "distance": "squared",
    "learner": "trained",
    "init": "mix",
    "real_batch": 64,
    "pixel_optimiser": "sgd",
    "pixel_momentum": 0.5,
    "match_augment": "color_crop_cutout",
    "train_batch": 64,
    "train_augment": "color_crop",
    "network_lr": 0.01,
    "network_momentum": 0.9,
    "network_decay": 5e-4,
    "pool": 1,
    "life": 1,
    "freeze": "ratchet",
    "metric": "feature",
    "subset_weight": 1.0,
    "round_distances": -1,  # the paper rounds nothing (docs/fidelity.md)
    "sampler": "shuffled-epochs",
    "matched_layers": "convolutions",
    "step_after": "each-class",
    "composition": "idc",
    "resampling": "edges",
    "pixel_space": "unit",
    "train_precision": "float32",
    "match_precision": "float32",
}
CLUSTERS: Settings = {"cluster_every": 10, "cluster_images": 0, "cluster_steps": 100}  # of DREAM
NOT_READ = {  # by gradient matching with networks that learn from real images, and the policy mdc
    *("metric_epochs", "prefix_weights", "steps", "experts", "expert_steps", "snapshot_steps", "expert_starts"),
    *("expert_ahead", "student_steps", "student_batch", "student_sizes", "student_lr", "student_lr_lr"),
    *("student_lr_momentum", "train_epochs", "seed", *CLUSTERS),
}
# name, images per class, settings, pixel learning rate as it is used, resolution, the paper's batch of synthetic images
TABLE: list[tuple[str, int, dict[str, Any], float, int, int]] = [
    ("paper-svhn-ipc10", 10, {**SMALL_IMAGES, "train_images": 500}, 0.005, 32, 128),
    ("paper-svhn-ipc50", 50, {**SMALL_IMAGES, "train_images": 500}, 0.025, 32, 256),
    ("paper-cifar10-ipc10", 10, {**SMALL_IMAGES, "train_images": 2000}, 0.005, 32, 128),
    ("paper-cifar10-ipc50", 50, {**SMALL_IMAGES, "train_images": 2000}, 0.025, 32, 256),
    ("paper-cifar100-ipc10", 10, {**SMALL_IMAGES, "train_images": 2000}, 0.005, 32, 128),
    ("paper-cifar100-ipc20", 20, {**SMALL_IMAGES, "train_images": 2000}, 0.01, 32, 128),
    ("paper-cifar100-ipc50", 50, {**SMALL_IMAGES, "train_images": 2000}, 0.025, 32, 256),
    (
        "paper-imagenet10-ipc20",
        20,
        {**RESNET, "outer": 500, "inner": 100, "period": 50, "train_images": 500},
        0.006,
        224,
        256,
    ),
]


@pytest.mark.parametrize(("name", "ipc", "settings", "rate", "side", "batch"), TABLE, ids=[row[0] for row in TABLE])
def test_every_constant_of_a_paper_recipe(
    name: str, ipc: int, settings: dict[str, Any], rate: float, side: int, batch: int
) -> None:
    chosen = recipe(name)
    expected = {"ipc": ipc, **COMMON, **settings}
    assert {key: getattr(chosen, key) for key in expected} == expected
    assert {f.name for f in fields(Recipe)} - {"pixel_lr", *expected} == NOT_READ
    assert chosen.scaled_pixel_lr((side, side)) == pytest.approx(rate)
    assert RECIPES[name].dataset == name.split("-")[1]
    assert ipc * chosen.factor**2 <= batch  # so the release draws none of them at random


@pytest.mark.parametrize(("ipc", "batch"), [(10, 128), (20, 128), (30, 128), (50, 256)])
def test_match_has_all_synthetic_images_as_the_batches_of_the_paper_do(
    toy: Dataset, ipc: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper takes larger batches above 30 images per class, so that no image of a prefix is left out."""
    matched: list[tuple[int, int]] = []
    distances = GradientMatching.distances

    def recorded(self: GradientMatching, theta: Any, synthetic: Any, labels: Any, target: Any, ends: Any) -> Match:
        matched.append((synthetic.shape[1], ends[-1]))
        return distances(self, theta, synthetic, labels, target, ends)

    monkeypatch.setattr(GradientMatching, "distances", recorded)
    tiny = {"width": 2, "depth": 1, "outer": 1, "inner": 1, "real_batch": 6, "train_batch": 8, "init": "noise"}
    for _ in condense(assemble(recipe("paper-cifar10-ipc10", ipc=ipc, **tiny), toy)):
        pass
    assert matched == [(4 * ipc, 4 * ipc)] * toy.classes
    assert matched[0][0] <= batch


@pytest.mark.parametrize("name", [row[0] for row in TABLE])
def test_dream_changes_the_sampler_the_start_and_the_batches(name: str) -> None:
    dream = recipe(f"{name}-dream")
    changes = {"sampler": "k-means", "init": "k-means", "real_batch": 128, "train_batch": 128}
    assert dream == recipe(name).replace(**changes)
    assert -(-2000 // dream.train_batch) == 16
    assert {key: getattr(dream, key) for key in CLUSTERS} == CLUSTERS
    found = sources(f"{name}-dream")
    assert {key for key in found if found[key] == AUTHORS} == {*changes, *CLUSTERS}


def test_all_paper_recipes_are_in_the_table() -> None:
    names = [row[0] for row in TABLE]
    assert [name for name in RECIPES if name.startswith("paper-")] == [*names, *(f"{name}-dream" for name in names)]
    assert RECIPES["paper-cifar10-ipc10"].recipe == PAPER_CIFAR10 == Recipe()


def test_idc_alone_matches_with_l1_on_imagenet() -> None:
    assert recipe("paper-imagenet10-ipc20", policy="baseline-c").distance == "l1"
    assert recipe("paper-imagenet10-ipc20", policy="baseline-c", distance="squared").distance == "squared"
    assert recipe("paper-cifar10-ipc50", policy="baseline-c").distance == "squared"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "paper-cifar10-ipc10",
            {"period": PAPER, "outer": PAPER, "real_batch": RELEASE, "cutmix": PAPER, "seed": OURS},
        ),
        ("paper-imagenet10-ipc20", {"period": PAPER, "cutmix": RELEASE, "early_epochs": RELEASE, "experts": OURS}),
        ("cifar10-gradient-cpu", {"outer": OURS, "ipc": PAPER, "pool": OURS, "pixel_lr": OURS, "real_batch": RELEASE}),
        (
            "dc-cifar10-ipc1",
            {**dict.fromkeys(("ipc", "distance", "outer", "inner", "train_epochs", "pixel_lr", "init"), AUTHORS)},
        ),
        (
            "dsa-cifar10-ipc10",
            {**dict.fromkeys(("composition", "match_augment", "network_momentum", "learner"), AUTHORS), "policy": OURS},
        ),
        ("dm-cifar10-ipc50", {"objective": AUTHORS, "pixel_lr": AUTHORS, "outer": OURS, "inner": OURS, "period": OURS}),
        (
            "mtt-cifar10-ipc10",
            {
                **dict.fromkeys(("experts", "student_steps", "student_lr_lr", "expert_starts", "pixel_lr"), AUTHORS),
                **dict.fromkeys(("outer", "inner", "real_batch", "student_sizes"), OURS),
            },
        ),
        ("dream-cifar10-ipc50", {"sampler": AUTHORS, "cluster_steps": AUTHORS, "real_batch": AUTHORS, "seed": OURS}),
        (
            "cifar10-dsa-cpu",
            {"composition": AUTHORS, "distance": AUTHORS, "width": OURS, "train_epochs": OURS, "pixel_lr": OURS},
        ),
        ("cifar10-dream-cpu", {"cluster_every": AUTHORS, "cluster_images": OURS, "cluster_steps": OURS}),
    ],
)
def test_every_setting_has_a_source(name: str, expected: dict[str, str]) -> None:
    found = sources(name)
    assert list(found) == [f.name for f in fields(Recipe)]
    assert set(found.values()) == {PAPER, RELEASE, OURS, *expected.values()}
    assert {key: found[key] for key in expected} == expected


def test_paper_protocols() -> None:
    small, large = protocol("paper"), protocol("paper-imagenet")
    for p in (small, large):
        assert (p.batch, p.rate, p.momentum, p.decay) == (64, 0.01, 0.9, 5e-4)
        assert (p.milestones, p.drop, p.least_steps, p.even) == ((2 / 3, 5 / 6), 0.2, 0, False)
    assert (small.epochs_for(40, 10), small.mix, small.augment) == (1000, 0.5, "color_crop_flip_scale_rotate")
    assert (large.mix, large.augment) == (1.0, "zoom_flip_jitter_lighting")
    assert large.without_flips().augment == "zoom_jitter_lighting"
    assert str(large) == "paper-imagenet, 300 to 3000 epochs"
    assert "paper-imagenet" in PROTOCOLS


@pytest.mark.parametrize(
    ("per_class", "epochs", "of_100_classes"),
    [
        (1, 3000, 2000),
        (2, 2000, 1300),
        (10, 2000, 1300),
        (11, 1500, 1000),
        (50, 1500, 1000),
        (51, 1000, 600),
        (180, 1000, 600),
        (200, 1000, 600),
        (201, 500, 300),
        (500, 500, 300),
        (501, 300, 200),
    ],
)
def test_epochs_on_imagenet_by_decoded_images_per_class(per_class: int, epochs: int, of_100_classes: int) -> None:
    assert imagenet_epochs(per_class, 10) == epochs
    assert imagenet_epochs(per_class, 100) == of_100_classes
    assert protocol("paper-imagenet").epochs_for(10 * per_class, 10) == epochs
    assert protocol("paper-imagenet", epochs=7).epochs_for(10 * per_class, 10) == 7
