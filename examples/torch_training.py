"""A network and a training loop of your own, in plain torch, on the first n condensed images of each class.

`condensed.prefix(n).torch()` is a map-style dataset: a DataLoader makes batches of it, as of any other. The rows of the
table train with the images as they are, with the augmentation that mipset uses for evaluations, and with CutMix too.
Every network takes the same number of steps, so the columns differ only in their images.

Run:   python examples/torch_training.py
Takes: some minutes on 2 cores, most of it to condense. `--toy` takes some seconds.
Printed at the end (one condensation, one network for each cell):

    test accuracy in %       n = 1  n = 2  n = 5  n = 10
    images as they are        57.7   55.3   63.5    73.1
    augmentation              62.2   67.9   71.1    75.4
    augmentation and CutMix   65.9   72.5   71.7    76.6
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from common import Setting, argument_parser
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import mipset
from mipset.display.tables import in_columns

ROWS = ("images as they are", "augmentation", "augmentation and CutMix")
RATE, BATCH = 0.003, 64


def network(channels: int, classes: int) -> nn.Module:
    """Two convolutions: nothing of mipset is in it."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(4)),
        *(nn.Flatten(), nn.Linear(1024, classes)),
    )


def endless(dataset: Dataset[Any]) -> Iterator[Any]:
    """Shuffled batches without end."""
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True)
    while True:
        yield from loader


def trained(row: str, dataset: Dataset[Any], shape: Sequence[int], classes: int, steps: int) -> nn.Module:
    """A new network after so many steps on a dataset of images of this shape."""
    torch.manual_seed(0)
    theta = network(shape[0], classes)
    optimiser = torch.optim.Adam(theta.parameters(), lr=RATE)
    augment = mipset.augmentation("none" if row == ROWS[0] else "color_crop_flip_scale_rotate")
    for _, (images, labels) in zip(range(steps), endless(dataset), strict=False):
        mixed = mipset.cutmix(augment(images), labels, probability=0.5 if row == ROWS[2] else 0.0)
        optimiser.zero_grad()
        mixed.loss(theta(mixed.images)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return theta


@torch.no_grad()
def accuracy(theta: nn.Module, test: Dataset[tuple[Tensor, ...]]) -> float:
    """The share of test images that the network classifies correctly, in percent."""
    theta.eval()
    right = torch.cat([theta(images).argmax(dim=1) == labels for images, labels in DataLoader(test, batch_size=500)])
    return 100 * float(right.float().mean())


def main() -> None:
    parser = argument_parser(__doc__)
    setting = Setting(parser.parse_args().toy)
    sizes, steps = ((1, 2, 3), 2) if setting.toy else ((1, 2, 5, 10), 300)
    data, condensed = setting.data, setting.condensed(setting.data)
    test = setting.dataset_of(data.test)
    table = [["test accuracy in %", *(f"n = {n}" for n in sizes)]]
    for row in ROWS:
        ways = (trained(row, condensed.prefix(n).torch(), data.shape, data.classes, steps) for n in sizes)
        accuracies = [accuracy(theta, test) for theta in ways]
        table.append([row, *(f"{value:.1f}" for value in accuracies)])
    print(in_columns(table))


if __name__ == "__main__":
    main()
