"""Protocols: how a network is trained on a condensed set."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mipset.errors import SettingError, choose
from mipset.settings.choices import FLIP, FULL_PRECISION, PRECISIONS, augmentation_names, unmirrored

BATCH = 64  # training images in one step, in every named protocol


# The epochs of IDC on ImageNet, up to so many training images per class (after decoding), and with more of them.
IMAGENET_EPOCHS = ((1, 3000), (10, 2000), (50, 1500), (200, 1000), (500, 500))
IMAGENET_LEAST = 300
HUNDRED = 100  # classes from which only two thirds of these epochs are used, in whole hundreds


def imagenet_epochs(per_class: int, classes: int) -> int:
    """How many epochs IDC trains on so many decoded images of each class of ImageNet."""
    epochs = next((epochs for most, epochs in IMAGENET_EPOCHS if per_class <= most), IMAGENET_LEAST)
    return 2 * epochs // 3 // 100 * 100 if classes == HUNDRED else epochs


def training_epochs(images: int, epochs: int, least_steps: int, batch: int) -> int:
    """How many epochs a network is trained on so many images: more than `epochs` if there would be too few steps."""
    steps_per_epoch = -(-images // batch)
    return max(epochs, -(-least_steps // steps_per_epoch))


@dataclass(frozen=True)
class Protocol:
    """How a network is trained on a condensed set. The defaults are the paper's (E-IDC)."""

    name: str = "paper"
    text: str = field(default="as in the paper, 1,000 epochs", compare=False)
    epochs: int = 1000
    least_steps: int = 0  # small sets are trained for more epochs, until they have had so many steps
    batch: int = BATCH
    rate: float = 0.01
    momentum: float = 0.9
    decay: float = 5e-4
    augment: str = "color_crop_flip_scale_rotate"
    mix: float = 0.5  # probability of CutMix
    milestones: tuple[float, ...] = (2 / 3, 5 / 6)  # of the epochs, where the rate drops
    drop: float = 0.2  # factor of the rate there
    even: bool = False  # whether all batches of an epoch have the same number of images
    by_size: bool = False  # whether `imagenet_epochs` decides the epochs, in place of `epochs`
    precision: str = FULL_PRECISION  # of training; testing is always of float32

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that an accuracy depends on. Older folders of results do not have `precision`."""
        without = {"text"} if self.precision != FULL_PRECISION else {"text", "precision"}
        return {name: value for name, value in asdict(self).items() if name not in without}

    def epochs_at(self, images: int, classes: int) -> int:
        """The epochs for so many images of all classes, before `least_steps`."""
        return imagenet_epochs(images // classes, classes) if self.by_size else self.epochs

    def epochs_for(self, images: int, classes: int) -> int:
        """How many epochs a network is trained on so many images."""
        return training_epochs(images, self.epochs_at(images, classes), self.least_steps, self.batch)

    def without_flips(self) -> Protocol:
        """The same protocol for images that change their class when they are mirrored, such as digits."""
        return replace(self, augment=unmirrored(self.augment))

    def __str__(self) -> str:
        least = f", at least {self.least_steps} steps" if self.least_steps else ""
        flips = "" if FLIP in augmentation_names(self.augment) else ", no flips"
        epochs = f"{IMAGENET_LEAST} to {IMAGENET_EPOCHS[0][1]}" if self.by_size else str(self.epochs)
        precision = "" if self.precision == FULL_PRECISION else f", {self.precision}"
        return f"{self.name}, {epochs} epochs{least}{flips}{precision}"


# A third of the time of the paper's 1,000 epochs. In the mean over sizes it is half a point below them with networks of
# width 64, and 1.5 points with those of width 128 (see "How long to train" in docs/results.md).
STANDARD = Protocol(
    "standard", "200 epochs, a point below the paper's", epochs=200, least_steps=1000, rate=0.02, even=True
)
# For a first look: it is far from converged, so it hides differences between sets, above all at large sizes.
# `even`: with few steps and a high rate, a small last batch harms the network. On CIFAR-10, 200 images in batches of
# 64, 64, 64 and 8 were 5 points worse than in four batches of 50.
QUICK = Protocol(
    "quick", "16 epochs, for a first look: far from converged", epochs=16, least_steps=100, rate=0.05, even=True
)
IMAGENET = Protocol(
    "paper-imagenet",
    "as in the paper for ImageNet: 3,000 epochs for 1 decoded image per class down to 300 above 500",
    augment="zoom_flip_jitter_lighting",
    mix=1.0,
    by_size=True,
)
PROTOCOLS = {protocol.name: protocol for protocol in (STANDARD, QUICK, Protocol(), IMAGENET)}
DEFAULT = STANDARD.name


def protocol(name: str, **changes: Any) -> Protocol:
    """A named protocol, with some settings changed."""
    if name not in PROTOCOLS:
        raise SettingError(f"There is no protocol {name!r}. {choose(name, PROTOCOLS)}.")
    chosen = replace(PROTOCOLS[name], **{"by_size": PROTOCOLS[name].by_size and "epochs" not in changes, **changes})
    if chosen.epochs < 1:
        raise SettingError(f"`epochs` is {chosen.epochs}: it must be at least 1.")
    if chosen.precision not in PRECISIONS:
        raise SettingError(f"There is no `precision` {chosen.precision!r}. {choose(chosen.precision, PRECISIONS)}.")
    return chosen
