"""Differentiable augmentation of normalised images.

A draw is an object: drawn once, it can be applied to any number of tensors, so that real and synthetic images see the
same transform. A *shared* draw holds one set of parameters for a whole batch and fits batches of any length; otherwise
every image of a batch has its own. Empty pixels become zero: images are normalised, so zero is the mean colour.

Two compositions exist. `IDC`: flip and colour always, then one of crop, scale and rotate, then cutout (each if it is
listed); `zoom`, `jitter` and `lighting`, which IDC uses on ImageNet, come before these. `DSA`: exactly one of the
listed operations.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.settings.choices import augmentation_names
from mipset.settings.part import Part
from mipset.settings.protocol import DEFAULT, PROTOCOLS

CROP_SHARE = 0.125  # of a side, the largest shift
CUTOUT_SHARE = 0.5  # of a side, the length of the square
SCALE_RATIO = 1.2
ROTATE_DEGREES = 15.0

# Of the augmentation for ImageNet. `jitter` and `lighting` change pixels in [0, 1]: the normalisation is ImageNet's.
ZOOM_AREA, ZOOM_RATIO = 0.5, 4 / 3
JITTER, LIGHTING = 0.4, 0.1
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
GREY = (0.299, 0.587, 0.114)  # of red, green and blue in brightness
COLOUR_VALUES = (0.2175, 0.0188, 0.0045)  # deviations along the principal components, and these as columns
COLOUR_VECTORS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140), (-0.5836, -0.6948, 0.4203))


def _uniform(generator: torch.Generator | None, count: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=generator)


def _integers(generator: torch.Generator | None, count: int, low: int, high: int) -> Tensor:
    return torch.randint(low, high + 1, (count,), generator=generator)


def _pixels(share: float, side: int) -> int:
    """A share of a side in whole pixels, halves rounded up."""
    return int(share * side + 0.5)


def _per_image(parameter: Tensor, images: Tensor) -> Tensor:
    """A parameter [1] or [B] as [1 or B, 1, 1, 1], to be used with images [B, ch, h, w]."""
    return parameter.to(images.device, images.dtype).reshape(-1, 1, 1, 1)


class Transform(ABC):
    """One drawn operation: parameters of length 1 (shared) or B (one per image), applied by calling."""

    @abstractmethod
    def __call__(self, images: Tensor) -> Tensor:
        """Transform images [B, ch, h, w]."""


@dataclass(frozen=True)
class Color(Transform):
    """Brightness, saturation and contrast, in this order; each parameter is drawn from U(0, 1)."""

    brightness: Tensor
    saturation: Tensor
    contrast: Tensor

    @classmethod
    def draw(cls, generator: torch.Generator | None, count: int) -> Color:
        return cls(*(_uniform(generator, count) for _ in range(3)))

    def __call__(self, images: Tensor) -> Tensor:
        x = images + (_per_image(self.brightness, images) - 0.5)
        grey = x.mean(dim=1, keepdim=True)
        x = grey + (x - grey) * (2 * _per_image(self.saturation, images))
        level = x.mean(dim=(1, 2, 3), keepdim=True)
        return level + (x - level) * (_per_image(self.contrast, images) + 0.5)


@dataclass(frozen=True)
class Crop(Transform):
    """Shift by whole pixels: the result at (i, j) is the image at (i + down, j + right), zero outside."""

    down: Tensor
    right: Tensor

    @classmethod
    def draw(cls, generator: torch.Generator | None, count: int, resolution: tuple[int, int]) -> Crop:
        reach = [_pixels(CROP_SHARE, side) for side in resolution]
        return cls(*(_integers(generator, count, -s, s) for s in reach))

    def __call__(self, images: Tensor) -> Tensor:
        _, _, height, width = images.shape
        if len(self.down) == 1:
            down, right = int(self.down), int(self.right)
            return F.pad(images, (-right, right, -down, down))
        reach_h, reach_w = int(self.down.abs().max()), int(self.right.abs().max())
        padded = F.pad(images, (reach_w, reach_w, reach_h, reach_h)).permute(0, 2, 3, 1)
        rows = (torch.arange(height) + reach_h + self.down[:, None]).to(images.device)
        columns = (torch.arange(width) + reach_w + self.right[:, None]).to(images.device)
        batch = torch.arange(len(images), device=images.device)[:, None, None]
        return padded[batch, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


@dataclass(frozen=True)
class Cutout(Transform):
    """Set a square to zero; its centre may be anywhere in the image, so parts of it may be outside."""

    row: Tensor
    column: Tensor

    @classmethod
    def draw(cls, generator: torch.Generator | None, count: int, resolution: tuple[int, int]) -> Cutout:
        # the centre of an even square is between two pixels, so it has one more position
        last = [side - _pixels(CUTOUT_SHARE, side) % 2 for side in resolution]
        return cls(*(_integers(generator, count, 0, end) for end in last))

    def __call__(self, images: Tensor) -> Tensor:
        keep = torch.ones((), device=images.device, dtype=images.dtype)
        inside = []
        for side, centre in zip(images.shape[2:], (self.row, self.column), strict=True):
            length = _pixels(CUTOUT_SHARE, side)
            offset = torch.arange(side) - (centre[:, None] - length // 2)
            inside.append(((offset >= 0) & (offset < length)).to(images.device))
        hole = inside[0][:, None, :, None] & inside[1][:, None, None, :]
        return images * torch.where(hole, 0 * keep, keep)


@dataclass(frozen=True)
class Flip(Transform):
    """Mirror left and right where `mirrored`."""

    mirrored: Tensor

    @classmethod
    def draw(cls, generator: torch.Generator | None, count: int) -> Flip:
        return cls(_uniform(generator, count) < 0.5)

    def __call__(self, images: Tensor) -> Tensor:
        if len(self.mirrored) == 1:
            return images.flip(3) if bool(self.mirrored) else images
        return torch.where(_per_image(self.mirrored, images).bool(), images.flip(3), images)


@dataclass(frozen=True)
class Affine(Transform):
    """Resample bilinearly on a grid [1 or B, 2, 3], zero outside: scaling and rotation."""

    matrix: Tensor
    align_corners: bool

    @classmethod
    def draw_scale(cls, generator: torch.Generator | None, count: int, align_corners: bool) -> Affine:
        sx, sy = (_uniform(generator, count, 1 / SCALE_RATIO, SCALE_RATIO) for _ in range(2))
        return cls._of(sx, torch.zeros(count), torch.zeros(count), sy, align_corners)

    @classmethod
    def draw_rotate(cls, generator: torch.Generator | None, count: int, align_corners: bool) -> Affine:
        angle = _uniform(generator, count, -ROTATE_DEGREES, ROTATE_DEGREES) * (math.pi / 180)
        return cls._of(angle.cos(), -angle.sin(), angle.sin(), angle.cos(), align_corners)

    @classmethod
    def _of(cls, a: Tensor, b: Tensor, c: Tensor, d: Tensor, align_corners: bool) -> Affine:
        zero = torch.zeros_like(a)
        rows = [torch.stack([a, b, zero], dim=1), torch.stack([c, d, zero], dim=1)]
        return cls(torch.stack(rows, dim=1), align_corners)

    def __call__(self, images: Tensor) -> Tensor:
        matrix = self.matrix.to(images.device, images.dtype).expand(len(images), 2, 3)
        grid = F.affine_grid(matrix, list(images.shape), align_corners=self.align_corners)
        return F.grid_sample(images, grid, padding_mode="zeros", align_corners=self.align_corners)


@dataclass(frozen=True)
class Zoom(Transform):
    """Enlarge a part of the image [1 or B, 4] to all of it: its centre and size, of the half side (RandomResizedCrop).

    The part has 50 to 100 % of the area, and sides whose ratio is 3/4 to 4/3. If it does not fit, it is cut to the
    image. It is resampled bilinearly.
    """

    part: Tensor  # x and y of the centre, half width and half height

    @classmethod
    def draw(cls, generator: torch.Generator | None, count: int) -> Zoom:
        area = _uniform(generator, count, ZOOM_AREA, 1.0)
        ratio = _uniform(generator, count, -math.log(ZOOM_RATIO), math.log(ZOOM_RATIO)).exp()
        half_width, half_height = (area * ratio).sqrt().clamp(max=1.0), (area / ratio).sqrt().clamp(max=1.0)
        x, y = (_uniform(generator, count, -1.0, 1.0) * (1 - half) for half in (half_width, half_height))
        return cls(torch.stack([x, y, half_width, half_height], dim=1))

    def __call__(self, images: Tensor) -> Tensor:
        x, y, half_width, half_height = self.part.to(images.device, images.dtype).expand(len(images), 4).unbind(dim=1)
        zero = torch.zeros_like(x)
        rows = [torch.stack([half_width, zero, x], dim=1), torch.stack([zero, half_height, y], dim=1)]
        grid = F.affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


@dataclass(frozen=True)
class Jitter(Transform):
    """Scale brightness, contrast and saturation of pixels in [0, 1], in this order, each by a factor around 1."""

    brightness: Tensor
    contrast: Tensor
    saturation: Tensor

    @classmethod
    def draw(cls, generator: torch.Generator | None, count: int) -> Jitter:
        return cls(*(_uniform(generator, count, 1 - JITTER, 1 + JITTER) for _ in range(3)))

    def __call__(self, images: Tensor) -> Tensor:
        mean, std = _imagenet(images, IMAGENET_MEAN), _imagenet(images, IMAGENET_STD)
        x = (images * std + mean) * _per_image(self.brightness, images)
        x = _blend(x, _grey(x).mean(dim=(2, 3), keepdim=True), _per_image(self.contrast, images))
        return (_blend(x, _grey(x), _per_image(self.saturation, images)) - mean) / std


@dataclass(frozen=True)
class Lighting(Transform):
    """Add random amounts of the principal components of ImageNet's colours to pixels in [0, 1]."""

    amounts: Tensor  # [1 or B, 3]

    @classmethod
    def draw(cls, generator: torch.Generator | None, count: int) -> Lighting:
        return cls(LIGHTING * torch.randn(count, 3, generator=generator))

    def __call__(self, images: Tensor) -> Tensor:
        shift = (self.amounts * torch.tensor(COLOUR_VALUES)) @ torch.tensor(COLOUR_VECTORS).T
        if images.shape[1] != 3:
            shift = shift.mean(dim=1, keepdim=True)
        return images + shift[:, :, None, None].to(images.device, images.dtype) / _imagenet(images, IMAGENET_STD)


