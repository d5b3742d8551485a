"""Recipes: one frozen, flat, documented set of settings, and how it becomes the parts of Algorithm 1.

Every field is a flag of `mipset condense`. The defaults are the paper's settings for CIFAR-10 at 10 images per class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mipset.distributed import ALONE, Team
from mipset.errors import DivergedError, SettingError, choices

if TYPE_CHECKING:  # a recipe can be listed and checked where torch is not installed
    import torch
    from torch import Tensor

    from mipset.artifact import Artifact, Pixels
    from mipset.augment import Augmentation
    from mipset.condense import Parts, Step
    from mipset.data import Dataset
    from mipset.engines import Engine
    from mipset.matching import Distance, Objective
    from mipset.metrics import Metric
    from mipset.networks import Network
    from mipset.subsets import FreezeRule, Policy
    from mipset.training import Images, TrainingRule

POLICIES = ("none", "mdc", "mdc-per-class", "every-prefix")
STEPS = ("balanced", "plain")
METRICS = ("feature", "gradient", "accuracy")
FREEZE_RULES = ("ratchet", "predecessor", "never")
DISTANCES = ("squared", "l1", "row-cosine")
INITIALISATIONS = ("mix", "noise")
ONLY_FOR = {  # settings that not every policy reads
    **dict.fromkeys(("period", "freeze", "round_distances", "metric", "metric_epochs"), ("mdc", "mdc-per-class")),
    "subset_weight": ("mdc", "mdc-per-class", "every-prefix"),
    "steps": ("every-prefix",),
    "prefix_weights": ("every-prefix",),
}
NETWORKS = {  # width and depth of each, unless others are asked for
    "convnet": (128, 3),
    "resnet": (32, 10),
    "resnet-ap": (64, 10),
    "densenet": (12, 121),
}
WITH_BATCH_NORM = ("resnet", "densenet")  # which is fine for evaluating, but not for condensing
PRECISIONS = ("float32", "bfloat16")
MOST = 1e30  # larger numbers leave float32 on the way


def _setting(
    default: Any, text: str, *, among: Sequence[str] = (), least: float | None = None, most: float = MOST
) -> Any:
    return field(default=default, metadata={"help": text, "choices": tuple(among), "least": least, "most": most})


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a condensation gives, beside the data."""

    ipc: int = _setting(10, "N, stored images per class", least=1)
    policy: str = _setting("mdc", "which sizes count: none is the paper's Baseline C", among=POLICIES)
    period: int = _setting(100, "Δt, outer iterations between two selections (mdc)", least=1)
    freeze: str = _setting(
        "ratchet", "as released, as in the paper's equation, or not at all (mdc)", among=FREEZE_RULES
    )
    metric: str = _setting("feature", "what sizes are compared by (mdc): distances, or accuracy", among=METRICS)
    metric_epochs: int = _setting(20, "epochs on each size for the metric `accuracy` (mdc)", least=1)
    subset_weight: float = _setting(1.0, "how much the subset losses count beside the base loss", least=0)
    prefix_weights: str = _setting(
        "one", "every-prefix: `one`, `size`, N numbers such as 1,1,2, or the share of devices of some sizes: 1:60,5:40"
    )
    steps: str = _setting("balanced", "every-prefix: of all ranks alike, or as their gradients", among=STEPS)
    round_distances: int = _setting(
        -1, "decimals of the metric before sizes are compared; -1 keeps all (mdc)", least=-1
    )
    factor: int = _setting(2, "multi-formation: tiles along each side of a stored image", least=1, most=16)
    init: str = _setting("mix", "first pixels: tiles of real images, or noise", among=INITIALISATIONS)
    distance: str = _setting("squared", "between gradients of the convolution weights", among=DISTANCES)
    network: str = _setting(
        "convnet", "architecture to condense with", among=[name for name in NETWORKS if name not in WITH_BATCH_NORM]
    )
    width: int = _setting(128, "channels of the network; of a ResNet, in its first stage", least=1)
    depth: int = _setting(3, "blocks of the network; of a ResNet, its layers: 10 or 18", least=1)
    outer: int = _setting(2000, "T, outer iterations, each with a new network unless --life says otherwise", least=1)
    inner: int = _setting(100, "E, inner iterations, between which the network is trained", least=1)
    real_batch: int = _setting(64, "real images per class in one match", least=1)
    pixel_lr: float = _setting(0.005, "λ at 10 images per class of 32 x 32 pixels; scaled with both", least=0)
    pixel_momentum: float = _setting(0.5, "momentum of the pixels", least=0)
    match_augment: str = _setting("color_crop_cutout", "one draw for real and synthetic images of a match")
    train_images: int = _setting(2000, "real images the network learns from per inner iteration", least=0)
    train_batch: int = _setting(64, "real images per training step of the network", least=1)
    train_augment: str = _setting("color_crop", "a draw for each image the network learns from")
    pool: int = _setting(1, "networks that take turns, one in each outer iteration", least=1)
    life: int = _setting(1, "outer iterations that a network takes part in before a new one takes its place", least=1)
    train_precision: str = _setting("float32", "of the factors of products while the network learns", among=PRECISIONS)
    cutmix: float = _setting(0.5, "probability of CutMix while the network learns", least=0)
    network_lr: float = _setting(0.01, "η, learning rate of the network", least=0)
    network_momentum: float = _setting(0.9, "momentum of the network", least=0)
    network_decay: float = _setting(5e-4, "weight decay of the network", least=0)
    seed: int = _setting(0, "of everything that is drawn", least=0)

    def __post_init__(self) -> None:
        for f in fields(self):
            value: Any = getattr(self, f.name)
            flag = flag_of(f.name)
            kinds: dict[str, Any] = {"int": (int,), "float": (int, float), "str": (str,)}
            if not isinstance(value, kinds[str(f.type)]) or isinstance(value, bool):
                raise SettingError(f"{flag} must be {f.type}, not {value!r}.")
            if f.metadata["choices"] and value not in f.metadata["choices"]:
                mixes = f.name == "network" and value in WITH_BATCH_NORM
                why = " to condense with, since its batch norm mixes the images of a batch" if mixes else ""
                raise SettingError(f"{flag} cannot be {value!r}{why}: choose {choices(f.metadata['choices'])}.")
            least, most = f.metadata["least"], f.metadata["most"]
            if least is not None and not least <= value <= most:
                raise SettingError(f"{flag} cannot be {value}: it must be at least {least} and at most {most:g}.")
        for name in ("pixel_momentum", "network_momentum"):
            if getattr(self, name) >= 1:
                raise SettingError(f"{flag_of(name)} cannot be {getattr(self, name)}: it must be below 1.")
        if self.pool > 1 and self.life == 1:
            raise SettingError(
                f"--pool {self.pool} needs a --life of 2 or more: networks that live once do not take turns."
            )
        if self.cutmix > 1:
            raise SettingError(f"--cutmix cannot be {self.cutmix}: it is a probability.")
        if self.prefix_weights != "one" and self.policy != "every-prefix":
            raise SettingError(
                f"--prefix-weights {self.prefix_weights} needs --policy every-prefix, not {self.policy}."
            )
        if len(self.size_weights) != self.ipc:
            raise SettingError(
                f"--prefix-weights cannot be {self.prefix_weights!r}: choose one, size, or {self.ipc} numbers "
                f"separated by commas, one for each size, or shares of some sizes such as 1:60,{self.ipc}:40; "
                "all finite, none below 0, and not all 0."
            )

    def replace(self, **changes: Any) -> Self:
        """The same recipe with some settings changed."""
        known = {f.name for f in fields(self)}
        for name in changes:
            if name not in known:
                raise SettingError(f"a recipe has no setting {name!r}: choose {choices(sorted(known))}.")
        return replace(self, **changes)

    @property
    def size_weights(self) -> tuple[float, ...]:
        """w_1..w_N of every-prefix: the whole set counts one unless given, a subset `subset_weight` times its own."""
        if self.prefix_weights == "one":
            weights = [1.0] * self.ipc
        elif self.prefix_weights == "size":
            weights = [n / self.ipc for n in range(1, self.ipc + 1)]
        else:
            weights = _numbers(self.prefix_weights, self.ipc)
        if not weights:
            return ()
        return (*(self.subset_weight * w for w in weights[:-1]), weights[-1])

    @property
    def fleet(self) -> dict[int, float]:
        """The share of devices that use each size, if the weights were given as numbers; they add up to 1."""
        if self.prefix_weights in ("one", "size"):
            return {}
        weights = _numbers(self.prefix_weights, self.ipc)
        return {n: weight / sum(weights) for n, weight in enumerate(weights, start=1) if weight}

    @property
    def train_steps(self) -> int:
        """Training steps of the network between two inner iterations."""
        return -(-self.train_images // self.train_batch)

    def scaled_pixel_lr(self, size: tuple[int, int]) -> float:
        """λ for these images: gradients of a mean over N images shrink with N, and with the number of pixels."""
        return self.pixel_lr * (self.ipc / 10) * (size[0] * size[1] / 32**2)


def _numbers(text: str, ipc: int) -> list[float]:
    """`1,1,2` or `1:60,3:40` as a weight for each size; nothing where it is neither, or cannot be weighed with.

    Shares weigh as much together as if every size counted once.
    """
    try:
        if ":" not in text:
            weights = [float(part) for part in text.split(",")]
            return weights if _can_be_shares(weights) else []
        pairs = [part.split(":") for part in text.split(",")]
        shares = {int(size): float(share) for size, share in pairs}
    except ValueError:
        return []
    if len(shares) < len(pairs) or not all(1 <= size <= ipc for size in shares) or not _can_be_shares(shares.values()):
        return []
    total = sum(shares.values())
    return [ipc * shares.get(n, 0.0) / total for n in range(1, ipc + 1)]


def _can_be_shares(weights: Iterable[float]) -> bool:
    given = list(weights)
    return all(weight >= 0 for weight in given) and 0 < sum(given) <= MOST


def flag_of(name: str) -> str:
    """How a setting is written on the command line."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe for a dataset, with what it promises."""

    dataset: str
    recipe: Recipe
    promise: str
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # settings for a method or a policy


PAPER_CIFAR10 = Recipe()

# Two cores carry some thousandths of the paper's work: fewer, narrower networks, and larger steps of the pixels.
_CPU = PAPER_CIFAR10.replace(width=64, outer=20, inner=10, train_images=512, period=2, pixel_lr=0.01)

RECIPES = {
    "demo": NamedRecipe(
        "fashion-mini",
        _CPU.replace(width=32, outer=4, train_images=256, period=1, pixel_lr=0.1),
        "under a minute on 2 cores; mean of sizes 1-10 (quick): none 74.7, mdc 74.7, every-prefix 74.9 %",
        tuned={"every-prefix-balanced": {"pixel_lr": 0.3}},  # on held-out images better than 0.1, unlike for the others
    ),
    "cifar10-cpu": NamedRecipe(
        "cifar10",
        _CPU.replace(outer=13, pool=3, life=5, pixel_lr=0.3),
        "some 2 minutes on 2 cores; mean of sizes 1-10 (quick): none 34.2, mdc 37.1, every-prefix 40.0 %",
        # Rates are the best of 0.01 to 1 on held-out training images; iterations are for equal time (docs/results.md).
        tuned={"every-prefix-plain": {"outer": 12, "pixel_lr": 0.01}, "every-prefix-balanced": {"outer": 12}},
    ),
    "fashion-mnist-cpu": NamedRecipe(
        "fashion-mnist",
        _CPU.replace(outer=13, pool=3, life=5, pixel_lr=0.03),
        "some 2 minutes on 2 cores; mean of sizes 1-10 (quick): none 75.0, mdc 75.6, every-prefix 75.5 %",
        tuned={"every-prefix-balanced": {"outer": 12}},  # chosen in the same way
    ),
    "paper-cifar10-ipc10": NamedRecipe(
        "cifar10",
        PAPER_CIFAR10,
        "not run by us; the paper reports 11.5 hours for none and 15.1 for mdc, and means of 53.2 and 58.4 %",
    ),
}


def recipe(name: str, **changes: Any) -> Recipe:
    """A named recipe, with some settings changed."""
    chosen = settled(name, (), changes)
    check_read(changes, chosen.policy)
    return chosen


def check_read(changes: Iterable[str], policy: str) -> None:
    """Refuse settings that the policy does not read."""
    for setting in changes:
        policies = ONLY_FOR.get(setting, (policy,))
        if policy not in policies:
            raise SettingError(f"{flag_of(setting)} needs --policy {choices(policies)}, not {policy}.")


def settled(name: str, tuned_for: Sequence[str], changes: Mapping[str, Any]) -> Recipe:
    """A named recipe with changes, and with what was tuned for the first of these methods, or else for its policy.

    What suits balanced steps does not suit plain ones, so every-prefix has two names: with either behind it.
    """
    if name not in RECIPES:
        raise SettingError(f"there is no recipe {name!r}: choose {choices(RECIPES)}.")
    named = RECIPES[name]
    asked = named.recipe.replace(**changes)
    policy = f"{asked.policy}-{asked.steps}" if asked.policy == "every-prefix" else asked.policy
    tuned = next((named.tuned[one] for one in (*tuned_for, policy) if one in named.tuned), {})
    return named.recipe.replace(**{**tuned, **changes})


def policy(r: Recipe, classes: int, held: Sequence[int] = ()) -> Policy:
    """The policy that the recipe names, before it has decided anything.

    Where the first images of each class are `held`, a size is chosen only if it can still change in some class, and by
    the classes that can.
    """
    from mipset.subsets import EveryPrefix, FullSetOnly, Held, MostLearnableSubset, PerClass

    least = [1 + images for images in held or [0] * classes]
    moving = [c for c in range(classes) if least[c] <= r.ipc]

    def mdc(least: int, classes: list[int] | None = None) -> MostLearnableSubset:
        decimals = None if r.round_distances < 0 else r.round_distances
        return MostLearnableSubset(r.ipc, r.period, _freeze_rule(r), r.subset_weight, decimals, least, classes)

    makers: dict[str, Callable[[], Policy]] = {
        "none": lambda: FullSetOnly(r.ipc),
        "mdc": lambda: mdc(min(least), moving),
        "mdc-per-class": lambda: PerClass(tuple(map(mdc, least))),
        "every-prefix": lambda: EveryPrefix(r.size_weights, balanced=r.steps == "balanced"),
    }
    found = makers[r.policy]()
    return Held(found, tuple(held), r.ipc) if held else found


def _freeze_rule(r: Recipe) -> FreezeRule:
    from mipset.subsets import NeverFreeze, Predecessor, Ratchet

    rules: dict[str, FreezeRule] = {
        "ratchet": Ratchet(),
        "predecessor": Predecessor(),
        "never": NeverFreeze(),
    }
    return rules[r.freeze]


def _distance(r: Recipe) -> Distance:
    from mipset.matching import L1, RowCosine, Squared

    distances: dict[str, Distance] = {"squared": Squared(), "l1": L1(), "row-cosine": RowCosine()}
    return distances[r.distance]


def metric(r: Recipe, build: Callable[[], Network], real: Images) -> Metric:
    """What sizes are compared by, as the recipe names it; the networks of `build` may be trained for it."""
    from mipset.metrics import AccuracyDifference, FeatureDistance, GradientDistance
    from mipset.training import Schedule

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
    from mipset.matching import GradientMatching

    return GradientMatching(_distance(r))


def training_rule(r: Recipe) -> TrainingRule:
    """How the network learns between inner iterations."""
    from mipset.training import TrainingRule

    return TrainingRule(
        r.network_lr,
        r.network_momentum,
        r.network_decay,
        augmentation(r.train_augment),
        r.cutmix,
        half=r.train_precision == "bfloat16",
    )


def augmentation(names: str) -> Augmentation:
    """`color_crop_cutout` as an augmentation of the IDC kind; `none` is one that does nothing."""
    from mipset.augment import IDC, Operation

    known = {operation.value: operation for operation in Operation}
    listed = [] if names == "none" else names.split("_")
    for name in listed:
        if name not in known:
            raise SettingError(f"there is no augmentation {name!r}: choose from {choices(known)}, or none.")
    return IDC(tuple(known[name] for name in listed))


def network_size(name: str) -> tuple[int, int]:
    """Width and depth of the named architecture, unless others are asked for."""
    if name not in NETWORKS:
        raise SettingError(f"there is no network {name!r}: choose {choices(NETWORKS)}.")
    return NETWORKS[name]


def network_builder(
    name: str, shape: tuple[int, int, int], classes: int, width: int, depth: int, engine: Engine | None = None
) -> Callable[[], Network]:
    """What makes a new network of the named architecture for images [ch, h, w], computed by `engine`.

    `width` is the channels of a ConvNet, those of the first stage of a ResNet, or the growth of a DenseNet; `depth` is
    the blocks of a ConvNet, or the layers of the others.
    """
    from mipset.networks import ConvNet, DenseNet, ResNet, ResNetAP

    network_size(name)  # which knows the names
    kinds: dict[str, Callable[..., Network]] = {
        "convnet": ConvNet,
        "resnet": ResNet,
        "resnet-ap": ResNetAP,
        "densenet": DenseNet,
    }
    return partial(kinds[name], shape[0], classes, shape[1:], width, depth, engine)


def assemble(
    r: Recipe,
    data: Dataset,
    device: torch.device,
    start: Tensor | None = None,
    engine: Engine | None = None,
    team: Team = ALONE,
) -> Parts:
    """The parts of Algorithm 1 for this recipe and these data, as one process of a team needs them.

    `start` holds first pixels in place of the recipe's, `engine` computes networks in place of plain torch.
    """
    import torch

    from mipset.condense import Parts
    from mipset.learners import TrainedOnReal
    from mipset.sampling import ShuffledEpochs
    from mipset.synthetic import Synthetic, formation
    from mipset.training import Images

    check_fit(r, data)
    if team.size > data.classes:
        raise SettingError(
            f"{team.size} processes cannot share {data.classes} classes: start {data.classes} or fewer in all."
        )
    pixels, labels = torch.from_numpy(data.train.images), torch.from_numpy(data.train.labels)
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
    import torch

    from mipset.synthetic import formation, from_noise, from_real

    check_fit(r, data)
    if r.init == "noise":
        return from_noise((r.ipc, data.classes, *data.shape), r.seed)
    pixels, labels = torch.from_numpy(data.train.images), torch.from_numpy(data.train.labels)
    return from_real([pixels[labels == c] for c in range(data.classes)], r.ipc, formation(r.factor))


def given_pixels(start: Tensor, shape: tuple[int, ...]) -> Tensor:
    """First pixels that were given, bytes or floats in [0, 1], as floats."""
    import torch

    if tuple(start.shape) != shape:
        raise SettingError(f"the images to start from are {list(start.shape)}, but {list(shape)} are condensed.")
    first = start.float() / 255 if start.dtype == torch.uint8 else start.float().clone()
    if not (start.dtype == torch.uint8 or start.is_floating_point()) or not bool(((first >= 0) & (first <= 1)).all()):
        raise SettingError("the images to start from must be bytes, or floats from 0 to 1.")
    return first


def check_fit(r: Recipe, data: Dataset) -> None:
    """Law 8: what the recipe asks for and the data do not have is an error."""
    import numpy as np

    counts = np.bincount(data.train.labels, minlength=data.classes)
    fewest = int(counts.argmin())
    have, name = int(counts[fewest]), data.class_names[fewest]
    if have < r.real_batch:
        raise SettingError(
            f"class {name!r} has {have} training images, fewer than --real-batch {r.real_batch}: "
            f"choose {have} or less, or add images."
        )
    if r.init == "mix" and have < r.ipc * r.factor**2:
        raise SettingError(
            f"class {name!r} has {have} training images, but --ipc {r.ipc} with --factor {r.factor} starts from "
            f"{r.ipc * r.factor**2}: choose a smaller --ipc or --factor, or condense with --init noise."
        )
    if len(data.train) < r.train_batch:
        raise SettingError(f"there are {len(data.train)} training images, fewer than --train-batch {r.train_batch}.")
    check_cut(r.factor, data.shape)


def check_cut(factor: int, shape: tuple[int, int, int]) -> None:
    """Refuse tiles without a pixel, of stored images [ch, h, w]."""
    from mipset.artifact import cuts

    if not cuts(factor, shape[1:]):
        size = f"{shape[1]} x {shape[2]}"
        raise SettingError(f"--factor {factor} does not cut images of {size} pixels: choose a smaller one.")


def run(
    r: Recipe,
    data: Dataset,
    device: str = "cpu",
    start: Tensor | None = None,
    engine: Engine | None = None,
) -> Iterator[Step]:
    """Condense `data` by the recipe, from given first pixels if there are any: yields after every inner iteration.

    `engine=native()`, of mipset.engines, is several times faster than plain torch on a CPU, once it has been compiled.
    """
    import torch

    from mipset.condense import condense

    return condense(assemble(r, data, torch.device(device), start, engine))


def public_name(dataset: str) -> str:
    """`folder:/home/me/pets` as `folder:pets`."""
    kind, colon, path = dataset.partition(":")
    return kind + colon + Path(path).name


def pack(step: Step, r: Recipe, data: Dataset, origin: Mapping[str, int | str | None] | None = None) -> Artifact:
    """What `step` has condensed, as it is shipped: uint8, with everything needed to use it.

    Of a path only its last part is kept, since files are published. `origin` is what else has to be known
    to do it again, such as the arguments of `load`.
    """
    from mipset.synthetic import to_uint8

    if not bool(step.parts.S.pixels.isfinite().all()):
        raise DivergedError("the pixels are no longer finite: try a smaller --pixel-lr.")
    return as_artifact(to_uint8(step.parts.S.pixels).numpy(), r, data, origin)


def packed_bytes(r: Recipe, data: Dataset, origin: Mapping[str, int | str | None] | None = None) -> int:
    """How large the file will be that `pack` makes, to a few bytes: one rank is made, the others are counted."""
    import numpy as np

    one = as_artifact(np.zeros((1, data.classes, *data.shape), dtype=np.uint8), r, data, origin)
    digest = len(r",\"\"") + 64  # of every further rank, in JSON within JSON
    return len(one.to_bytes()) + (r.ipc - 1) * (one.images.nbytes + digest)


def as_artifact(
    images: Pixels, r: Recipe, data: Dataset, origin: Mapping[str, int | str | None] | None = None
) -> Artifact:
    """Stored images [N, C, ch, h, w] with the recipe they belong to and where they come from."""
    from mipset import __version__
    from mipset.artifact import Artifact

    return Artifact(
        images=images,
        factor=r.factor,
        mean=data.mean,
        std=data.std,
        class_names=data.class_names,
        recipe=asdict(r),
        provenance={
            "mipset": __version__,
            "dataset": public_name(data.name),
            "sha256": data.sha256,
            **(origin or {}),
        },
    )
