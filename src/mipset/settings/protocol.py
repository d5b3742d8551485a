"""Protocols: how a network is trained on a condensed set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from mipset.errors import SettingError, choose
from mipset.settings.choices import NO_AUGMENTATION, augmentation_names

FLIP = "flip"
BATCH = 64  # training images in one step, in every named protocol


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

    def epochs_for(self, images: int) -> int:
        """How many epochs a network is trained on so many images."""
        return training_epochs(images, self.epochs, self.least_steps, self.batch)

    def without_flips(self) -> Protocol:
        """The same protocol for images that change their class when they are mirrored, such as digits."""
        kept = [name for name in augmentation_names(self.augment) if name != FLIP]
        return replace(self, augment="_".join(kept) or NO_AUGMENTATION)

    def __str__(self) -> str:
        least = f", at least {self.least_steps} steps" if self.least_steps else ""
        flips = "" if FLIP in augmentation_names(self.augment) else ", no flips"
        return f"{self.name}, {self.epochs} epochs{least}{flips}"


# The shortest training with the accuracy of the paper's 1,000 epochs, to half a point in the mean over sizes (see "How
# long to train" in docs/results.md): a third of its time.
STANDARD = Protocol(
    "standard", "200 epochs, as accurate as the paper's to a point", epochs=200, least_steps=1000, rate=0.02, even=True
)
# For a first look: it is far from converged, so it hides differences between sets, above all at large sizes.
# `even`: with few steps and a high rate, a small last batch harms the network. On CIFAR-10, 200 images in batches of
# 64, 64, 64 and 8 were 5 points worse than in four batches of 50.
QUICK = Protocol(
    "quick", "16 epochs, for a first look: far from converged", epochs=16, least_steps=100, rate=0.05, even=True
)
PROTOCOLS = {protocol.name: protocol for protocol in (STANDARD, QUICK, Protocol())}
DEFAULT = STANDARD.name


def protocol(name: str, **changes: Any) -> Protocol:
    """A named protocol, with some settings changed."""
    if name not in PROTOCOLS:
        raise SettingError(f"There is no protocol {name!r}. {choose(name, PROTOCOLS)}.")
    chosen = replace(PROTOCOLS[name], **changes)
    if chosen.epochs < 1:
        raise SettingError(f"`epochs` is {chosen.epochs}: it must be at least 1.")
    return chosen