def _imagenet(images: Tensor, values: tuple[float, ...]) -> Tensor:
    """A number for each channel [ch, 1, 1]; images with other than three channels have the mean of the three."""
    channels = images.new_tensor(values if images.shape[1] == 3 else [sum(values) / 3])
    return channels.reshape(-1, 1, 1)


def _grey(images: Tensor) -> Tensor:
    weights = images.new_tensor(GREY if images.shape[1] == 3 else [1 / images.shape[1]] * images.shape[1])
    return (images * weights.reshape(-1, 1, 1)).sum(dim=1, keepdim=True)


def _blend(images: Tensor, other: Tensor, share: Tensor) -> Tensor:
    return share * images + (1 - share) * other


@dataclass(frozen=True)
class Draw(Transform):
    """Several drawn operations, one after the other."""

    transforms: tuple[Transform, ...]

    def __call__(self, images: Tensor) -> Tensor:
        for transform in self.transforms:
            images = transform(images)
        return images


class Operation(Enum):
    """The operations of an augmentation; settings/choices.py explains them."""

    COLOR = "color"
    CROP = "crop"
    CUTOUT = "cutout"
    FLIP = "flip"
    SCALE = "scale"
    ROTATE = "rotate"
    ZOOM = "zoom"
    JITTER = "jitter"
    LIGHTING = "lighting"


