"""Counts against numbers worked out by hand, and estimates against what was measured."""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import mipset
from mipset.condensing import assembly, costs
from mipset.condensing.assembly import assemble, work
from mipset.condensing.condense import condense, update
from mipset.condensing.costs import BASELINE, Cost, cost, passes, processor_seconds, timed
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.nn.flops import learning_flops
from mipset.nn.networks import builder
from mipset.settings.architecture import NETWORKS, Architecture
from mipset.settings.choices import DISTANCES, LEARNERS
from mipset.settings.paper_recipes import PAPER_CIFAR10
from mipset.settings.recipe import Recipe

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CIFAR10 = ((3, 32, 32), 10, 50_000)
SMALL = Recipe(ipc=3, width=8, depth=2, outer=5, inner=4, real_batch=6, train_images=20, train_batch=8)

# ConvNet-3 of width 128 on 32 x 32 pixels: FLOPs of its three convolutions and of its classifier, for one image.
FIRST = 2 * 27 * 128 * 32 * 32
OTHERS = 2 * 1152 * 128 * 16 * 16 + 2 * 1152 * 128 * 8 * 8
CLASSIFIER = 2 * 2048 * 10


def small(recipe: Recipe = SMALL, classes: int = 4, size: int = 16) -> Cost:
    return cost(recipe, (3, size, size), classes, 100)


def test_flops_of_convolutions_equal_a_count_by_hand() -> None:
    counted = cost(PAPER_CIFAR10, *CIFAR10)
    # a forward pass, then the gradients of the weights and of every input but the images'
    assert counted.target_flops == 64 * (2 * FIRST + 3 * OTHERS + 2 * CLASSIFIER)  # no gradient of the classifier
    assert counted.step_flops == 64 * (2 * FIRST + 3 * OTHERS + 3 * CLASSIFIER)
    # forward, slopes and weight gradients; then back through all of it to the images
    least = 40 * (5 * FIRST + 7 * OTHERS + 4 * CLASSIFIER)
    assert least <= counted.distances_flops <= 1.2 * least
    assert counted.parameters == 320_010


def test_flops_of_a_run_are_the_sum_of_its_steps() -> None:
    counted = cost(PAPER_CIFAR10, *CIFAR10)
    assert (counted.matches, counted.training_steps) == (2_000_000, 2000 * 99 * 32)
    assert counted.run_flops == counted.matches * counted.match_flops + counted.training_steps * counted.step_flops
    assert counted.inner_flops == 10 * counted.match_flops + 32 * counted.step_flops
    assert counted.seconds(2.0, 1.0) == 2 * counted.matches + counted.training_steps
    once = small(SMALL.replace(inner=1))
    assert once.training_steps == 0
    assert once.run_flops == 5 * 4 * once.match_flops
    assert small().steps == 3  # 20 images in batches of 8


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("policy", ["baseline-c", "every-prefix"])
def test_real_run_has_as_many_flops_as_were_counted(toy: Dataset, recipe: Recipe, policy: str, distance: str) -> None:
    chosen = recipe.replace(policy=policy, distance=distance, train_batch=7, train_images=20)
    parts = assemble(chosen, toy)
    with FlopCounterMode(display=False) as counter:
        for _ in condense(parts):
            pass
    assert counter.get_total_flops() == cost(chosen, toy.shape, toy.classes, len(toy.train)).run_flops


@pytest.mark.parametrize(
    ("objective", "learner"),
    [
        *itertools.product(["feature", "characteristic", "gradient+0.1*feature"], LEARNERS),
        *itertools.product(["feature+2*confidence", "feature+2*confidence/2"], ["trained", "experts"]),
    ],
)
def test_real_run_of_every_objective_and_learner_has_as_many_flops_as_were_counted(
    toy: Dataset, recipe: Recipe, objective: str, learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "home", lambda: tmp_path)  # without experts of other tests
    chosen = recipe.replace(policy="every-prefix", objective=objective, learner=learner, experts=2, expert_steps=3)
    chosen = chosen.replace(train_epochs=2, train_batch=9)  # 36 synthetic images
    chosen = chosen.replace(snapshot_steps=2, expert_starts=2, expert_ahead=1)
    with FlopCounterMode(display=False) as counter:
        for _ in condense(assemble(chosen, toy)):
            pass
    assert counter.get_total_flops() == cost(chosen, toy.shape, toy.classes, len(toy.train)).run_flops


