"""Recipes: one frozen, flat, documented set of settings.

`mipset condense` has a flag for every field. The defaults are the paper's settings for CIFAR-10 at 10 images per class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from mipset.errors import SettingError, choices, choose
from mipset.markup import table
from mipset.settings.architecture import CONDENSING_NETWORKS, NETWORKS, Architecture
from mipset.settings.choices import (
    AUGMENTATIONS,
    COMPOSITIONS,
    DISTANCES,
    FIRST_ORDER,
    FREEZE_RULES,
    FULL_PRECISION,
    INITIALISATIONS,
    LEARNERS,
    MATCHED_LAYERS,
    METRICS,
    MOST,
    MOST_AMOUNT,
    MOST_COUNT,
    MOST_DEPTH,
    MOST_RATE,
    MOST_STUDENT_RATE,
    NO_AUGMENTATION,
    OBJECTIVES,
    OPTIMISERS,
    PIXEL_SPACES,
    POLICIES,
    PRECISIONS,
    READ_IF,
    RESAMPLINGS,
    SAMPLERS,
    STEP_AFTER,
    STEPS,
    augmentation_names,
    parse_objective,
)
from mipset.settings.part import is_own

NAMED_WEIGHTS = {"one": 0, "size": 1, "inverse": -1}  # size n of N has the weight (n / N) to this power
ADDED = ("match_precision", "resampling")  # settings that older folders of results, and older experts, do not have
_OPERATIONS = f"{choices([*AUGMENTATIONS, NO_AUGMENTATION])}, joined by underscores"


def _setting(
    default: Any,
    text: str,
    *,
    among: Mapping[str, str] | None = None,
    own: bool = False,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """A field with its help text, the names it can be chosen from, whether a class of one's own can be, its limits."""
    largest = MOST_AMOUNT if isinstance(default, int) else MOST
    limits = {"choices": among or {}, "own": own, "least": least, "most": largest if most is None else most}
    return field(default=default, metadata={"help": text, **limits})


