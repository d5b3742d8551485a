"""The synthetic set S and how its stored pixels become training images.

S is one float tensor [N, C, ch, h, w] in [0, 1], rank first, so that S_[n] is `pixels[:n]`. A formation decodes stored
images one by one, so the decoded images of a prefix are a prefix of the decoded images (laws 1 and 2 in
docs/architecture.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.errors import SettingError
from mipset.nn.pixels import to_unit
from mipset.nn.randomness import Purpose, generator
from mipset.nn.training import Images, normalise


class Formation(ABC):
    """How one stored image becomes `factor`² training images."""

    @property
    @abstractmethod
    def factor(self) -> int:
        """Tiles along each side of a stored image."""

    @property
    def images(self) -> int:
        """Training images in one stored image."""
        return self.factor**2

    @abstractmethod
    def decode(self, stored: Tensor) -> Tensor:
        """Stored images [n, ch, h, w] to training images [n * factor², ch, h, w], one stored image after the other."""

    @abstractmethod
    def encode(self, images: Tensor) -> Tensor:
        """Training images [n * factor², ch, h, w] to stored images [n, ch, h, w]: shrink them to tiles."""

    @abstractmethod
    def shown(self, images: Tensor, tile: int) -> Tensor:
        """Images [n, ch, h, w] after each was encoded as tile number `tile` (from 0) and decoded again."""

    def place(self, tile: int, resolution: tuple[int, int]) -> tuple[slice, slice]:
        """The rows and columns of a tile in a stored image; the last tiles of a row or column can be smaller."""
        longest = tuple(-(-side // self.factor) for side in resolution)
        rows, columns = (
            slice(at * length, min(side, (at + 1) * length))
            for at, length, side in zip(divmod(tile, self.factor), longest, resolution, strict=True)
        )
        return rows, columns


@dataclass(frozen=True)
class Plain(Formation):
    """One stored image is one training image."""

    @property
    def factor(self) -> int:
        return 1

    def decode(self, stored: Tensor) -> Tensor:
        return stored

    def encode(self, images: Tensor) -> Tensor:
        return images

    def shown(self, images: Tensor, tile: int) -> Tensor:
        return images


@dataclass(frozen=True)
class MultiFormation(Formation):
    """One stored image is a grid of `tiles` x `tiles` small images, each enlarged to the full resolution bilinearly.

    If `tiles` does not divide the resolution, the image is padded with 0.5 on the right and at the bottom first.
    """

    tiles: int

    def __post_init__(self) -> None:
        if self.tiles < 2:
            raise SettingError(f"`factor` is {self.tiles}: multi-formation needs 2 or more. Use Plain() for 1.")

    @property
    def factor(self) -> int:
        return self.tiles

    def decode(self, stored: Tensor) -> Tensor:
        height, width = stored.shape[2:]
        f = self.tiles
        return _enlarged(cut(_padded(stored, f * -(-height // f), f * -(-width // f)), f), (height, width))

    def encode(self, images: Tensor) -> Tensor:
        each = images.reshape(-1, self.images, *images.shape[1:])
        stored = torch.empty_like(each[:, 0])
        for tile in range(self.images):
            rows, columns = self.place(tile, _resolution(images))
            target = stored[:, :, rows, columns]
            target.copy_(F.interpolate(each[:, tile], size=target.shape[2:], mode="nearest"))
        return stored

    def shown(self, images: Tensor, tile: int) -> Tensor:
        height, width = resolution = _resolution(images)
        rows, columns = self.place(tile, resolution)
        small = F.interpolate(images, size=(rows.stop - rows.start, columns.stop - columns.start), mode="nearest")
        return _enlarged(_padded(small, -(-height // self.tiles), -(-width // self.tiles)), resolution)


def _resolution(images: Tensor) -> tuple[int, int]:
    return images.shape[2], images.shape[3]


def _padded(images: Tensor, height: int, width: int) -> Tensor:
    return F.pad(images, (0, width - images.shape[3], 0, height - images.shape[2]), value=0.5)


def _enlarged(tiles: Tensor, resolution: tuple[int, int]) -> Tensor:
    return F.interpolate(tiles, size=resolution, mode="bilinear", align_corners=False)


def cut(images: Tensor, factor: int) -> Tensor:
    """Images [n, ch, h, w] to tiles [n * factor², ch, h / factor, w / factor], image by image and row by row."""
    n, channels, height, width = images.shape
    tile_h, tile_w = height // factor, width // factor
    grid = images.reshape(n, channels, factor, tile_h, factor, tile_w).permute(0, 2, 4, 1, 3, 5)
    return grid.reshape(n * factor**2, channels, tile_h, tile_w)


def join(tiles: Tensor, factor: int) -> Tensor:
    """The images that `cut` has cut into these tiles."""
    _, channels, tile_h, tile_w = tiles.shape
    grid = tiles.reshape(-1, factor, factor, channels, tile_h, tile_w).permute(0, 3, 1, 4, 2, 5)
    return grid.reshape(-1, channels, factor * tile_h, factor * tile_w)


def formation(factor: int) -> Formation:
    """The formation with `factor` tiles along each side."""
    return Plain() if factor == 1 else MultiFormation(factor)


def from_real(class_images: Iterable[Tensor], ipc: int, form: Formation) -> Tensor:
    """The "mix" initialisation: tiles of the first `ipc * factor²` real images of each class, [N, C, ch, h, w].

    Decoded image j of a class is real image j, so the initialisation of a smaller set is a prefix of this one.
    """
    ranks = [form.encode(to_unit(images[: ipc * form.images])) for images in class_images]
    return torch.stack(ranks, dim=1)


def from_noise(shape: tuple[int, int, int, int, int], seed: int, draw: Callable[..., Tensor] = torch.rand) -> Tensor:
    """Noise [N, C, ch, h, w], by default uniform in [0, 1]; each stored image has its own generator."""
    ipc, classes = shape[:2]
    return torch.stack(
        [
            torch.stack(
                [draw(shape[2:], generator=generator(seed, Purpose.INITIAL_PIXELS, n, c)) for c in range(classes)]
            )
            for n in range(ipc)
        ]
    )


def from_normal_noise(
    shape: tuple[int, int, int, int, int], seed: int, mean: tuple[float, ...], std: tuple[float, ...]
) -> Tensor:
    """Noise that is standard normal when it is normalised, clamped to [0, 1]."""
    level, spread = (torch.tensor(values).reshape(-1, 1, 1) for values in (mean, std))
    return (level + spread * from_noise(shape, seed, torch.randn)).clamp_(0, 1)


def training_images(stored: Tensor, form: Formation, mean: tuple[float, ...], std: tuple[float, ...]) -> Images:
    """The training images of stored images in [0, 1], [n, C, ch, h, w]: decoded, class by class within a rank."""
    classes = torch.arange(stored.shape[1], device=stored.device).repeat(stored.shape[0])
    labels = classes.repeat_interleave(form.images)
    return Images.of(form.decode(stored.flatten(0, 1)), labels, mean, std, stored.device)


class Synthetic:
    """S: the stored pixels [N, C, ch, h, w], and how they decode."""

    def __init__(self, pixels: Tensor, form: Formation, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.pixels, self.formation = pixels, form
        self.mean, self.std = mean, std
        self._mean, self._std = (
            torch.tensor(values, device=pixels.device, dtype=pixels.dtype).reshape(-1, 1, 1) for values in (mean, std)
        )

    @property
    def N(self) -> int:  # noqa: N802  (the paper's letter)
        """Stored images per class."""
        return self.pixels.shape[0]

    @property
    def C(self) -> int:  # noqa: N802  (the paper's letter)
        """Classes."""
        return self.pixels.shape[1]

    @property
    def resolution(self) -> tuple[int, int]:
        """Height and width of an image."""
        return self.pixels.shape[3], self.pixels.shape[4]

    def of_class(self, c: int) -> Tensor:
        """S_c [N, ch, h, w], a copy that requires its gradient."""
        return self.pixels[:, c].clone().requires_grad_()

    def subset(self, n: int) -> Images:
        """The training images of S_[n]."""
        return training_images(self.pixels[:n], self.formation, self.mean, self.std)

    def decode(self, stored: Tensor) -> Tensor:
        """Stored images to normalised training images."""
        return normalise(self.formation.decode(stored), self._mean, self._std)

    def clamp(self) -> None:
        """Clamp all pixels to [0, 1]. Frozen pixels were clamped before they were frozen, so they do not change."""
        self.pixels.clamp_(0, 1)
