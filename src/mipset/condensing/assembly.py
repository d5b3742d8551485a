"""Assembly: from the names in a recipe to the parts of Algorithm 1.

Each table below has one entry for every name in settings/choices.py. A new part needs a name there and an entry here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mipset import __version__
from mipset.condensing.checks import check_fit
from mipset.condensing.experts import ExpertFiles, Experts, Trajectories
from mipset.condensing.learners import Learner, TrainedOnReal, TrainedOnSynthetic, Untrained
from mipset.condensing.metrics import AccuracyDifference, FeatureDistance, GradientDistance, Metric
from mipset.condensing.objectives import (
    L1,
    CharacteristicFunctions,
    Confidence,
    Distance,
    FeatureMatching,
    GradientMatching,
    LayeredCharacteristicFunctions,
    Objective,
    RowCosine,
    Squared,
    Student,
    Term,
    TrajectoryMatching,
    WeightedSum,
)
from mipset.condensing.objectives.base import parts_of
from mipset.condensing.objectives.gradients import turns
from mipset.condensing.optimisers import Adam, MomentumSGD, PixelOptimiser
from mipset.condensing.own_parts import own_part
from mipset.condensing.parts import Parts
from mipset.condensing.policies import (
    BaselineC,
    EveryPrefix,
    FreezeRule,
    FrozenPrefix,
    MostLearnableSubset,
    NeverFreeze,
    PerClass,
    Policy,
    Predecessor,
    Ratchet,
)
from mipset.condensing.samplers import Representatives, Sampler, ShuffledEpochs, Uniform
from mipset.condensing.starts import (
    Look,
    clustered_real_images,
    first_real_images,
    herded_real_images,
    noise,
    normal_noise,
    random_real_images,
)
from mipset.condensing.synthetic import Synthetic, formation
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.io.files import home
from mipset.nn.augment import Augmentation, augmentation
from mipset.nn.distributed import ALONE, Team
from mipset.nn.engines import Engine, Native, default_engine, matrix_unit
from mipset.nn.flops import learning_flops
from mipset.nn.networks import Network, builder, check_each_image_alone
from mipset.nn.pixels import to_unit
from mipset.nn.precision import HALF
from mipset.nn.training import Images, Schedule, TrainingRule
from mipset.reporting import Report, silent
from mipset.settings.part import code_digest, is_own
from mipset.settings.recipe import Recipe

Build = Callable[[], Network]
Now = Callable[[], Images]  # the training images of S as they are now


def _mdc(r: Recipe, least: int, classes: list[int] | None = None) -> MostLearnableSubset:
    decimals = None if r.round_distances < 0 else r.round_distances
    return MostLearnableSubset(r.ipc, r.period, FREEZE_RULES[r.freeze], r.subset_weight, decimals, least, classes)


def _mdc_of_all_classes(r: Recipe, least: Sequence[int]) -> Policy:
    return _mdc(r, min(least), [c for c, size in enumerate(least) if size <= r.ipc])


def _mdc_of_each_class(r: Recipe, least: Sequence[int]) -> Policy:
    return PerClass(tuple(_mdc(r, size) for size in least))


def _accuracy(r: Recipe, build: Build, real: Images) -> Metric:
    schedule = Schedule(r.metric_epochs, r.train_batch, even=True)
    return AccuracyDifference(build, real, training_rule(r), schedule, r.seed)


def _trajectory(r: Recipe, learner: Learner) -> Objective[Any]:
    student = Student(r.student_steps, r.student_batch, _augmentation(r, r.train_augment), r.seed)
    rates = {"rate": r.student_lr, "rate_lr": r.student_lr_lr, "rate_momentum": r.student_lr_momentum}
    return TrajectoryMatching(learner.later, student, r.ipc, **rates, sizes=r.student_sizes)


# A policy is made from the recipe and, for each class, the smallest size that can still change.
POLICIES: Mapping[str, Callable[[Recipe, Sequence[int]], Policy]] = {
    "baseline-c": lambda r, _: BaselineC(r.ipc),
    "mdc": _mdc_of_all_classes,
    "mdc-per-class": _mdc_of_each_class,
    "every-prefix": lambda r, _: EveryPrefix(r.size_weights, balanced=BALANCED[r.steps]),
}
FREEZE_RULES: Mapping[str, FreezeRule] = {
    "ratchet": Ratchet(),
    "predecessor": Predecessor(),
    "never": NeverFreeze(),
}
METRICS: Mapping[str, Callable[[Recipe, Build, Images], Metric]] = {
    "feature": lambda r, *_: FeatureDistance(r.ipc, DISTANCES[r.distance]),
    "gradient": lambda *_: GradientDistance(),
    "accuracy": _accuracy,
}
DISTANCES: Mapping[str, Distance] = {"squared": Squared(), "l1": L1(), "row-cosine": RowCosine()}
OBJECTIVES: Mapping[str, Callable[[Recipe, Learner], Objective[Any]]] = {
    "gradient": lambda r, _: GradientMatching(DISTANCES[r.distance], classifier=WITH_CLASSIFIER[r.matched_layers]),
    "feature": lambda r, _: FeatureMatching(half=HALF[r.match_precision]),
    "characteristic": lambda r, _: CharacteristicFunctions(r.seed, half=HALF[r.match_precision]),
    "layered": lambda r, _: LayeredCharacteristicFunctions(
        CharacteristicFunctions(r.seed, half=HALF[r.match_precision])
    ),
    "confidence": lambda r, learner: Confidence(learner.trained, half=HALF[r.match_precision]),
    "trajectory": _trajectory,
}
WITH_CLASSIFIER: Mapping[str, bool] = {"convolutions": False, "all": True}  # by the names of MATCHED_LAYERS
SAMPLERS: Mapping[str, Callable[[Recipe, Images, Sequence[Tensor]], Sampler]] = {
    "shuffled-epochs": lambda r, real, members: ShuffledEpochs(real, members, r.real_batch, r.seed),
    "uniform": lambda r, real, members: Uniform(real, members, r.real_batch, r.seed),
    "k-means": lambda r, real, members: Representatives(
        *(real, members, r.real_batch, r.seed),
        inner=r.inner,
        every=r.cluster_every,
        looked_at=r.cluster_images,
        steps=r.cluster_steps,
    ),
}
OPTIMISERS: Mapping[str, Callable[[Recipe, Synthetic], PixelOptimiser]] = {
    "sgd": lambda r, S: MomentumSGD(
        S.pixels, PIXEL_SPACES[r.pixel_space](r, S), r.pixel_momentum, coasting=COASTING[r.step_after]
    ),
    "adam": lambda r, S: Adam(S.pixels, r.pixel_lr, r.pixel_momentum),
}
COASTING: Mapping[str, bool] = {"each-class": True, "all-classes": False}  # by the names of STEP_AFTER
# A normalised pixel is a pixel divided by the deviation of its channel, so its gradient is that many times as large,
# and its step becomes a step of the pixel when it is multiplied by the deviation again.
PIXEL_SPACES: Mapping[str, Callable[[Recipe, Synthetic], float | tuple[float, ...]]] = {
    "unit": lambda r, S: r.scaled_pixel_lr(S.resolution),
    "normalised": lambda r, S: tuple(r.pixel_lr * deviation**2 for deviation in S.std),
}
INITIALISATIONS: Mapping[str, Callable[[Recipe, Dataset, Look], Tensor]] = {
    "mix": lambda r, data, _: first_real_images(r, data),
    "noise": lambda r, data, _: noise(r, data),
    "herding": herded_real_images,
    "k-means": clustered_real_images,
    "random": lambda r, data, _: random_real_images(r, data),
    "normal-noise": lambda r, data, _: normal_noise(r, data),
}
ALIGN_CORNERS: Mapping[str, bool] = {"edges": False, "centres": True}  # by the names of RESAMPLINGS
BALANCED: Mapping[str, bool] = {"balanced": True, "plain": False}  # by the names of STEPS


def policy(r: Recipe, classes: int, frozen: Sequence[int] = ()) -> Policy:
    """The policy that the recipe names, before its first decision.

    `frozen` is the number of images of each class that must never change. Then a size is chosen only if it can still
    change in some class, and only the classes where it can are compared.
    """
    least = [1 + images for images in frozen or [0] * classes]
    named = POLICIES.get(r.policy)
    chosen: Policy = named(r, least) if named else own_part(r.policy, Policy, "policy", r)
    return FrozenPrefix(chosen, tuple(frozen), r.ipc) if frozen else chosen


def metric(r: Recipe, build: Build, real: Images) -> Metric:
    """How sizes are compared; the metric `accuracy` trains networks of `build`."""
    return METRICS[r.metric](r, build, real)


def objective(r: Recipe, asked: Learner) -> Objective[Any]:
    """The distance between synthetic and real images that is minimised; `asked` has the networks."""
    terms = tuple(Term(weight, _term(name, r, asked), period) for weight, name, period in r.terms)
    return terms[0].objective if len(terms) == 1 and terms[0].weight == 1 else WeightedSum(terms)


def _term(name: str, r: Recipe, asked: Learner) -> Objective[Any]:
    named = OBJECTIVES.get(name)
    term: Objective[Any] = named(r, asked) if named else own_part(name, Objective, "objective", r)
    return term


def _augmentation(r: Recipe, names: str) -> Augmentation:
    """The augmentation of these operations, composed as the recipe says."""
    return augmentation(names, r.composition, align_corners=ALIGN_CORNERS[r.resampling])


def training_rule(r: Recipe) -> TrainingRule:
    """How the network learns between inner iterations."""
    return TrainingRule(
        r.network_lr,
        r.network_momentum,
        r.network_decay,
        _augmentation(r, r.train_augment),
        r.cutmix,
        half=HALF[r.train_precision],
    )


def _trained(r: Recipe, build: Build, real: Images, team: Team) -> Learner:
    batches = -(-r.train_images // r.train_batch)
    steps = {"batch": r.train_batch, "batches": batches, "seed": r.seed, "pool": r.pool, "life": r.life}
    return TrainedOnReal(build, real, training_rule(r), **steps, early=r.early_steps(len(real)), team=team)


def _trained_on_synthetic(r: Recipe, build: Build, real: Images, now: Now, team: Team) -> Learner:
    steps = {"batch": r.train_batch, "epochs": r.train_epochs, "seed": r.seed, "pool": r.pool, "life": r.life}
    return TrainedOnSynthetic(build, real.pixels.device, now, training_rule(r), **steps, team=team)


def _experts(r: Recipe, build: Build, real: Images, team: Team, files: ExpertFiles) -> Learner:
    steps = {"steps": r.expert_steps, "batch": r.train_batch, "seed": r.seed}
    return Experts([build] * r.experts, real, training_rule(r), **steps, files=files, team=team)


def _trajectories(r: Recipe, build: Build, real: Images, team: Team, files: ExpertFiles) -> Learner:
    if team.processes > 1:
        raise SettingError(
            f"`learner` trajectories works in one process, not in {team.processes}: a student learns from all classes "
            f"together, so processes cannot share them. Start the command without torchrun."
        )
    way = {"every": r.snapshot_steps, "starts": r.expert_starts, "ahead": r.expert_ahead}
    rule = training_rule(r)
    return Trajectories([build] * r.experts, real, rule, **way, batch=r.train_batch, seed=r.seed, files=files)


LEARNERS: Mapping[str, Callable[[Recipe, Build, Images, Now, Team, ExpertFiles], Learner]] = {
    "trained": lambda r, build, real, _now, team, _files: _trained(r, build, real, team),
    "experts": lambda r, build, real, _now, team, files: _experts(r, build, real, team, files),
    "untrained": lambda r, build, real, *_: Untrained(build, real.pixels.device, r.seed),
    "trajectories": lambda r, build, real, _now, team, files: _trajectories(r, build, real, team, files),
    "trained-on-synthetic": lambda r, build, real, now, team, _: _trained_on_synthetic(r, build, real, now, team),
}


def assemble(
    r: Recipe,
    data: Dataset,
    device: torch.device | str = "cpu",
    start: Tensor | None = None,
    engine: Engine | None = None,
    team: Team = ALONE,
    *,
    first_rank: int = 0,
    report: Report = silent,
) -> Parts:
    """The parts of Algorithm 1 for this recipe and these data: give them to `condense`.

    `start` replaces the first pixels of the recipe. `engine` computes networks; by default the compiled kernels, if the
    work is long and this machine can compile them. `team` is the processes that share the run. With `first_rank`, the
    first pixels are those that a larger set has from this rank on. `report` is told how far the training of experts is,
    if the recipe has any.
    """
    larger = r.replace(ipc=first_rank + r.ipc, prefix_weights="one") if first_rank else r
    check_fit(larger if start is None else r.replace(init="noise"), data)  # given pixels need no real images
    if first_rank and r.init == "k-means":
        raise SettingError("`init` k-means gives other images for every size, so it cannot start at a later rank.")
    if team.processes > data.classes:
        raise SettingError(
            f"{team.processes} processes cannot share {data.classes} classes. Start {data.classes} or fewer processes."
        )
    pixels, labels = torch.from_numpy(data.train.images), torch.from_numpy(data.train.labels)
    device = torch.device(device)
    engine = engine or default_engine(device, lambda: work(r, data.shape, data.classes))
    real = Images.of(pixels, labels, data.mean, data.std, device)
    members = [(real.labels == c).nonzero().squeeze(1) for c in range(data.classes)]
    check_each_image_alone(r.architecture, data.shape, data.classes)
    build = builder(r.architecture, data.shape, data.classes, engine)
    S = Synthetic(
        torch.zeros(r.ipc, data.classes, *data.shape, device=device), formation(r.factor), data.mean, data.std
    )
    files = expert_files(r, data, device, engine)
    learner = LEARNERS[r.learner](r, build, real, lambda: complete_set(S, team), team, files)
    if start is None:
        learner.prepare(report)
        look = Look(lambda: learner.trained(learner.start(1)), formation(r.factor), data.mean, data.std, device)
        first = INITIALISATIONS[r.init](larger, data, look)[first_rank:]
    else:
        first = given_pixels(start, (r.ipc, data.classes, *data.shape))
        learner.prepare(report)
    S.pixels.copy_(first)
    return connect(r, S, real, members, build, learner, team)


def complete_set(S: Synthetic, team: Team) -> Images:
    """The training images of S, also inside an outer iteration, when each process of a team has updated its classes."""
    team.complete(S.pixels, team.share(range(S.C)), dim=1)
    return S.subset(S.N)


EXPERT_SETTINGS = (
    *("network", "width", "depth", "expert_steps", "train_batch", "train_augment", "composition", "train_precision"),
    *("resampling", "cutmix", "network_lr", "network_momentum", "network_decay", "seed"),
)
TRAJECTORY_SETTINGS = (*EXPERT_SETTINGS, "snapshot_steps", "expert_starts", "expert_ahead")


def settings_of_experts(r: Recipe) -> dict[str, Any]:
    """The settings of a recipe that its experts depend on, beside their number."""
    names = {"experts": EXPERT_SETTINGS, "trajectories": TRAJECTORY_SETTINGS}.get(r.learner, ())
    return {name: value for name, value in r.identity.items() if name in names and r.reads(name)}


def work(r: Recipe, shape: tuple[int, int, int], classes: int) -> float:
    """About how many FLOPs a run has, in a moment: it decides which engine computes. costs.py counts exactly.

    Without the work that depends on the number of real images: early training, clustering, the choice of first pixels.
    """
    per_image = learning_flops(r.architecture, shape, classes)
    learned = r.training_steps(classes) * r.images_per_step(classes)
    synthetic = r.ipc * r.factor**2
    names = {name for _, name, _ in r.terms}
    if "trajectory" in names:
        images = min(r.student_batch or math.inf, synthetic * classes)
        steps = 3 * r.student_steps * images  # each step twice, and its second derivatives
        return per_image * (learned + r.outer * r.inner * steps)
    pixels = shape[1] * shape[2]
    match: float
    if "gradient" in names:  # where images take turns, they go through the network once more
        match = r.real_batch + (3 if len(turns(synthetic, pixels)) > 1 else 2) * synthetic
    else:
        match = r.real_batch / 3 + (4 / 3 if len(parts_of(synthetic, pixels)) > 1 else 1) * synthetic
    return per_image * (learned + r.outer * r.inner * classes * match)


def expert_files(r: Recipe, data: Dataset, device: torch.device, engine: Engine) -> ExpertFiles:
    """Where the experts of this recipe are kept: they depend on the data and on how networks are trained."""
    settings = settings_of_experts(r)
    if not settings:
        return ExpertFiles(None)
    machine = {"engine": str(engine), "threads": torch.get_num_threads(), "torch": torch.__version__}
    machine["device"] = device.type
    if is_own(r.network):
        machine["code"] = code_digest(r.network, "network")
    if HALF[r.train_precision] and isinstance(engine, Native):
        machine["matrix_unit"] = matrix_unit()  # it rounds other numbers than the kernels do
    return ExpertFiles.of(home(), {**settings, **machine, "data": data.identity, "mipset": __version__})


def connect(
    r: Recipe,
    S: Synthetic,
    real: Images,
    members: Sequence[Tensor],
    build: Build,
    learner: Learner,
    team: Team = ALONE,
) -> Parts:
    """The parts that the recipe names, around S and the real images; `members` are the real images of each class.

    Only shapes matter here, so the tensors may be on the device "meta" (costs.py).
    """
    with S.pixels.device:  # of what an objective learns
        compared = objective(r, learner)
    return Parts(
        S=S,
        objective=compared,
        sampler=SAMPLERS[r.sampler](r, real, members),
        learner=learner,
        optimiser=OPTIMISERS[r.pixel_optimiser](r, S),
        policy=policy(r, S.C),
        augmentation=_augmentation(r, r.match_augment),
        metric=metric(r, build, real),
        T=r.outer,
        E=r.inner,
        seed=r.seed,
        classes=team.share(range(S.C)),
        team=team,
    )


def as_named(r: Recipe, parts: Parts) -> Parts:
    """The parts that the recipe names, for the images of `parts`: to tell which of these were replaced."""
    with torch.device("meta"):
        S = Synthetic(torch.empty(parts.S.pixels.shape), parts.S.formation, parts.S.mean, parts.S.std)
        real = Images.of(torch.empty(1, *S.pixels.shape[2:]), torch.empty(1), (0.5,), (0.5,), torch.device("meta"))
    channels, height, width = S.pixels.shape[2:]
    build = builder(r.architecture, (channels, height, width), S.C)
    learner = LEARNERS[r.learner](r, build, real, lambda: S.subset(S.N), ALONE, ExpertFiles(None))
    named = connect(r, S, real, [real.labels], build, learner)
    frozen = parts.policy.lengths if isinstance(parts.policy, FrozenPrefix) else ()
    return replace(named, policy=policy(r, S.C, frozen))


def given_pixels(start: Tensor, shape: tuple[int, ...]) -> Tensor:
    """First pixels that the caller gives, bytes or floats in [0, 1], as floats."""
    if tuple(start.shape) != shape:
        raise SettingError(
            f"`start` has the shape {list(start.shape)}, but the condensed set has {list(shape)}. "
            f"Give images for the same classes, with as many images per class and pixels."
        )
    first = to_unit(start) if start.dtype == torch.uint8 else start.float().clone()
    if not (start.dtype == torch.uint8 or start.is_floating_point()) or not bool(((first >= 0) & (first <= 1)).all()):
        raise SettingError(f"`start` has values of type {start.dtype}: they must be uint8, or floats from 0 to 1.")
    return first
