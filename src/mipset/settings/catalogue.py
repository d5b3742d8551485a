"""Named recipes: settings for a dataset, with their time and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mipset.errors import SettingError, choices, choose
from mipset.settings.architecture import NETWORKS
from mipset.settings.paper import ACCURACIES
from mipset.settings.paper_recipes import DREAM, PAPER_CIFAR10, SIZES, Authors, paper_recipe, source_of
from mipset.settings.recipe import Recipe

SizeRule = Callable[[int], Mapping[str, Any]]  # from the images per class to settings


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe for a dataset, with its time and accuracy."""

    dataset: str
    recipe: Recipe
    promise: str
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # other settings, for a method or a policy
    by_ipc: SizeRule = lambda _: {}  # settings that follow from the images per class
    authors: Authors | None = None  # of a method that is not the paper's


# The best accuracy for a few minutes: first-order matching at experts (see "What to match" in docs/results.md).
_FAST = PAPER_CIFAR10.replace(
    policy="every-prefix",
    prefix_weights="inverse",
    objective="layered+10*confidence/2",
    learner="experts",
    experts=2,
    expert_steps=800,
    network_lr=0.03,
    train_augment="none",
    cutmix=0.0,
    init="herding",
    pixel_optimiser="adam",
    pixel_lr=0.05,
    width=64,
    outer=23,
    inner=10,
    period=2,
)
# Gradient matching as in the paper, with some thousandths of its work: fewer and narrower networks, larger steps.
_GRADIENT = PAPER_CIFAR10.replace(width=64, outer=20, inner=10, train_images=512, period=2, pixel_lr=0.01)

_PHOTOGRAPHS = _FAST.replace(train_augment="flip", depth=5, factor=3)
OWN_DATA = "own-cpu"
_UNMEASURED = "not measured; give a budget of time"

# The methods of other authors, with their settings for CIFAR-10. Each names the axes in which it differs from IDC.
_ALL_OPERATIONS = "color_crop_cutout_flip_scale_rotate"
_DC_LOOPS = {1: (1, 1), 10: (10, 50), 20: (20, 25), 30: (30, 20), 40: (40, 15), 50: (50, 10)}


def dc_loops(ipc: int) -> Mapping[str, Any]:
    """How often DC and DSA match at one network, and the epochs on S in between, by the images per class.

    For a size that their table does not have: as many matches as images per class, and the epochs of the next smaller
    size of the table; 50 below 10.
    """
    smaller = max((size for size in _DC_LOOPS if 10 <= size <= ipc), default=10)
    matches, epochs = _DC_LOOPS.get(ipc, (ipc, _DC_LOOPS[smaller][1]))
    return {"inner": matches, "train_epochs": epochs}


def dm_rate(ipc: int) -> Mapping[str, Any]:
    """The pixel learning rate of DM, which is larger from 100 images per class on."""
    return {"pixel_lr": 10.0 if ipc >= 100 else 1.0}


