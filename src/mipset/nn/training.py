"""Training a network: one step, many epochs on a small set, and its class scores and features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mipset.nn.augment import Augmentation, augmentation, cutmix
from mipset.nn.distributed import ALONE, Team
from mipset.nn.networks import Network
from mipset.nn.pixels import to_unit
from mipset.nn.precision import HALF, products_in_half
from mipset.nn.randomness import Purpose, generator, permutation
from mipset.settings.protocol import Protocol

# How many pixels a network learns from at once: those of 21 images of 224 x 224. A larger batch is computed in parts,
# which bounds memory and changes the step by rounding only. With batch norm, it cannot be divided.
PIXELS_AT_ONCE = 1040 * 32 * 32


def normalise(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Images in [0, 1] to zero mean and unit deviation per channel [ch, 1, 1]."""
    return (images - mean) / std


@dataclass(frozen=True)
class Images:
    """Labelled images of one resolution, uint8 or float in [0, 1]; `batch` gives them normalised.

    A large set stays uint8 in memory, and only batches become floats.
    """

    pixels: Tensor  # [n, ch, h, w]
    labels: Tensor  # [n]
    mean: Tensor  # [ch, 1, 1]
    std: Tensor  # [ch, 1, 1]

    @classmethod
    def of(
        cls,
        pixels: Tensor,
        labels: Tensor,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        device: torch.device,
    ) -> Images:
        """Put everything on one device."""
        level, spread = (torch.tensor(values, device=device).reshape(-1, 1, 1) for values in (mean, std))
        return cls(pixels.to(device), labels.to(device), level, spread)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def resolution(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[2], self.pixels.shape[3]

    def at(self, indices: Tensor) -> Images:
        """Only the images at `indices`."""
        indices = indices.to(self.pixels.device)
        return Images(self.pixels[indices], self.labels[indices], self.mean, self.std)

    def batch(self, indices: Tensor | slice) -> tuple[Tensor, Tensor]:
        """The normalised images at `indices`, and their labels."""
        if isinstance(indices, Tensor):
            indices = indices.to(self.pixels.device)
        pixels = self.pixels[indices]
        unit = to_unit(pixels) if pixels.dtype == torch.uint8 else pixels
        return normalise(unit, self.mean, self.std), self.labels[indices]


@dataclass(frozen=True)
class TrainingRule:
    """How a network learns from labelled images: SGD, an augmentation for each image, CutMix."""

    rate: float
    momentum: float
    decay: float
    augmentation: Augmentation
    mix: float
    half: bool = False  # whether products are of bfloat16; their sums are always of float32

    def optimiser(self, theta: Network) -> torch.optim.SGD:
        """A new optimiser for all parameters of θ."""
        return torch.optim.SGD(theta.parameters(), lr=self.rate, momentum=self.momentum, weight_decay=self.decay)

    def step(
        self,
        theta: Network,
        optimiser: torch.optim.SGD,
        images: Tensor,
        labels: Tensor,
        generator: torch.Generator,
        team: Team = ALONE,
    ) -> None:
        """One step on normalised images. Every process of a team draws for all images, so all take the same step."""
        resolution = (images.shape[2], images.shape[3])
        mixed = cutmix(self.augmentation(images, generator), labels, generator, self.mix)
        optimiser.zero_grad(set_to_none=True)

        def loss(rows: slice) -> Tensor:
            part = mixed.part(rows)
            with products_in_half(images, self.half):
                return part.loss(theta(part.images))

        at_once = None if theta.mixes_images else max(1, PIXELS_AT_ONCE // (resolution[0] * resolution[1]))
        team.backward(loss, len(images), theta.parameters(), at_once)
        optimiser.step()


@dataclass(frozen=True)
class Schedule:
    """How many epochs a network learns from one small set, and when its learning rate drops."""

    epochs: int
    batch: int = 64
    milestones: tuple[float, ...] = (2 / 3, 5 / 6)  # of the epochs, where the rate drops
    drop: float = 0.2  # factor of the rate there
    even: bool = False  # whether all batches of an epoch have the same number of images; else the last has fewer

    def split(self, order: Tensor) -> Sequence[Tensor]:
        """The batches of one epoch."""
        if not self.even:
            return torch.split(order, self.batch)
        return torch.tensor_split(order, -(-len(order) // self.batch))


def rule_of(p: Protocol) -> TrainingRule:
    """The training rule of a protocol."""
    return TrainingRule(p.rate, p.momentum, p.decay, augmentation(p.augment), p.mix, HALF[p.precision])


def schedule_of(p: Protocol, images: int, classes: int) -> Schedule:
    """The schedule of a protocol for so many images of all classes."""
    return Schedule(p.epochs_for(images, classes), p.batch, p.milestones, p.drop, p.even)


def fit(
    theta: Network, images: Images, rule: TrainingRule, schedule: Schedule, seed: int, *address: int
) -> Iterator[int]:
    """Train θ on all images for many epochs; yield the number of every epoch, from 1, at its end.

    `seed` and `address` are the address of the draws, so that different networks have different batches.
    """
    optimiser = rule.optimiser(theta)
    drops = {int(share * schedule.epochs) for share in schedule.milestones}
    for epoch in range(schedule.epochs):
        if epoch in drops:
            for group in optimiser.param_groups:
                group["lr"] *= schedule.drop
        order = permutation(len(images), seed, Purpose.EVALUATION_BATCH, *address, epoch)
        draws = generator(seed, Purpose.EVALUATION_AUGMENTATION, *address, epoch)
        for batch in schedule.split(order):
            rule.step(theta, optimiser, *images.batch(batch), draws)
        yield epoch + 1


TEST_BATCH = 500
TEST_PIXELS = TEST_BATCH * 32 * 32  # larger images are tested in smaller batches, or memory might not suffice


def at_once(resolution: Sequence[int], most: int = TEST_BATCH) -> int:
    """How many images of this height and width are tested at once."""
    height, width = resolution
    return max(1, min(most, TEST_PIXELS // (height * width)))


def accuracy(theta: Network, images: Images, batch: int = TEST_BATCH) -> float:
    """The share of images that θ classifies correctly, in percent."""
    right = int((class_scores(theta, images, batch).argmax(dim=1) == images.labels).sum())
    return 100 * right / len(images)


def class_scores(theta: Network, images: Images, batch: int = TEST_BATCH) -> Tensor:
    """The class scores of every image, without augmentation: [n, C]."""
    return _evaluated(theta, theta, images, batch)


def last_features(theta: Network, images: Images, batch: int = TEST_BATCH) -> Tensor:
    """The last features of every image, without augmentation: [n, F]."""
    return _evaluated(theta, theta.features, images, batch)


@torch.no_grad()
def _evaluated(theta: Network, function: Callable[[Tensor], Tensor], images: Images, batch: int) -> Tensor:
    """A function of all images, batch by batch: no augmentation, no gradients."""
    theta.eval()
    batch = at_once(images.resolution, batch)
    results = [function(images.batch(slice(start, start + batch))[0]) for start in range(0, len(images), batch)]
    theta.train()
    return torch.cat(results)