@dataclass(frozen=True)
class Recipe:
    """All settings of a condensation. With the data, they decide every pixel of the result."""

    ipc: int = _setting(10, "N, stored images per class", least=1, most=MOST_COUNT)
    policy: str = _setting("mdc", "which sizes count; or your own class, as module:Class", among=POLICIES, own=True)
    period: int = _setting(100, "Δt, outer iterations between two selections of a subset (mdc)", least=1)
    freeze: str = _setting("ratchet", "which images stay fixed after a selection (mdc)", among=FREEZE_RULES)
    metric: str = _setting("feature", "how sizes are compared to select one (mdc)", among=METRICS)
    metric_epochs: int = _setting(20, "training epochs on each size for the metric `accuracy` (mdc)", least=1)
    subset_weight: float = _setting(1.0, "weight of the loss of a subset; the whole set has weight 1", least=0)
    prefix_weights: str = _setting(
        "one",
        "weights of the sizes (every-prefix): `one`, `size` (n / N), `inverse` (N / n), N numbers such as 1,1,2, "
        "or the percentage of devices that use a size, such as 1:60,5:40",
    )
    steps: str = _setting("balanced", "how far each image moves (every-prefix)", among=STEPS)
    round_distances: int = _setting(
        -1, "round the metric to so many decimals before a selection; -1 does not round (mdc)", least=-1
    )
    factor: int = _setting(2, "multi-formation: tiles along each side of a stored image", least=1, most=16)
    init: str = _setting("mix", "the first pixels", among=INITIALISATIONS)
    objective: str = _setting(
        "gradient",
        "what makes synthetic images like real ones, your own class (module:Class), or a weighted sum such as "
        "feature+10*confidence; confidence/2 is computed in every second inner iteration only, with twice its weight. "
        + ". ".join(f"{name}: {text}" for name, text in OBJECTIVES.items()),
    )
    distance: str = _setting("squared", "distance between gradients, and between features for mdc", among=DISTANCES)
    matched_layers: str = _setting("convolutions", "whose gradients are compared (`gradient`)", among=MATCHED_LAYERS)
    learner: str = _setting("trained", "at which networks images are compared", among=LEARNERS)
    experts: int = _setting(
        4, "networks that are trained once (`learner` experts or trajectories)", least=1, most=MOST_COUNT
    )
    expert_steps: int = _setting(800, "training steps of each of these networks (`learner` experts)", least=1)
    snapshot_steps: int = _setting(
        195, "training steps between two snapshots of an expert (`learner` trajectories)", least=1
    )
    expert_starts: int = _setting(
        15, "T+, the first snapshots of an expert, from which students start (`learner` trajectories)", least=1
    )
    expert_ahead: int = _setting(
        2, "M, snapshots from the start of a student to its goal (`learner` trajectories)", least=1
    )
    student_steps: int = _setting(
        30, "training steps of a student on the synthetic images (`objective` trajectory)", least=0
    )
    student_batch: int = _setting(0, "synthetic images in a step of a student; 0 for all", least=0, most=MOST_COUNT)
    student_sizes: int = _setting(
        0,
        "sizes that have a student in an inner iteration, drawn among those that count; 0 for all of them",
        least=0,
        most=MOST_COUNT,
    )
    student_lr: float = _setting(
        0.01,
        "first learning rate of a student; each size learns its own from there",
        least=1e-9,
        most=MOST_STUDENT_RATE,
    )
    student_lr_lr: float = _setting(1e-5, "rate at which `student_lr` is learned; 0 keeps it", least=0, most=MOST_RATE)
    student_lr_momentum: float = _setting(0.5, "momentum of `student_lr`", least=0)
    network: str = _setting(
        "convnet",
        "the network, by default of its usual width and depth; or a function or class of your own, as module:function",
        among=CONDENSING_NETWORKS,
        own=True,
    )
    width: int = _setting(
        128, "channels of the network; of a ResNet, channels of its first stage", least=1, most=MOST_COUNT
    )
    depth: int = _setting(3, "blocks of the network; of a ResNet, its layers: 10 or 18", least=1, most=MOST_DEPTH)
    outer: int = _setting(2000, "T, outer iterations; `life` says how many of them use the same network", least=1)
    inner: int = _setting(100, "E, inner iterations; the network is trained between two of them", least=1)
    real_batch: int = _setting(64, "real images per class in one comparison with the synthetic images", least=1)
    sampler: str = _setting("shuffled-epochs", "which real images are compared", among=SAMPLERS)
    cluster_every: int = _setting(10, "inner iterations between two clusterings (`sampler` k-means)", least=1)
    cluster_images: int = _setting(
        0,
        "at most so many real images of each class are clustered, drawn anew each time; 0: all (`sampler` k-means)",
        least=0,
    )
    cluster_steps: int = _setting(100, "most steps of k-means in one clustering (`sampler` k-means)", least=1)
    pixel_optimiser: str = _setting("sgd", "how pixels move", among=OPTIMISERS)
    pixel_lr: float = _setting(
        0.005,
        "λ, learning rate of the pixels. With sgd it is that of 10 images per class of 32 x 32 pixels, and scaled with "
        "both, unless `pixel_space` is normalised. With adam it is the largest change in one step, as a part of the "
        "range of a pixel",
        least=0,
        most=MOST_RATE,
    )
    pixel_momentum: float = _setting(0.5, "momentum of the pixels", least=0)
    pixel_space: str = _setting("unit", "what `pixel_lr` is the rate of (sgd)", among=PIXEL_SPACES)
    step_after: str = _setting("each-class", "when pixels take a step (sgd)", among=STEP_AFTER)
    match_augment: str = _setting(
        "color_crop_cutout", f"augmentation that real and synthetic images share: {_OPERATIONS}"
    )
    composition: str = _setting("idc", "how the operations of an augmentation are combined", among=COMPOSITIONS)
    resampling: str = _setting("edges", "the grid of `scale` and `rotate` in an augmentation", among=RESAMPLINGS)
    train_images: int = _setting(2000, "real images that the network learns from per inner iteration", least=0)
    train_epochs: int = _setting(
        50, "epochs on the synthetic images per inner iteration (`learner` trained-on-synthetic)", least=0
    )
    train_batch: int = _setting(64, "images per training step of the network", least=1)
    train_augment: str = _setting(
        "color_crop", f"augmentation of every image that the network learns from: {_OPERATIONS}"
    )
    pool: int = _setting(1, "networks that take turns, one in each outer iteration", least=1)
    life: int = _setting(1, "outer iterations of a network before a new one replaces it", least=1)
    early_epochs: int = _setting(
        0, "epochs on all real images that a new network learns before its first match", least=0
    )
    train_precision: str = _setting(FULL_PRECISION, "precision while the network learns", among=PRECISIONS)
    match_precision: str = _setting(
        FULL_PRECISION,
        f"precision of the network while images are compared (`objective` {choices(FIRST_ORDER)})",
        among=PRECISIONS,
    )
    cutmix: float = _setting(0.5, "probability of CutMix while the network learns", least=0, most=1)
    network_lr: float = _setting(0.01, "η, learning rate of the network", least=0, most=MOST_RATE)
    network_momentum: float = _setting(0.9, "momentum of the network", least=0)
    network_decay: float = _setting(5e-4, "weight decay of the network", least=0, most=MOST_RATE)
    seed: int = _setting(0, "seed of all random draws", least=0, most=MOST)

    def __post_init__(self) -> None:
        for f in fields(self):
            self._check_field(f.name, str(f.type), f.metadata)
        for name in ("pixel_momentum", "network_momentum", "student_lr_momentum"):
            if getattr(self, name) >= 1:
                raise SettingError(f"`{name}` is {getattr(self, name)}: it must be below 1.")
        for name in ("match_augment", "train_augment"):
            augmentation_names(getattr(self, name))
        terms = [name for _, name, _ in parse_objective(self.objective)]
        if "confidence" in terms and self.learner == "untrained":
            raise SettingError(
                f"`objective` {self.objective} asks networks for their confidence, but with `learner` untrained they "
                f"never learn. Choose another objective or another learner."
            )
        if self.metric == "gradient" and self.reads("metric") and "gradient" not in terms:
            raise SettingError(
                f"`metric` gradient needs gradients, but `objective` {self.objective} compares none. "
                f"Choose another `metric`, or add gradient to the objective."
            )
        if terms == ["trajectory"]:
            self._check_students()
        if self.matched_layers != "convolutions" and "gradient" not in terms:
            raise SettingError(
                f"`matched_layers` {self.matched_layers} needs gradients, but `objective` {self.objective} compares "
                f"none. Leave it out, or choose the objective gradient."
            )
        if 0 < self.cluster_images < self.real_batch:
            raise SettingError(
                f"`cluster_images` is {self.cluster_images}, fewer than the {self.real_batch} clusters of "
                f"`real_batch`. Choose {self.real_batch} or more, or 0 for all images of a class."
            )
        if self.pool > 1 and self.life == 1:
            raise SettingError(
                f"`pool` is {self.pool}, but `life` is 1: networks take turns only if each of them is used in 2 or "
                f"more outer iterations. Choose a larger `life`."
            )
        if len(self.size_weights) != self.ipc:
            raise SettingError(
                f"`prefix_weights` is {self.prefix_weights!r}: it must be {', '.join(NAMED_WEIGHTS)}, {self.ipc} "
                f"numbers separated by commas (one for each size), or percentages for some sizes such as "
                f"1:60,{self.ipc}:40. All must be finite and at least 0, and one of them larger than 0."
            )

    def __repr__(self) -> str:
        """The settings that are not the paper's, as Python: `eval` gives the same recipe."""
        return f"Recipe({', '.join(f'{name}={value!r}' for name, value in self.changes.items())})"

    def _repr_html_(self) -> str:
        rows = [(f.name, str(getattr(self, f.name)), f.metadata["help"]) for f in fields(self)]
        return table(["setting", "value", "meaning"], rows)

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that are not the paper's, which are the defaults."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    @property
    def identity(self) -> dict[str, Any]:
        """The settings by which results and experts are found again: without those of ADDED that have their default."""
        return {name: value for name, value in asdict(self).items() if name not in ADDED or name in self.changes}

    def _check_students(self) -> None:
        """Refuse settings that the objective `trajectory` cannot have."""
        if self.learner != "trajectories":
            raise SettingError(
                f"`objective` trajectory needs `learner` trajectories, not {self.learner}. Choose both or neither."
            )
        if self.policy == "mdc-per-class":
            raise SettingError(
                "`policy` mdc-per-class chooses a size for each class, but `objective` trajectory trains on all "
                "classes together. Choose mdc."
            )

    def _check_field(self, name: str, kind: str, limits: Mapping[str, Any]) -> None:
        """Refuse a value of another type, one that is not among the choices, or one outside of the limits."""
        value: Any = getattr(self, name)
        kinds: dict[str, Any] = {"int": (int,), "float": (int, float), "str": (str,)}
        if not isinstance(value, kinds[kind]) or isinstance(value, bool):
            own = " Name a function or class of your own as module:name." if limits["own"] else ""
            raise SettingError(f"`{name}` is {value!r}: it must be of type {kind}.{own}")
        if limits["choices"] and value not in limits["choices"] and not (limits["own"] and is_own(value)):
            mixes_images = name == "network" and value in NETWORKS
            reason = ", whose batch norm mixes the images of a batch" if mixes_images else ""
            own = ", or a class of your own as module:Class" if limits["own"] else ""
            raise SettingError(f"`{name}` is {value!r}{reason}. {choose(value, limits['choices'])}{own}.")
        least, most = limits["least"], limits["most"]
        if least is not None and not least <= value <= most:
            raise SettingError(f"`{name}` is {value}: it must be at least {least} and at most {most:g}.")

    def replace(self, **changes: Any) -> Self:
        """The same recipe with some settings changed."""
        settings = {f.name for f in fields(self)}
        for name in changes:
            if name not in settings:
                raise SettingError(f"A recipe has no setting {name!r}. {choose(name, sorted(settings))}.")
        return replace(self, **changes)

    @property
    def architecture(self) -> Architecture:
        """The network to condense with."""
        return Architecture(self.network, self.width, self.depth)

    @property
    def terms(self) -> list[tuple[float, str, int]]:
        """The objectives that are added up, with their weights and periods."""
        return parse_objective(self.objective)

    @property
    def size_weights(self) -> tuple[float, ...]:
        """The weights of sizes 1..N of every-prefix; `subset_weight` multiplies all of them but the last."""
        if self.prefix_weights in NAMED_WEIGHTS:
            weights = [(n / self.ipc) ** NAMED_WEIGHTS[self.prefix_weights] for n in range(1, self.ipc + 1)]
        else:
            weights = _numbers(self.prefix_weights, self.ipc)
        if not weights:
            return ()
        return (*(self.subset_weight * w for w in weights[:-1]), weights[-1])

    @property
    def fleet(self) -> dict[int, float]:
        """The share of devices that use each size, if the weights were given as numbers; they add up to 1."""
        if self.prefix_weights in NAMED_WEIGHTS:
            return {}
        weights = _numbers(self.prefix_weights, self.ipc)
        return {n: weight / sum(weights) for n, weight in enumerate(weights, start=1) if weight}

    def decoded_images(self, classes: int) -> int:
        """Training images of the whole synthetic set of so many classes."""
        return classes * self.ipc * self.factor**2

    def train_steps(self, classes: int) -> int:
        """Training steps of the network between two inner iterations, for so many classes."""
        if self.learner == "trained-on-synthetic":
            return self.train_epochs * -(-self.decoded_images(classes) // self.train_batch)
        return -(-self.train_images // self.train_batch) if self.learner == "trained" else 0

    def images_per_step(self, classes: int) -> float:
        """Images of a training step, as a mean: the last batch of an epoch on synthetic images can have fewer."""
        if self.learner != "trained-on-synthetic":
            return self.train_batch
        images = self.decoded_images(classes)
        return images / -(-images // self.train_batch)

    @property
    def snapshots(self) -> int:
        """Snapshots of an expert, that of its first weights included: no more than students need."""
        return self.expert_starts + self.expert_ahead

    @property
    def steps_per_expert(self) -> int:
        """Training steps of an expert."""
        return self.expert_steps if self.learner == "experts" else (self.snapshots - 1) * self.snapshot_steps

    def training_steps(self, classes: int) -> int:
        """All training steps of networks in a run, without those of `early_steps`."""
        if self.learner in ("experts", "trajectories"):
            return self.experts * self.steps_per_expert
        return self.outer * (self.inner - 1) * self.train_steps(classes)

    def early_steps(self, images: int) -> int:
        """The training steps of one new network before its first match, if there are so many real images."""
        return self.early_epochs * (images // self.train_batch) if self.learner == "trained" else 0

    @property
    def networks(self) -> int:
        """How many networks a run trains between inner iterations: those of the pool, and those that replace them."""
        if self.learner != "trained":
            return 0
        turns = (divmod(self.outer - turn - 1, self.pool)[0] for turn in range(min(self.pool, self.outer)))
        return sum(1 + (last + turn * self.life // self.pool) // self.life for turn, last in enumerate(turns))

    def reads(self, setting: str) -> bool:
        """Whether a run with these settings depends on this one."""
        return not self.missing_for(setting)

    def missing_for(self, setting: str) -> dict[str, tuple[str, ...]]:
        """What would have to change so that a run depends on this setting: other settings, and their possible values.

        A sum of objectives has the values of all its terms.
        """
        needed = READ_IF.get(setting, {})
        have = {other: {getattr(self, other)} for other in needed}
        if "objective" in have:
            have["objective"] = {name for _, name, _ in self.terms}
        return {other: values for other, values in needed.items() if have[other].isdisjoint(values)}

    def scaled_pixel_lr(self, resolution: tuple[int, int]) -> float:
        """λ for pixels from 0 to 1 of images of this resolution.

        Gradients of a mean over N images shrink with N and with the pixels; Adam does not depend on their scale.
        """
        if self.pixel_optimiser == "adam":
            return self.pixel_lr
        return self.pixel_lr * (self.ipc / 10) * (resolution[0] * resolution[1] / 32**2)


def settings_read(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Of the settings in a file, those that its run depended on; all of them if they are no recipe of this version."""
    try:
        recipe = Recipe(**stored)
    except (SettingError, TypeError, ValueError, AttributeError, OverflowError):
        return dict(stored)
    return {name: value for name, value in stored.items() if recipe.reads(name)}


def _numbers(text: str, ipc: int) -> list[float]:
    """`1,1,2` or `1:60,3:40` as a weight for each size; an empty list if the text is not valid.

    The weights that are made of percentages add up to `ipc`, as they do when every size has weight 1.
    """
    try:
        if ":" not in text:
            weights = [float(part) for part in text.split(",")]
            return weights if _are_weights(weights) else []
        pairs = [part.split(":") for part in text.split(",")]
        shares = {int(size): float(share) for size, share in pairs}
    except ValueError:
        return []
    if len(shares) < len(pairs) or not all(1 <= size <= ipc for size in shares) or not _are_weights(shares.values()):
        return []
    total = sum(shares.values())
    return [ipc * shares.get(n, 0.0) / total for n in range(1, ipc + 1)]


def _are_weights(numbers: Iterable[float]) -> bool:
    """Whether all numbers are finite and at least 0, and one of them is larger than 0."""
    weights = list(numbers)
    return all(weight >= 0 for weight in weights) and 0 < sum(weights) <= MOST