_NORMALISED = PAPER_CIFAR10.replace(  # DC, DSA and DM
    factor=1, sampler="uniform", real_batch=256, pixel_space="normalised", step_after="all-classes", cutmix=0.0
)
_DC = _NORMALISED.replace(
    distance="row-cosine",
    matched_layers="all",
    learner="trained-on-synthetic",
    init="normal-noise",
    pixel_lr=0.1,
    match_augment="none",
    outer=1000,
    inner=10,
    train_epochs=50,
    train_batch=256,
    train_augment="none",
    network_momentum=0.0,
    network_decay=0.0,
)
_DSA = _DC.replace(init="random", composition="dsa", match_augment=_ALL_OPERATIONS, train_augment=_ALL_OPERATIONS)
_DM = _NORMALISED.replace(
    objective="feature",
    learner="untrained",
    init="random",
    pixel_lr=1.0,
    composition="dsa",
    match_augment=_ALL_OPERATIONS,
    outer=200,  # x 100 = 20,000 networks; so a selection of mdc averages over 100 of them
    period=10,
)
_MTT = PAPER_CIFAR10.replace(
    policy="baseline-c",
    objective="trajectory",
    learner="trajectories",
    experts=100,
    snapshot_steps=195,  # of 256 images: an epoch
    init="random",
    factor=1,
    pixel_lr=1000.0,
    pixel_space="normalised",
    step_after="all-classes",
    match_augment="none",
    composition="dsa",
    resampling="centres",
    train_augment=_ALL_OPERATIONS,
    train_batch=256,
    cutmix=0.0,
    network_momentum=0.0,
    network_decay=0.0,
    outer=500,  # x 10 = 5,000 students; so a selection of mdc averages over 10 of them
    inner=10,
    period=25,
)
_MTT_STUDENTS = {  # by the images per class, without ZCA
    1: {"student_steps": 50, "expert_starts": 5, "student_lr": 0.01, "student_lr_lr": 1e-7},
    10: {"student_steps": 30, "expert_starts": 15, "student_lr": 0.01, "student_lr_lr": 1e-5},
    50: {"student_steps": 30, "expert_starts": 40, "student_lr": 0.001, "student_lr_lr": 1e-5},
}


def mtt_students(ipc: int) -> Mapping[str, Any]:
    """The settings of students in MTT; for a size that its table does not have, those of the next smaller one."""
    return _MTT_STUDENTS[max(size for size in _MTT_STUDENTS if size <= ipc)]


_DREAM = PAPER_CIFAR10.replace(**DREAM)

# Settings of these methods that their authors do not have. Iterations of DM and MTT are divided into outer ones by us.
_NOT_OF_AUTHORS = {
    "DM": ("outer", "inner", "matched_layers"),
    "MTT": ("outer", "inner", "matched_layers", "distance", "real_batch", "sampler", "match_augment"),
}


def _authors(title: str, base: Recipe, ipc: int = 10, by_ipc: SizeRule = lambda _: {}) -> Authors:
    """What the authors of a method have chosen for so many images per class."""
    return Authors.of_all(base.replace(ipc=ipc, **by_ipc(ipc)), *_NOT_OF_AUTHORS.get(title, ()))


def _as_published(
    title: str, base: Recipe, promises: Mapping[int, str], by_ipc: SizeRule = lambda _: {}
) -> dict[str, NamedRecipe]:
    """The recipes of a method for CIFAR-10, one for each size that its authors have, without a policy of ours."""
    alone = base.replace(policy="baseline-c")
    return {
        f"{title.lower()}-cifar10-ipc{ipc}": NamedRecipe(
            "cifar10",
            alone.replace(ipc=ipc, **by_ipc(ipc)),
            f"{title} with its authors' settings{promise}",
            by_ipc=by_ipc,
            authors=_authors(title, alone, ipc, by_ipc),
        )
        for ipc, promise in promises.items()
    }


def _they_report(accuracies: Mapping[int, float]) -> dict[int, str]:
    return {ipc: f", not run by us; they report {accuracy} %" for ipc, accuracy in accuracies.items()}


def _reported(dataset: str, ipc: int) -> str:
    """What the paper reports of a recipe: the hours of a run, and mean accuracies over all sizes."""
    curves = ACCURACIES.get((dataset, ipc), {})
    if not all(len(curves.get(method, ())) == ipc for method in ("baseline-c", "mdc")):
        return "the settings of the paper for MDC on IDC"
    basic, mdc = (sum(curves[method].values()) / ipc for method in ("baseline-c", "mdc"))
    hours = "11.5 hours for baseline-c and 15.1 for mdc; " if dataset == "cifar10" else ""
    return f"the paper reports {hours}a mean over sizes of {basic:.1f} % for baseline-c and {mdc:.1f} % for mdc"


_CLUSTERING = ("cluster_every", "cluster_images", "cluster_steps")  # DREAM's too; the defaults are its values


