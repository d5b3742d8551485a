"""Orders of images, easy to make, that a condensed set has to beat: selections of real ones, and YOCO of its own.

An order is made so that its prefixes are the subsets. Three choose real images, class by class:

    random      as they come out of a shuffle
    herding     so that the mean of the features of every prefix stays near that of the class
    k-center    so that no image of the class is far from its nearest in the prefix

YOCO (You Only Condense Once, NeurIPS 2023) leaves the images of a condensed set as they are, and puts those first that
a network finds easy while it learns them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.condensing.assembly import assemble
from mipset.condensing.checks import check_fit
from mipset.condensing.metrics import Passes
from mipset.condensing.packing import as_artifact
from mipset.condensing.synthetic import cut, formation, from_real, join
from mipset.data import Dataset
from mipset.errors import DivergedError, SettingError, choices
from mipset.evaluation.evaluate import decoded
from mipset.file.artifact import Artifact
from mipset.file.pixels import Pixels
from mipset.file.provenance import Provenance
from mipset.nn.engines import Engine
from mipset.nn.networks import Network, builder, fresh
from mipset.nn.pixels import to_uint8
from mipset.nn.randomness import Purpose, key, permutation
from mipset.nn.training import TEST_BATCH, Images, class_scores, fit, last_features, rule_of, schedule_of
from mipset.settings.architecture import Architecture
from mipset.settings.protocol import Protocol
from mipset.settings.recipe import Recipe

Report: TypeAlias = Callable[[float], None]  # is told the share that is done


def random_order(count: int, n: int, seed: int, c: int) -> Tensor:
    """`n` of the `count` images of class `c`, shuffled."""
    _check_enough(count, n)
    return permutation(count, seed, Purpose.SELECTION, c)[:n]


def herding(features: Tensor, n: int) -> Tensor:
    """`n` of the images with these features [B, F]: each brings the mean of the chosen closest to the mean of all."""
    _check_enough(len(features), n)
    mean = features.mean(dim=0)
    total = torch.zeros_like(mean)
    chosen: list[int] = []
    for size in range(1, n + 1):
        far = _squared_distances(features, size * mean - total)  # size² times that of the means
        far[chosen] = float("inf")
        chosen.append(int(far.argmin()))
        total += features[chosen[-1]]
    return torch.tensor(chosen)


def k_center(features: Tensor, n: int) -> Tensor:
    """`n` of the images with these features [B, F]: the nearest to the mean, then ever the farthest from the chosen."""
    _check_enough(len(features), n)
    chosen = [int(_squared_distances(features, features.mean(dim=0)).argmin())]
    nearest = features.new_full((len(features),), float("inf"))
    while len(chosen) < n:
        nearest = torch.minimum(nearest, _squared_distances(features, features[chosen[-1]]))
        nearest[chosen] = -1.0  # not again, even if the others are copies of them
        chosen.append(int(nearest.argmax()))
    return torch.tensor(chosen)


def _squared_distances(features: Tensor, point: Tensor) -> Tensor:
    return (features - point).square_().sum(dim=1)


def _check_enough(count: int, n: int) -> None:
    if not 1 <= n <= count:
        raise SettingError(f"{n} of {count} images cannot be chosen: choose from 1 to {count}.")


SELECTIONS = ("random", "herding", "k-center")
_BY_FEATURES = {"herding": herding, "k-center": k_center}


def select(
    name: str,
    r: Recipe,
    data: Dataset,
    device: torch.device,
    engine: Engine | None = None,
    *,
    origin: Provenance | None = None,
    progress: Report | None = None,
) -> Artifact:
    """The first `r.ipc * r.factor²` real images of an order in each class, stored as a condensed set stores its own.

    Decoded image j of a class is the image j of the order, shrunk. Features are those of one network that learned from
    all real images by the recipe, for as many iterations as a condensation has. `origin` is as for `recipes.pack`.
    """
    if name not in SELECTIONS:
        raise SettingError(f"there is no selection {name!r}: choose {choices(SELECTIONS)}.")
    real = r.replace(init="mix")  # all pixels are of real images, whatever a condensation starts from
    check_fit(real, data)
    pixels, labels = torch.from_numpy(data.train.images), torch.from_numpy(data.train.labels)
    form = formation(r.factor)
    n = r.ipc * form.images
    iterations = r.outer * r.inner if name in _BY_FEATURES else 0

    def report(done: int) -> None:
        if progress is not None:
            progress(done / (iterations + data.classes))

    theta = _trained_network(real, data, device, engine, iterations, report) if name in _BY_FEATURES else None
    chosen = []
    for c in range(data.classes):
        images = pixels[labels == c]
        if theta is None:
            order = random_order(len(images), n, r.seed, c)
        else:
            order = _BY_FEATURES[name](_features_of_class(theta, images, data, device), n)
        chosen.append(images[order])
        report(iterations + c + 1)
    stored = to_uint8(from_real(chosen, r.ipc, form)).numpy()
    return as_artifact(stored, r, data, {**(origin or {}), "selection": name})


def selection_passes(name: str, r: Recipe, data: Dataset) -> Passes:
    """What `select` spends: training one network, and a look at every real image."""
    if name not in _BY_FEATURES:
        return Passes()
    looks = sum(-(-int((data.train.labels == c).sum()) // TEST_BATCH) for c in range(data.classes))
    return Passes(1, 1) * (r.outer * r.inner * r.train_steps) + Passes(looks)


def _trained_network(
    r: Recipe,
    data: Dataset,
    device: torch.device,
    engine: Engine | None,
    iterations: int,
    report: Callable[[int], None],
) -> Network:
    """The network of the first outer iteration, which goes on learning instead of being replaced."""
    learner = assemble(r, data, device, engine=engine).learner
    theta = learner.start(1)
    for number in range(iterations):
        learner.advance(theta, number)
        report(number + 1)
    return theta


def _features_of_class(theta: Network, images: Tensor, data: Dataset, device: torch.device) -> Tensor:
    alike = torch.zeros(len(images), dtype=torch.long)  # features do not depend on labels
    found = last_features(theta, Images.of(images, alike, data.mean, data.std, device))
    if not bool(found.isfinite().all()):
        raise DivergedError("the network to select with is no longer finite: try a smaller --network-lr.")
    return found


ADDRESS = (0, 0)  # of the network that learns for YOCO: no subset that is evaluated has size 0


def reorder(
    artifact: Artifact,
    protocol: Protocol,
    seed: int,
    device: torch.device,
    engine: Engine | None = None,
    first: int = 100,
    best: int = 10,
    progress: Report | None = None,
) -> Artifact:
    """The same decoded images in another order: in each class those first that are easy to learn (YOCO).

    One network, of the architecture that the set was condensed with, learns the whole set by the protocol, but only
    for its `first` epochs (all, if there are fewer). After each of them every decoded image has an error, the distance
    of the predicted probabilities from the label. The score of an image is the sum of its errors over the `best` epochs
    in which most images were classified correctly; the lowest come first. Errors are those of images as they are, in a
    pass of their own after the epoch; the original takes them from the training passes, augmented and mixed.

    Tiles are cut from the stored bytes and put together anew, so nothing is lost, and the first n stored images hold
    the n * factor² easiest images of their class. Where tiles are not all of one size, because the factor does not
    divide the sides of the image, stored images stay whole and are ordered by the mean score of their tiles.
    Accuracies are left out: they were those of other subsets.
    """
    for flag, value in (("--first", first), ("--best", best)):
        if value < 1:
            raise SettingError(f"{flag} cannot be {value}: it must be at least 1.")
    errors, right = _errors_while_learning(artifact, protocol, seed, device, engine, first, progress)
    scores = sum_over_best(errors, right, best).reshape(*artifact.images.shape[:2], artifact.factor**2)
    how = f"{protocol}; seed {seed}; best {best} of the first {first} epochs"
    return replace(
        artifact,
        images=easiest_first(artifact.images, artifact.factor, scores),
        accuracy=(),
        provenance={**artifact.provenance, "reordered": "yoco", "reordered_with": how},
    )


def _errors_while_learning(
    artifact: Artifact,
    protocol: Protocol,
    seed: int,
    device: torch.device,
    engine: Engine | None,
    first: int,
    progress: Report | None,
) -> tuple[Tensor, Tensor]:
    """The error of every decoded image after every epoch [epochs, n], and how many were classified correctly then."""
    images, architecture = decoded(artifact, device), Architecture.of(artifact.recipe)
    classes, channels, height, width = artifact.images.shape[1:]
    build = builder(architecture, (channels, height, width), classes, engine)
    theta = fresh(build, key(seed, Purpose.EVALUATION_NETWORK, *ADDRESS), device)
    schedule = schedule_of(protocol, len(images))
    errors, right = [], []
    for epoch in islice(fit(theta, images, rule_of(protocol), schedule, seed, *ADDRESS), first):
        scores = class_scores(theta, images)
        errors.append(prediction_errors(scores, images.labels).cpu())
        right.append(int((scores.argmax(dim=1) == images.labels).sum()))
        if not bool(errors[-1].isfinite().all()):
            raise DivergedError("the network that learns the set is no longer finite: try another --protocol.")
        if progress is not None:
            progress(epoch / min(first, schedule.epochs))
    return torch.stack(errors), torch.tensor(right)


def reordering_passes(images: int, protocol: Protocol, first: int = 100) -> Passes:
    """What `reorder` spends on so many decoded images: in each epoch it learns from them and looks at them."""
    schedule = schedule_of(protocol, images)
    epoch = Passes(1, 1) * -(-images // schedule.batch) + Passes(-(-images // TEST_BATCH))
    return epoch * min(first, schedule.epochs)


def prediction_errors(scores: Tensor, labels: Tensor) -> Tensor:
    """‖softmax(scores) - onehot(label)‖₂ of every image, from scores [n, C]: [n]."""
    wanted = F.one_hot(labels, scores.shape[1])
    return (scores.softmax(dim=1) - wanted).square().sum(dim=1).sqrt()


def sum_over_best(errors: Tensor, right: Tensor, best: int) -> Tensor:
    """The sum [n] of errors [epochs, n] over the `best` epochs with most images `right`, the earlier of equals."""
    epochs = right.argsort(descending=True, stable=True)[:best]
    return errors[epochs].sum(dim=0)


def easiest_first(images: Pixels, factor: int, scores: Tensor) -> Pixels:
    """Stored images [N, C, ch, h, w] made of the same tiles, in each class by rising score [N, C, factor²].

    Equal scores keep their order. Where the factor does not divide the sides, a stored image counts as one tile.
    """
    ranks, classes, _, height, width = images.shape
    f = factor if height % factor == 0 == width % factor else 1
    per_tile = scores.reshape(ranks, classes, f**2, -1).mean(dim=3)
    order = per_tile.transpose(0, 1).flatten(1).argsort(stable=True)  # [C, N * f²]
    by_class = torch.from_numpy(images.copy()).transpose(0, 1)
    tiles = cut(by_class.flatten(0, 1), f)
    starts = torch.arange(classes)[:, None] * ranks * f**2  # of each class among all tiles
    stored = join(tiles[(starts + order).flatten()], f).reshape(by_class.shape)
    found: Pixels = stored.transpose(0, 1).contiguous().numpy()
    return found