@dataclass(frozen=True)
class Augmentation(Part, ABC):
    """A list of operations that draws can be made from. Calling it draws for each image, and transforms them all."""

    operations: tuple[Operation, ...]
    align_corners: bool = False

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Normalised images [B, ch, h, w], each transformed by a draw of its own; or a single image [ch, h, w].

        Without a `generator`, torch's own is used.
        """
        if images.dim() == 3:
            return self(images[None], generator)[0]
        height, width = images.shape[2:]
        return self.draw(generator, (height, width), images=len(images))(images)

    def draw(self, generator: torch.Generator | None, resolution: tuple[int, int], images: int | None = None) -> Draw:
        """Draw for images of `resolution`: one set of parameters for each of `images`, or one shared by all (None)."""
        count = 1 if images is None else images
        makers: dict[Operation, Callable[[], Transform]] = {
            Operation.COLOR: lambda: Color.draw(generator, count),
            Operation.CROP: lambda: Crop.draw(generator, count, resolution),
            Operation.CUTOUT: lambda: Cutout.draw(generator, count, resolution),
            Operation.FLIP: lambda: Flip.draw(generator, count),
            Operation.SCALE: lambda: Affine.draw_scale(generator, count, self.align_corners),
            Operation.ROTATE: lambda: Affine.draw_rotate(generator, count, self.align_corners),
            Operation.ZOOM: lambda: Zoom.draw(generator, count),
            Operation.JITTER: lambda: Jitter.draw(generator, count),
            Operation.LIGHTING: lambda: Lighting.draw(generator, count),
        }
        return Draw(tuple(makers[operation]() for operation in self._compose(generator)))

    @abstractmethod
    def _compose(self, generator: torch.Generator | None) -> list[Operation]:
        """The operations of one draw, in order."""


def _one_of(among: Sequence[Operation], generator: torch.Generator | None) -> list[Operation]:
    return [among[int(_integers(generator, 1, 0, len(among) - 1))]] if among else []


# IDC's composition
FIRST = (Operation.ZOOM, Operation.FLIP, Operation.COLOR, Operation.JITTER, Operation.LIGHTING)
LAST = (Operation.CUTOUT,)
GEOMETRIC = (Operation.CROP, Operation.SCALE, Operation.ROTATE)


@dataclass(frozen=True)
class IDC(Augmentation):
    """Zoom, flip, colour, jitter, lighting, then one of crop, scale and rotate, then cutout: each if it is listed."""

    def _compose(self, generator: torch.Generator | None) -> list[Operation]:
        first, geometric, last = (
            [operation for operation in group if operation in self.operations] for group in (FIRST, GEOMETRIC, LAST)
        )
        return first + _one_of(geometric, generator) + last


@dataclass(frozen=True)
class DSA(Augmentation):
    """Exactly one of the listed operations."""

    def _compose(self, generator: torch.Generator | None) -> list[Operation]:
        return _one_of(self.operations, generator)


@dataclass(frozen=True)
class Mixed:
    """Images after CutMix with two labels each: the first has the weight `share`, the second the rest."""

    images: Tensor
    first: Tensor
    second: Tensor
    share: float

    def part(self, rows: slice) -> Mixed:
        """Some of the images."""
        return Mixed(self.images[rows], self.first[rows], self.second[rows], self.share)

    def loss(self, scores: Tensor) -> Tensor:
        """Mean cross-entropy; each label is weighted by its area in the image."""
        loss = F.cross_entropy(scores, self.first)
        if self.share == 1.0:
            return loss
        return self.share * loss + (1 - self.share) * F.cross_entropy(scores, self.second)


def cutmix(
    images: Tensor,
    labels: Tensor,
    generator: torch.Generator | None = None,
    probability: float = PROTOCOLS[DEFAULT].mix,
) -> Mixed:
    """With `probability`, paste the same box of a shuffled batch into the batch (CutMix with λ ~ Beta(1, 1)).

    The result has the mixed `images`, and `loss(scores)`, which weights both labels of an image. Without a `generator`,
    torch's own is used.
    """
    if float(_uniform(generator, 1)) >= probability:
        return Mixed(images, labels, labels, 1.0)
    height, width = images.shape[2:]
    lam = float(_uniform(generator, 1))  # Beta(1, 1) is uniform
    other = torch.randperm(len(images), generator=generator).to(images.device)
    edges = []
    for side in (height, width):
        centre = int(_integers(generator, 1, 0, side - 1))
        half = int(side * math.sqrt(1 - lam)) // 2
        edges.append((max(0, centre - half), min(side, centre + half)))
    (top, bottom), (left, right) = edges
    mixed = images.clone()
    mixed[:, :, top:bottom, left:right] = images[other, :, top:bottom, left:right]
    share = 1 - (bottom - top) * (right - left) / (height * width)
    return Mixed(mixed, labels, labels[other], share)


COMPOSITIONS: Mapping[str, type[Augmentation]] = {"idc": IDC, "dsa": DSA}


def augmentation(
    names: str = PROTOCOLS[DEFAULT].augment, composition: str = "idc", *, align_corners: bool = False
) -> Augmentation:
    """`color_crop_cutout` as an augmentation of this composition; `none` is one that does nothing.

    The default is that of evaluations. `augmentation()(images)` transforms normalised images [B, ch, h, w].
    `align_corners` is that of torch, for `scale` and `rotate`.
    """
    operations = tuple(Operation(name) for name in augmentation_names(names))
    return COMPOSITIONS[composition](operations, align_corners)