def _paper_recipes(suffix: str = "", changes: Mapping[str, Any] | None = None) -> dict[str, NamedRecipe]:
    """The recipes of the paper, with IDC as the basic condensation, or with the `changes` of another one.

    None is the first one of its dataset.
    """
    recipes = {}
    for dataset, sizes in SIZES.items():
        tuned = {"baseline-c": {"distance": "l1"}} if dataset == "imagenet10" else {}  # IDC alone matches with L1 there
        for ipc in sizes:
            reported = (
                f"the settings of the paper for MDC on {suffix[1:].upper()}" if suffix else _reported(dataset, ipc)
            )
            settings = paper_recipe(dataset, ipc, **(changes or {}))
            name = f"paper-{dataset}-ipc{ipc}{suffix}"
            authors = Authors(settings, (*changes, *_CLUSTERING)) if changes else None
            recipes[name] = NamedRecipe(dataset, settings, f"not run by us; {reported}", tuned, authors=authors)
    return recipes


RECIPES = {
    "fashion-mini-cpu": NamedRecipe(
        "fashion-mini",
        _FAST.replace(width=32, expert_steps=200, outer=8, period=1),
        "half a minute of one core; with the objective characteristic+10*confidence, mean of sizes 1-10 (quick): "
        "baseline-c 77.1, mdc 77.1, every-prefix 77.3 %",
    ),
    # Starts from noise, with one training image in each stored image: then even a short run tells the policies apart.
    "demo": NamedRecipe(
        "fashion-mini",
        _FAST.replace(width=32, expert_steps=200, outer=8, period=1, init="noise", factor=1),
        "half a minute of one core; mean of sizes 1-10 (quick): baseline-c 71.1, mdc 73.0, every-prefix 74.0 %",
    ),
    "fashion-mini-gradient-cpu": NamedRecipe(
        "fashion-mini",
        _GRADIENT.replace(width=32, outer=4, train_images=256, period=1, pixel_lr=0.1),
        "under a minute on 2 cores; mean of sizes 1-10 (quick): baseline-c 74.7, mdc 74.7, every-prefix 74.9 %",
        tuned={"every-prefix-balanced": {"pixel_lr": 0.3}},  # on held-out images better than 0.1, unlike for the others
    ),
    "cifar10-cpu": NamedRecipe(
        "cifar10",
        _FAST.replace(train_augment="flip"),
        "3.5 minutes of one core; mean of sizes 1-10 (standard): baseline-c 54.8, mdc 56.4, every-prefix 57.4 %",
    ),
    "cifar10-gradient-cpu": NamedRecipe(
        "cifar10",
        _GRADIENT.replace(outer=13, pool=3, life=5, pixel_lr=0.3),
        "some 2 minutes on 2 cores; mean of sizes 1-10 (quick): baseline-c 34.2, mdc 37.1, every-prefix 40.0 %",
        # Rates are the best of 0.01 to 1 on held-out training images; iterations are for equal time (docs/results.md).
        tuned={"every-prefix-plain": {"outer": 12, "pixel_lr": 0.01}, "every-prefix-balanced": {"outer": 12}},
    ),
    "cifar10-dc-cpu": NamedRecipe(
        "cifar10",
        _DC.replace(width=64, real_batch=64, outer=14, train_epochs=10, period=2, pixel_lr=3.0),
        "DC in some 3.5 minutes of one core; every-prefix at sizes 1, 3 and 10 (standard): 23.9, 33.2 and 40.1 %",
        authors=_authors("DC", _DC, by_ipc=dc_loops),
    ),
    "cifar10-dsa-cpu": NamedRecipe(
        "cifar10",
        _DSA.replace(width=64, real_batch=64, outer=14, train_epochs=10, period=2, pixel_lr=3.0),
        "DSA in some 3.5 minutes of one core; every-prefix at sizes 1, 3 and 10 (standard): 23.1, 33.8 and 42.4 %",
        authors=_authors("DSA", _DSA, by_ipc=dc_loops),
    ),
    "cifar10-dm-cpu": NamedRecipe(
        "cifar10",
        _DM.replace(width=64, real_batch=64, outer=64, inner=10, period=10, pixel_lr=10.0),
        "DM in some 3.5 minutes of one core; every-prefix at sizes 1, 3 and 10 (standard): 27.2, 32.7 and 44.4 %",
        authors=_authors("DM", _DM, by_ipc=dm_rate),
    ),
    # A tenth of the steps of an expert, and students of a third of the steps on a fifth of the images.
    "cifar10-mtt-cpu": NamedRecipe(
        "cifar10",
        _MTT.replace(
            width=64,
            resampling="edges",  # with which its rates were chosen
            experts=4,
            snapshot_steps=50,
            expert_starts=5,
            network_lr=0.03,
            train_batch=64,
            student_steps=10,
            student_batch=20,
            student_lr=0.02,
            student_lr_lr=1e-5,
            real_batch=16,
            outer=12,
            period=2,
        ),
        "MTT in some 3.5 minutes of one core: 4 experts instead of 100, students of 10 steps on 20 images; "
        "every-prefix at sizes 1, 3 and 10 (standard): 22.0, 34.6 and 46.7 %",
        # For equal time: the subset of mdc has a student too, and every-prefix draws one size in each iteration.
        tuned={
            "mdc": {"outer": 8},
            "every-prefix-balanced": {"student_sizes": 1, "student_lr_lr": 1e-6},
            "every-prefix-plain": {"student_sizes": 1, "student_lr_lr": 1e-6},
        },
        authors=_authors("MTT", _MTT, by_ipc=mtt_students),
    ),
    "cifar10-dream-cpu": NamedRecipe(
        "cifar10",
        _GRADIENT.replace(
            outer=11,
            pool=3,
            life=5,
            pixel_lr=0.3,
            init="k-means",
            sampler="k-means",
            cluster_images=512,
            cluster_steps=3,
        ),
        "DREAM in some 3.5 minutes of one core; every-prefix at sizes 1, 3 and 10 (standard): 38.5, 45.5 and 51.4 %",
        authors=_authors("DREAM", _DREAM),
    ),
    "fashion-mnist-cpu": NamedRecipe(
        "fashion-mnist",
        _FAST,
        "3 minutes of one core; with the objective characteristic+10*confidence, every-prefix at sizes 1, 3 and 10 "
        "(standard): 80.4, 81.7 and 82.9 %",
    ),
    "fashion-mnist-gradient-cpu": NamedRecipe(
        "fashion-mnist",
        _GRADIENT.replace(outer=13, pool=3, life=5, pixel_lr=0.03),
        "some 2 minutes on 2 cores; mean of sizes 1-10 (quick): baseline-c 75.0, mdc 75.6, every-prefix 75.5 %",
        tuned={"every-prefix-balanced": {"outer": 12}},  # chosen in the same way
    ),
    # Experts that know only clean digits are too sure of them: their confidence harms every size.
    "mnist-cpu": NamedRecipe(
        "mnist",
        _FAST.replace(objective="layered", train_augment="color_crop_cutout"),
        "2 minutes of one core; every-prefix at sizes 1, 3 and 10 (standard, held-out images): 93.3, 95.5 and 97.5 %",
    ),
    "svhn-cpu": NamedRecipe(
        "svhn",
        _FAST,
        "3 minutes of one core; on 1,000 images of each class, mean of sizes 1-10 (standard): "
        "baseline-c 71.0, mdc 73.6, every-prefix 75.3 %",
    ),
    "cifar100-cpu": NamedRecipe(
        "cifar100",
        _FAST.replace(train_augment="flip"),
        "about half an hour of one core; its accuracy was not measured",
    ),
    # Larger images: one block of the network more for each doubling of the resolution, and factor 3 at 224 pixels.
    "stl10-cpu": NamedRecipe("stl10", _FAST.replace(train_augment="flip", depth=4), _UNMEASURED),
    "eurosat-cpu": NamedRecipe("eurosat", _FAST.replace(train_augment="flip", depth=4), _UNMEASURED),
    "tiny-imagenet-cpu": NamedRecipe("tiny-imagenet", _FAST.replace(train_augment="flip", depth=4), _UNMEASURED),
    "imagenette-cpu": NamedRecipe("imagenette", _PHOTOGRAPHS, _UNMEASURED),
    "imagenet10-cpu": NamedRecipe("imagenet10", _PHOTOGRAPHS, _UNMEASURED),
    OWN_DATA: NamedRecipe(
        "folder:PATH",
        _FAST,
        "for your own data, in the time of the budget that you choose",
    ),
    **_paper_recipes(),
    **_paper_recipes("-dream", DREAM),
    **_as_published("DC", _DC, _they_report({1: 28.3, 10: 44.9, 50: 53.9}), dc_loops),
    **_as_published("DSA", _DSA, _they_report({1: 28.8, 10: 52.1, 50: 60.6}), dc_loops),
    **_as_published("DM", _DM, _they_report({1: 26.0, 10: 48.9, 50: 63.0}), dm_rate),
    **_as_published("DREAM", _DREAM, _they_report({1: 51.1, 10: 69.4, 50: 74.8})),
    **_as_published(
        "MTT",
        _MTT,
        {
            ipc: f" without ZCA, not run by us{reported}"
            for ipc, reported in {1: "", 10: "; the paper reports 62.8 %", 50: "; the paper reports 71.6 %"}.items()
        },
        mtt_students,
    ),
}


