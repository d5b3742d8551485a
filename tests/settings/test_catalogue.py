"""Named recipes."""

from __future__ import annotations

import re

import pytest

from mipset.errors import SettingError, choices
from mipset.settings.catalogue import RECIPES, dc_loops, recipe
from mipset.settings.paper_recipes import PAPER_CIFAR10


def test_named_recipe_can_be_changed() -> None:
    assert recipe("paper-cifar10-ipc10") == PAPER_CIFAR10
    assert recipe("demo", seed=4).seed == 4
    assert recipe("demo", prefix_weights="one", subset_weight=0.5).size_weights[0] == 0.5


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({"network": "resnet-ap"}, (64, 10)),
        ({"network": "resnet-ap", "width": 8}, (8, 10)),
        ({"network": "resnet-ap", "depth": 18}, (64, 18)),
        ({"network": "convnet"}, (32, 3)),  # that of the recipe
        ({"network": "own_nets:small"}, (32, 3)),  # decides both itself
    ],
)
def test_another_network_has_its_usual_size(settings: dict[str, object], size: tuple[int, int]) -> None:
    chosen = recipe("demo", **settings)
    assert (chosen.width, chosen.depth) == size


@pytest.mark.parametrize(
    ("setting", "value"), [("period", 3), ("freeze", "never"), ("round_distances", 2), ("subset_weight", 2.0)]
)
def test_setting_that_the_policy_does_not_use_is_refused(setting: str, value: object) -> None:
    with pytest.raises(SettingError, match=rf"`{setting}` needs `policy` mdc.*, not baseline-c\. Leave it out\."):
        recipe("demo", policy="baseline-c", **{setting: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"policy": "mdc", "prefix_weights": "size"}, "`prefix_weights` needs `policy` every-prefix, not mdc"),
        ({"steps": "plain"}, "`steps` needs `pixel_optimiser` sgd, not adam"),
        ({"train_images": 5}, "`train_images` needs `learner` trained, not experts"),
        (
            {"learner": "untrained", "objective": "feature", "experts": 5},
            "`experts` needs `learner` experts or trajectories, not untrained",
        ),
    ],
)
def test_setting_that_the_run_does_not_use_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        recipe("demo", **settings)


def test_unknown_recipe_is_refused() -> None:
    message = f"There is no recipe 'dmeo'. Did you mean demo? Choose {choices(RECIPES)}."
    with pytest.raises(SettingError, match=re.escape(message)):
        recipe("dmeo")


def test_every_named_recipe_states_its_time_and_accuracy() -> None:
    assert all(named.promise for named in RECIPES.values())
    assert RECIPES["paper-cifar10-ipc10"].promise.endswith(
        "hours for baseline-c and 15.1 for mdc; a mean over sizes of 53.2 % for baseline-c and 58.4 % for mdc"
    )


SIX = "color_crop_cutout_flip_scale_rotate"
GRADIENTS = PAPER_CIFAR10.replace(objective="gradient", policy="baseline-c")
IN_NORMALISED_SPACE = GRADIENTS.replace(
    factor=1, sampler="uniform", real_batch=256, pixel_space="normalised", step_after="all-classes", cutmix=0.0
)
DC = IN_NORMALISED_SPACE.replace(
    distance="row-cosine",
    matched_layers="all",
    learner="trained-on-synthetic",
    outer=1000,
    train_batch=256,
    network_lr=0.01,
    network_momentum=0.0,
    network_decay=0.0,
    pixel_lr=0.1,
    init="normal-noise",
    match_augment="none",
    train_augment="none",
    pixel_momentum=0.5,
)
PUBLISHED = {  # what the authors' code has
    "dc": DC,
    "dsa": DC.replace(init="random", match_augment=SIX, train_augment=SIX, composition="dsa"),
    "dm": IN_NORMALISED_SPACE.replace(
        objective="feature",
        learner="untrained",
        pixel_lr=1.0,
        pixel_momentum=0.5,
        outer=200,
        inner=100,
        match_augment=SIX,
        composition="dsa",
        init="random",
        period=10,
    ),
    "dream": GRADIENTS.replace(
        sampler="k-means",
        cluster_every=10,
        cluster_images=0,
        cluster_steps=100,
        init="k-means",
        real_batch=128,
        train_batch=128,
        train_images=2000,
        outer=2000,
        inner=100,
        factor=2,
    ),
}


@pytest.mark.parametrize("ipc", [1, 10, 50])
@pytest.mark.parametrize("method", PUBLISHED)
def test_recipes_of_other_authors_have_their_settings(method: str, ipc: int) -> None:
    loops = {1: (1, 1), 10: (10, 50), 50: (50, 10)}[ipc]
    of_size = {"inner": loops[0], "train_epochs": loops[1]} if method in ("dc", "dsa") else {}
    assert recipe(f"{method}-cifar10-ipc{ipc}") == PUBLISHED[method].replace(ipc=ipc, **of_size)


@pytest.mark.parametrize(
    ("ipc", "steps", "starts", "rate", "rate_lr"),
    [(1, 50, 5, 1e-2, 1e-7), (10, 30, 15, 1e-2, 1e-5), (50, 30, 40, 1e-3, 1e-5)],
)
def test_recipes_of_mtt_have_its_settings_without_whitening(
    ipc: int, steps: int, starts: int, rate: float, rate_lr: float
) -> None:
    chosen = recipe(f"mtt-cifar10-ipc{ipc}")
    students = {"student_steps": steps, "student_batch": 0, "student_sizes": 0}
    rates = {"student_lr": rate, "student_lr_lr": rate_lr, "student_lr_momentum": 0.5}
    experts = {"experts": 100, "expert_starts": starts, "expert_ahead": 2, "snapshot_steps": 50_000 // 256}
    training = {"network_lr": 0.01, "network_momentum": 0.0, "network_decay": 0.0, "train_batch": 256, "cutmix": 0.0}
    pixels = {"pixel_lr": 1e3, "pixel_momentum": 0.5, "pixel_space": "normalised", "step_after": "all-classes"}
    augmentation = {"train_augment": SIX, "composition": "dsa", "match_augment": "none"}
    augmentation["resampling"] = "centres"
    network = {"network": "convnet", "width": 128, "depth": 3, "init": "random", "factor": 1, "policy": "baseline-c"}
    expected = {**students, **rates, **experts, **training, **pixels, **augmentation, **network}
    assert {name: getattr(chosen, name) for name in expected} == expected
    assert chosen.outer * chosen.inner == 5000
    assert recipe("mtt-cifar10-ipc10", ipc=20).expert_starts == 15


def test_loops_of_dc_follow_the_images_per_class() -> None:
    theirs = {1: (1, 1), 10: (10, 50), 20: (20, 25), 30: (30, 20), 40: (40, 15), 50: (50, 10)}
    ours = {2: (2, 50), 9: (9, 50), 15: (15, 50), 25: (25, 25), 100: (100, 10)}
    for ipc, loops in (theirs | ours).items():
        assert tuple(dc_loops(ipc).values()) == loops
    changed = recipe("dsa-cifar10-ipc10", ipc=5)
    assert (changed.inner, changed.train_epochs) == (5, 50)
    assert recipe("dsa-cifar10-ipc10", ipc=5, inner=3).inner == 3
    assert [recipe("dm-cifar10-ipc10", ipc=ipc).pixel_lr for ipc in (50, 100)] == [1.0, 10.0]
