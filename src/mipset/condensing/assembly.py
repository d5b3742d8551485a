"""Assembly: how a recipe becomes the parts of Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mipset.condensing.checks import check_fit
from mipset.condensing.condense import Parts
from mipset.condensing.learners import TrainedOnReal
from mipset.condensing.metrics import AccuracyDifference, FeatureDistance, GradientDistance, Metric
from mipset.condensing.objectives import L1, Distance, GradientMatching, Objective, RowCosine, Squared
from mipset.condensing.policies import (
    BaselineC,
    EveryPrefix,
    FreezeRule,
    Held,
    MostLearnableSubset,
    NeverFreeze,
    PerClass,
    Policy,
    Predecessor,
    Ratchet,
)
from mipset.condensing.samplers import ShuffledEpochs
from mipset.condensing.synthetic import Synthetic, formation, from_noise, from_real
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.nn.augment import augmentation
from mipset.nn.distributed import ALONE, Team
from mipset.nn.engines import Engine
from mipset.nn.networks import Network, network_builder
from mipset.nn.training import Images, Schedule, TrainingRule
from mipset.settings.recipe import Recipe


def policy(r: Recipe, classes: int, held: Sequence[int] = ()) -> Policy:
    """The policy that the recipe names, before it has decided anything.

    Where the first images of each class are `held`, a size is chosen only if it can still change in some class, and by
    the classes that can.
    """

    least = [1 + images for images in held or [0] * classes]
    moving = [c for c in range(classes) if least[c] <= r.ipc]

    def mdc(least: int, classes: list[int] | None = None) -> MostLearnableSubset:
        decimals = None if r.round_distances < 0 else r.round_distances
        return MostLearnableSubset(r.ipc, r.period, _freeze_rule(r), r.subset_weight, decimals, least, classes)

    makers: dict[str, Callable[[], Policy]] = {
        "baseline-c": lambda: BaselineC(r.ipc),
        "mdc": lambda: mdc(min(least), moving),
        "mdc-per-class": lambda: PerClass(tuple(map(mdc, least))),
        "every-prefix": lambda: EveryPrefix(r.size_weights, balanced=r.steps == "balanced"),
    }
    found = makers[r.policy]()
    return Held(found, tuple(held), r.ipc) if held else found


def _freeze_rule(r: Recipe) -> FreezeRule:

    rules: dict[str, FreezeRule] = {
        "ratchet": Ratchet(),
        "predecessor": Predecessor(),
        "never": NeverFreeze(),
    }
    return rules[r.freeze]


def _distance(r: Recipe) -> Distance:

    distances: dict[str, Distance] = {"squared": Squared(), "l1": L1(), "row-cosine": RowCosine()}
    return distances[r.distance]


def metric(r: Recipe, build: Callable[[], Network], real: Images) -> Metric:
    """What sizes are compared by, as the recipe names it; the networks of `build` may be trained for it."""

    makers: dict[str, Callable[[], Metric]] = {
        "feature": lambda: FeatureDistance(r.ipc, _distance(r)),
        "gradient": GradientDistance,
        "accuracy": lambda: AccuracyDifference(
            build, real, training_rule(r), Schedule(r.metric_epochs, r.train_batch, even=True), r.seed
        ),
    }
    return makers[r.metric]()


def objective(r: Recipe) -> Objective[Any]:
    """What makes synthetic images like real ones, as the recipe names it."""

    return GradientMatching(_distance(r))


def training_rule(r: Recipe) -> TrainingRule:
    """How the network learns between inner iterations."""

    return TrainingRule(
        r.network_lr,
        r.network_momentum,
        r.network_decay,
        augmentation(r.train_augment),
        r.cutmix,
        half=r.train_precision == "bfloat16",
    )


def assemble(
    r: Recipe,
    data: Dataset,
    device: torch.device | str = "cpu",
    start: Tensor | None = None,
    engine: Engine | None = None,
    team: Team = ALONE,
) -> Parts:
    """The parts of Algorithm 1 for this recipe and these data, as one process of a team needs them.

    `start` holds first pixels in place of the recipe's. `engine` computes networks: plain torch by default;
    `mipset.nn.engines.native()` is several times faster on a CPU.
    """

    check_fit(r, data)
    if team.processes > data.classes:
        raise SettingError(
            f"{team.processes} processes cannot share {data.classes} classes: start {data.classes} or fewer in all."
        )
    pixels, labels = torch.from_numpy(data.train.images), torch.from_numpy(data.train.labels)
    device = torch.device(device)
    real = Images.of(pixels, labels, data.mean, data.std, device)
    form, build = formation(r.factor), network_builder(r.network, data.shape, data.classes, r.width, r.depth, engine)
    first = first_pixels(r, data) if start is None else given_pixels(start, (r.ipc, data.classes, *data.shape))
    return Parts(
        S=Synthetic(
            first.to(device),
            form,
            data.mean,
            data.std,
            rate=r.scaled_pixel_lr(data.shape[1:]),
            momentum=r.pixel_momentum,
        ),
        objective=objective(r),
        sampler=ShuffledEpochs(real, data.classes, r.real_batch, r.seed),
        learner=TrainedOnReal(
            build,
            real,
            training_rule(r),
            batch=r.train_batch,
            batches=r.train_steps,
            seed=r.seed,
            pool=r.pool,
            life=r.life,
            team=team,
        ),
        policy=policy(r, data.classes),
        augmentation=augmentation(r.match_augment),
        metric=metric(r, build, real),
        T=r.outer,
        E=r.inner,
        seed=r.seed,
        classes=team.share(range(data.classes)),
        team=team,
    )


def first_pixels(r: Recipe, data: Dataset) -> Tensor:
    """What the recipe starts from, [N, C, ch, h, w]; a smaller set starts from a prefix of it."""

    check_fit(r, data)
    if r.init == "noise":
        return from_noise((r.ipc, data.classes, *data.shape), r.seed)
    pixels, labels = torch.from_numpy(data.train.images), torch.from_numpy(data.train.labels)
    return from_real([pixels[labels == c] for c in range(data.classes)], r.ipc, formation(r.factor))


def given_pixels(start: Tensor, shape: tuple[int, ...]) -> Tensor:
    """First pixels that were given, bytes or floats in [0, 1], as floats."""

    if tuple(start.shape) != shape:
        raise SettingError(f"the images to start from are {list(start.shape)}, but {list(shape)} are condensed.")
    first = start.float() / 255 if start.dtype == torch.uint8 else start.float().clone()
    if not (start.dtype == torch.uint8 or start.is_floating_point()) or not bool(((first >= 0) & (first <= 1)).all()):
        raise SettingError("the images to start from must be bytes, or floats from 0 to 1.")
    return first