def name_for(dataset: str) -> str:
    """The name of the first recipe made for a dataset, which is the best one, or of the recipe for one's own data."""
    kind = dataset.partition(":")[0]  # cifar10:PATH is cifar10 too
    return next((name for name, named in RECIPES.items() if named.dataset == kind), OWN_DATA)


def recipe(name: str, **changes: Any) -> Recipe:
    """A named recipe, with some settings changed."""
    chosen = settled(name, (), changes)
    check_read(changes, chosen)
    return chosen


def sources(name: str) -> dict[str, str]:
    """Where each setting of a named recipe comes from: the paper, the release, the authors of a method, or us."""
    named, papers = RECIPES[name], name.startswith("paper-")
    settings = vars(named.recipe)
    return {key: source_of(key, value, papers=papers, authors=named.authors) for key, value in settings.items()}


def check_read(changes: Iterable[str], chosen: Recipe) -> None:
    """Refuse settings that a run with the chosen recipe does not use (law 8 in docs/architecture.md)."""
    for setting in changes:
        for other, values in chosen.missing_for(setting).items():
            raise SettingError(
                f"`{setting}` needs `{other}` {choices(values)}, not {getattr(chosen, other)}. Leave it out."
            )


def settled(name: str, tuned_for: Sequence[str], changes: Mapping[str, Any]) -> Recipe:
    """A named recipe with changes, and with the settings that were tuned for a method.

    The first method of `tuned_for` that has tuned settings counts, or else the policy. Balanced and plain steps need
    different settings, so the policy every-prefix has two names here: every-prefix-balanced and every-prefix-plain.
    """
    if name not in RECIPES:
        raise SettingError(f"There is no recipe {name!r}. {choose(name, RECIPES)}.")
    named = RECIPES[name]
    changes = {**_usual_size(named.recipe, changes), **changes}
    by_ipc = named.by_ipc(changes["ipc"]) if "ipc" in changes else {}
    changed = named.recipe.replace(**changes)
    policy = f"{changed.policy}-{changed.steps}" if changed.policy == "every-prefix" else changed.policy
    tuned = next((named.tuned[method] for method in (*tuned_for, policy) if method in named.tuned), {})
    return named.recipe.replace(**{**by_ipc, **tuned, **changes})


def _usual_size(base: Recipe, changes: Mapping[str, Any]) -> dict[str, int]:
    """The usual width and depth of a network that is not the one of the recipe: those of the recipe are for its own."""
    name = changes.get("network", base.network)
    if name == base.network or name not in NETWORKS:
        return {}
    return {"width": NETWORKS[name].width, "depth": NETWORKS[name].depth}