@pytest.mark.parametrize("pool", [{}, {"pool": 2, "life": 3}], ids=["new", "pool"])
def test_early_training_is_counted(toy: Dataset, recipe: Recipe, pool: dict[str, int]) -> None:
    chosen = recipe.replace(policy="every-prefix", outer=5, early_epochs=2, train_batch=7, **pool)
    counted = cost(chosen, toy.shape, toy.classes, len(toy.train))
    parts = assemble(chosen, toy)
    with FlopCounterMode(display=False) as counter:
        for _ in condense(parts):
            pass
    assert counter.get_total_flops() == counted.run_flops
    early = chosen.networks * 2 * (len(toy.train) // 7)
    assert counted.training_steps == chosen.training_steps(toy.classes) + early
    assert passes(chosen, toy.shape, toy.classes, len(toy.train)).backward == (
        passes(chosen.replace(early_epochs=0), toy.shape, toy.classes, len(toy.train)).backward + early
    )


@pytest.mark.parametrize("init", ["herding", "k-means"])
def test_looking_at_real_images_is_counted(toy: Dataset, recipe: Recipe, init: str) -> None:
    with FlopCounterMode(display=False) as counter:
        assemble(recipe.replace(init=init), toy)
    plain, looking = (
        cost(r, toy.shape, toy.classes, len(toy.train)).run_flops for r in (recipe, recipe.replace(init=init))
    )
    assert counter.get_total_flops() == looking - plain


def test_clustering_is_counted_once_in_an_interval() -> None:
    plain, clustered, rarely, fewer = (
        small(SMALL.replace(**settings))
        for settings in (
            {},
            {"sampler": "k-means", "cluster_every": 2, "cluster_steps": 9},
            {"sampler": "k-means", "cluster_every": 3, "cluster_steps": 9},
            {"sampler": "k-means", "cluster_every": 2, "cluster_steps": 9, "cluster_images": 12},
        )
    )
    look = 16 * 16 * 2 * 27 * 8 + 8 * 8 * 2 * 72 * 8  # of one image
    distances = 2 * (8 * 4 * 4) * 6 * 25 * 10  # of 25 images from 6 centroids, at the most
    assert clustered.sampling_flops == (25 + 6) * look // 2 + distances // 2  # 2 of 4 inner iterations
    assert rarely.sampling_flops == clustered.sampling_flops  # in the first one and in the fourth
    assert fewer.sampling_flops == round((12 + 6) * look / 2 + distances * 12 / 25 / 2)
    assert clustered.match_flops == plain.match_flops + clustered.sampling_flops
    assert clustered.compared_flops == plain.match_flops


@pytest.mark.parametrize("objective", ["gradient", "feature+confidence"])
@pytest.mark.parametrize("policy", ["mdc", "mdc-per-class"])
def test_match_after_the_first_choice_has_as_many_flops_as_were_counted(
    toy: Dataset, recipe: Recipe, policy: str, objective: str
) -> None:
    chosen = recipe.replace(policy=policy, objective=objective, period=5)
    parts = assemble(chosen, toy)
    theta = parts.learner.start(1)
    parts.policy.select(1, torch.zeros(toy.classes, chosen.ipc))
    with FlopCounterMode(display=False) as counter:
        update(parts, theta, t=2, e=1, group=[0])
    assert counter.get_total_flops() == cost(chosen, toy.shape, toy.classes, len(toy.train)).match_flops


def test_flops_grow_with_classes_and_images() -> None:
    few, many = small(classes=4), small(classes=40)
    assert many.target_flops == pytest.approx(few.target_flops, rel=0.05)  # a larger classifier
    assert many.classes * many.match_flops == pytest.approx(10 * few.classes * few.match_flops, rel=0.05)
    assert small(SMALL.replace(ipc=9)).distances_flops == 3 * small().distances_flops
    assert small(SMALL.replace(real_batch=12)).target_flops == 2 * small().target_flops
    assert small(SMALL.replace(factor=1)).distances_flops * 4 == small().distances_flops


def test_more_sizes_need_more_memory_and_hardly_more_flops() -> None:
    none, mdc, every = (small(SMALL.replace(policy=policy)) for policy in ("baseline-c", "mdc", "every-prefix"))
    assert none.match_flops <= mdc.match_flops <= every.match_flops <= 1.1 * none.match_flops
    assert none.working_bytes <= mdc.working_bytes <= every.working_bytes
    assert none.working_bytes < every.working_bytes
    assert small(SMALL.replace(policy="mdc-per-class")) == mdc


def test_estimated_memory_grows_with_images_width_and_classes() -> None:
    least = small()
    assert least.max_memory > BASELINE
    for larger in (
        small(SMALL.replace(ipc=30)),
        small(SMALL.replace(width=16)),
        small(SMALL.replace(train_batch=64)),
        small(size=32),
        small(classes=400),
        cost(SMALL, (3, 16, 16), 4, 100, test_images=100),
        cost(SMALL, (3, 16, 16), 4, 10_000),
    ):
        assert larger.max_memory > least.max_memory
    assert small().synthetic_bytes == 2 * 4 * 3 * 4 * 3 * 16 * 16
    assert small(SMALL.replace(init="noise")).starting_bytes == 0


def test_working_memory_holds_what_a_backward_pass_needs() -> None:
    """Of every block its input, its convolution and its norm; but not many times over."""
    counted = cost(PAPER_CIFAR10, *CIFAR10)
    kept = 64 * 4 * 128 * (2 * 1024 + 3 * 256 + 3 * 64)
    assert kept < counted.working_bytes < 4 * kept


def test_counting_imagenet_takes_seconds_and_draws_nothing() -> None:
    """ImageNet by the paper's settings, which no test machine could hold."""
    start, before = time.monotonic(), torch.get_rng_state()
    counted = cost(Recipe(ipc=20, factor=3, depth=5), (3, 224, 224), 1000, 1_281_167, 50_000)
    assert time.monotonic() - start < 30
    assert torch.equal(torch.get_rng_state(), before)
    assert counted.max_memory > 200e9
    assert counted.run_flops > 1e21


def test_recipe_that_cannot_run_cannot_be_counted() -> None:
    with pytest.raises(SettingError, match=r"2 x 2 pixels are too few\. Choose a smaller `depth`"):
        small(size=2)
    with pytest.raises(SettingError, match="no augmentation 'blur'"):
        small(SMALL.replace(match_augment="blur"))


@pytest.mark.parametrize("augment", ["none", "flip_color_crop_cutout", "scale", "rotate"])
@pytest.mark.parametrize("distance", ["squared", "l1", "row-cosine"])
def test_every_augmentation_and_distance_can_be_counted(augment: str, distance: str) -> None:
    plain = small()
    counted = small(SMALL.replace(match_augment=augment, train_augment=augment, distance=distance, init="noise"))
    assert counted.match_flops == plain.match_flops


@pytest.mark.parametrize("name", NETWORKS)
def test_flops_of_learning_from_one_image_equal_those_that_torch_counts(name: str) -> None:
    """A forward pass, then the gradients of the weights and of every input but the image's."""
    architecture, shape = Architecture.named(name), (3, 32, 32)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        theta, image = builder(architecture, shape, 10)(), torch.zeros(1, *shape)
    with FlopCounterMode(display=False) as counter:
        torch.autograd.grad(theta(image).sum(), list(theta.parameters()))
    assert learning_flops(architecture, shape, 10) == counter.get_total_flops()


@pytest.mark.parametrize("changes", [{}, {"objective": "feature", "learner": "experts"}, {"width": 40, "ipc": 9}])
def test_work_is_known_without_counting_every_step(changes: dict[str, Any]) -> None:
    """It decides between plain torch and compiled kernels before the parts of a run exist."""
    r = SMALL.replace(**changes)
    assert work(r, (3, 16, 16), 4) == pytest.approx(small(r).run_flops, rel=0.5)


def test_costs_of_very_many_images_are_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = small(SMALL.replace(ipc=12, policy="every-prefix"))
    monkeypatch.setattr("mipset.condensing.costs.MOST_COUNTED", 6)
    estimated = small(SMALL.replace(ipc=12, policy="every-prefix"))
    assert estimated.stored_pixels == exact.stored_pixels
    assert estimated.run_flops == pytest.approx(exact.run_flops, rel=0.1)
    assert exact.working_bytes <= estimated.working_bytes <= 2 * exact.working_bytes


def test_residual_network_can_be_counted() -> None:
    counted = small(SMALL.replace(network="resnet-ap", depth=10))
    assert counted.match_flops > small().match_flops


def test_large_steps_are_timed_with_fewer_images() -> None:
    shape, device = (3, 16, 16), torch.device("cpu")
    match, step = timed(SMALL, shape, 4, device)
    assert 0 < step < 10
    assert 0 < match < 10
    # too large for a probe: the work of hours is estimated in moments
    start = time.monotonic()
    large = Recipe(ipc=3, policy="every-prefix", prefix_weights="1,2,3", width=64, real_batch=10**6, train_batch=10**6)
    match, step = timed(large, (3, 32, 32), 4, device)
    assert time.monotonic() - start < 60
    assert min(match, step) > 60


@pytest.mark.parametrize(
    ("recipe_name", "learning"),
    [
        pytest.param("fashion-mini-gradient-cpu", {"train_images": 128}, marks=pytest.mark.slow),
        ("demo", {"expert_steps": 4}),
    ],
)
def test_estimated_memory_is_near_the_measured_one(tmp_path: Path, recipe_name: str, learning: dict[str, int]) -> None:
    """Measured with the real command, in a process of its own."""
    settings = {"ipc": 8, "width": 32, "outer": 1, "inner": 3, **learning}
    flags = ["--recipe", recipe_name]
    flags += [part for name, value in settings.items() for part in ("--" + name.replace("_", "-"), str(value))]
    command = [sys.executable, "-m", "mipset", "condense", "fashion-mini", "--threads", "1", "--out", "x", *flags]
    code = f"import resource, subprocess; subprocess.run({command!r}, check=True, stdout=subprocess.DEVNULL); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    unit = 1 if sys.platform == "darwin" else 1024
    measured = int(done.stdout) * unit
    estimated = cost(mipset.recipe(recipe_name, **settings), (1, 28, 28), 10, 5000, 2000).max_memory
    assert 0.6 < estimated / measured < 1.7, f"estimated {estimated:.3g}, measured {measured:.3g}"


@pytest.mark.slow  # counts ImageNet
def test_table_in_docs_scaling_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("scaling", BENCHMARKS / "scaling.py")
    assert spec is not None
    assert spec.loader is not None
    scaling = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = scaling  # where its dataclasses look for their types
    spec.loader.exec_module(scaling)
    document = scaling.DOCUMENT.read_text(encoding="utf-8")
    assert document.count(scaling.BEGIN) == document.count(scaling.END) == 1
    assert scaling.updated(document, scaling.counted()) == document, "run benchmarks/scaling.py"


def test_passes_of_a_term_with_a_period_are_counted_where_it_counts() -> None:
    r = SMALL.replace(objective="feature+confidence/2", learner="experts", outer=1, inner=3, experts=1, expert_steps=1)
    counted = passes(r, (3, 8, 8), 4, 20)
    assert (counted.forward, counted.backward) == (4 * (3 * 2 + 2) + 1, 4 * (3 + 2) + 1)


def test_processor_time_is_measured_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads spend processor time on waiting for cores that are busy: budgets bought too little with it."""
    used = []

    def fastest(_: object, __: object, clock: object) -> float:
        used.append((torch.get_num_threads(), clock))
        return 1.0

    monkeypatch.setattr(costs, "_fastest", fastest)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        processor_seconds(SMALL, (3, 16, 16), 4, torch.device("cpu"))
        assert used == [(1, time.process_time)] * 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
