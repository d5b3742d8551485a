"""Recipes: one frozen, flat, documented set of settings.

Every field is a flag of `mipset condense`. The defaults are the paper's settings for CIFAR-10 at 10 images per class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from mipset.errors import SettingError, choices
from mipset.settings.architecture import NETWORKS, WITH_BATCH_NORM

POLICIES = ("baseline-c", "mdc", "mdc-per-class", "every-prefix")
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
    policy: str = _setting("mdc", "which sizes count; baseline-c: the whole set only", among=POLICIES)
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
