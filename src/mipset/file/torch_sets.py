"""Training images as a dataset of torch, imported only here and when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mipset.errors import missing
from mipset.file.training_images import TrainingImages

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import Dataset

Transform = Callable[["Tensor"], Any]


def torch_dataset(
    images: TrainingImages, transform: Transform | None = None, normalised: bool = True
) -> Dataset[tuple[Any, int]]:
    """A map-style dataset of pairs: an image, float32 [ch, h, w], and its label, an int.

    An image is decoded when it is asked for, so the dataset has the stored images in memory and nothing else. It can be
    pickled, if the transform can.
    """
    try:
        import torch
        from torch.utils.data import Dataset
    except ImportError as error:
        raise missing("torch", "A dataset of torch") from error

    class TorchImages(Dataset[tuple[Any, int]]):
        """The training images of a prefix. `classes` and `targets` are those of the datasets of torchvision."""

        def __len__(self) -> int:
            return len(images)

        def __getitem__(self, number: int) -> tuple[Any, int]:
            number = int(number)  # from a tensor too
            image = torch.from_numpy(images.normalised(number) if normalised else images.values(number))
            return image if transform is None else transform(image), images.label(number)

        @property
        def classes(self) -> list[str]:
            """The name of every class."""
            return list(images.class_names)

        @property
        def targets(self) -> list[int]:
            """The label of every training image."""
            return [images.label(number) for number in range(len(images))]

        def __repr__(self) -> str:
            return f"<Dataset of torch: {len(images)} training images of {len(self.classes)} classes>"

        def __reduce__(self) -> tuple[Any, ...]:  # the class is made in a function, so pickle cannot find it by name
            return torch_dataset, (images, transform, normalised)

    return TorchImages()
