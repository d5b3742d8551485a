"""Simple orders of images that a condensed set is compared with: selections of real images, and YOCO.

The prefixes of an order are its subsets. Three orders select real images, class by class:

    random      shuffled
    herding     the mean of the features of every prefix stays near the mean of the class
    k-center    every image of the class is near to an image of the prefix

YOCO (You Only Condense Once, NeurIPS 2023) keeps the images of a condensed set and changes their order: the images
that a network learns easily come first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.condensing.assembly import assemble
from mipset.condensing.checks import check_fit
from mipset.condensing.orders import herding, k_center, random_order
from mipset.condensing.packing import as_artifact
from mipset.condensing.passes import Passes
from mipset.condensing.synthetic import cut, formation, from_real, join
from mipset.data import Dataset
from mipset.data.registry import spec_of
from mipset.errors import DivergedError, SettingError, choose
from mipset.evaluation.evaluate import decoded
from mipset.file.artifact import Artifact
from mipset.file.pixels import Pixels
from mipset.file.provenance import Provenance
from mipset.nn.engines import Engine, default_engine
from mipset.nn.flops import learning_flops
from mipset.nn.guards import sound_weights
from mipset.nn.networks import Network, builder, fresh
from mipset.nn.pixels import to_uint8
from mipset.nn.randomness import Purpose, key
from mipset.nn.training import TEST_BATCH, Images, class_scores, fit, last_features, rule_of, schedule_of
from mipset.reporting import Report, silent
from mipset.settings.architecture import Architecture
from mipset.settings.protocol import Protocol
from mipset.settings.recipe import Recipe

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
    report: Report = silent,
) -> Artifact:
    """Select `r.ipc * r.factor²` real images of each class, and store them like a condensed set.

    Training image j of a class is image j of the order, shrunk to a tile. The features are those of one network: an
    expert of the recipe, or else a network that is trained on all real images as the recipe says, for as many
    iterations as a condensation has. `origin` is as for `mipset.pack`.
    """
    if name not in SELECTIONS:
        raise SettingError(f"There is no selection {name!r}. {choose(name, SELECTIONS)}.")
    real = r.replace(init="mix")  # every pixel comes from a real image, whatever `r` starts from
    check_fit(real, data)
    pixels, labels = torch.from_numpy(data.train.images), torch.from_numpy(data.train.labels)
    form = formation(r.factor)
    n = r.ipc * form.images
    iterations = r.outer * r.inner if name in _BY_FEATURES and r.learner == "trained" else 0

    total = iterations + data.classes

    def report_iteration(done: int) -> None:
        report("training a network", done, total)

    theta = None
    if name in _BY_FEATURES:
        theta = _trained_network(real, data, device, engine, iterations, report_iteration, report)
    selected = []
    for c in range(data.classes):
        images = pixels[labels == c]
        if theta is None:
            order = random_order(len(images), n, r.seed, c)
        else:
            order = _BY_FEATURES[name](_features_of_class(theta, images, data, device), n)
        selected.append(images[order])
        report("selecting images", iterations + c + 1, total)
    stored = to_uint8(from_real(selected, r.ipc, form)).numpy()
    return as_artifact(stored, r, data, {**(origin or {}), "selection": name})


def selection_passes(name: str, r: Recipe, data: Dataset) -> Passes:
    """The work of `select`: it trains one network, and passes every real image through it once."""
    if name not in _BY_FEATURES:
        return Passes()
    looks = sum(-(-int((data.train.labels == c).sum()) // TEST_BATCH) for c in range(data.classes))
    trained_once = r.learner == "experts"
    steps = r.training_steps(data.classes) if trained_once else r.outer * r.inner * r.train_steps(data.classes)
    return Passes(1, 1) * steps + Passes(looks)


def _trained_network(
    r: Recipe,
    data: Dataset,
    device: torch.device,
    engine: Engine | None,
    iterations: int,
    report_iteration: Callable[[int], None],
    report: Report,
) -> Network:
    """The network of the first outer iteration, trained for all iterations instead of being replaced; or an expert."""
    learner = assemble(r, data, device, engine=engine, report=report).learner
    theta = learner.start(1)
    for number in range(iterations):
        theta = learner.advance(theta, number)
        report_iteration(number + 1)
    return learner.trained(theta)


def _features_of_class(theta: Network, images: Tensor, data: Dataset, device: torch.device) -> Tensor:
    no_labels = torch.zeros(len(images), dtype=torch.long)  # features do not depend on labels
    features = last_features(theta, Images.of(images, no_labels, data.mean, data.std, device))
    if not sound_weights(theta) or not bool(features.isfinite().all()):
        raise DivergedError(
            "The weights of the network that selects images became too large. Choose a smaller `network_lr`."
        )
    return features


ADDRESS = (0, 0)  # of YOCO's network among the random draws; an evaluated subset never has size 0


def reorder(
    artifact: Artifact,
    protocol: Protocol,
    seed: int,
    device: torch.device,
    engine: Engine | None = None,  # None: as `default_engine` chooses
    first: int = 100,
    best: int = 10,
    report: Report = silent,
) -> Artifact:
    """Change the order of the training images in a file: in each class, those that are easy to learn come first (YOCO).

    One network, of the architecture that the set was condensed with, is trained on the whole set as the protocol says,
    but only for its `first` epochs (or all, if there are fewer). After each epoch every training image has an error:
    the distance of the predicted probabilities from the label. The score of an image is the sum of its errors over the
    `best` epochs, in which the network classified most images correctly. The lowest scores come first. Errors are
    measured in a pass of their own after the epoch, without augmentation; the original takes them from the training
    passes, augmented and mixed.

    Tiles are cut from the stored bytes and joined again, so no pixel changes, and the first n stored images hold the
    n * factor² easiest images of their class. If the factor does not divide the sides of the image, tiles have
    different sizes: stored images stay whole then, and are ordered by the mean score of their tiles. The result has no
    accuracies, because its subsets are others.
    """
    for name, value in (("first", first), ("best", best)):
        if value < 1:
            raise SettingError(f"`{name}` is {value}: it must be at least 1. Choose a larger value.")
    spec = spec_of(str(artifact.provenance.get("dataset")).partition(":")[0])
    if spec is not None and not spec.flips:
        protocol = protocol.without_flips()
    engine = engine or default_engine(device, lambda: reordering_flops(artifact, protocol, first))
    errors, right = _errors_while_learning(artifact, protocol, seed, device, engine, first, report)
    scores = sum_over_best(errors, right, best).reshape(*artifact.images.shape[:2], artifact.factor**2)
    how = f"{protocol}; seed {seed}; best {best} of the first {first} epochs"
    return replace(
        artifact,
        images=easiest_first(artifact.images, artifact.factor, scores),
        accuracy=(),
        provenance={**artifact.provenance, "reordered": "yoco", "reordered_with": how},
    )


def reordering_flops(artifact: Artifact, protocol: Protocol, first: int) -> float:
    """The FLOPs of the training in `reorder`."""
    ranks, classes, channels, height, width = artifact.images.shape
    images = ranks * classes * artifact.factor**2
    per_image = learning_flops(Architecture.of(artifact.recipe), (channels, height, width), classes)
    return float(images * min(first, protocol.epochs_for(images, classes)) * per_image)


def _errors_while_learning(
    artifact: Artifact,
    protocol: Protocol,
    seed: int,
    device: torch.device,
    engine: Engine | None,
    first: int,
    report: Report,
) -> tuple[Tensor, Tensor]:
    """The error of every training image after every epoch [epochs, n], and how many were classified correctly."""
    images, architecture = decoded(artifact, device), Architecture.of(artifact.recipe)
    classes, channels, height, width = artifact.images.shape[1:]
    build = builder(architecture, (channels, height, width), classes, engine)
    theta = fresh(build, key(seed, Purpose.EVALUATION_NETWORK, *ADDRESS), device)
    schedule = schedule_of(protocol, len(images), classes)
    epochs = min(first, schedule.epochs)
    errors, right = [], []
    for epoch in islice(fit(theta, images, rule_of(protocol), schedule, seed, *ADDRESS), first):
        scores = class_scores(theta, images)
        errors.append(prediction_errors(scores, images.labels).cpu())
        right.append(int((scores.argmax(dim=1) == images.labels).sum()))
        if not sound_weights(theta) or not bool(errors[-1].isfinite().all()):
            raise DivergedError("The weights of the network became too large. Choose another `protocol`.")
        report(f"epoch {epoch} of {epochs}", epoch, epochs)
    return torch.stack(errors), torch.tensor(right)


def reordering_passes(images: int, classes: int, protocol: Protocol, first: int = 100) -> Passes:
    """The work of `reorder` for so many images of all classes: every epoch trains on them and measures their errors."""
    schedule = schedule_of(protocol, images, classes)
    epoch = Passes(1, 1) * -(-images // schedule.batch) + Passes(-(-images // TEST_BATCH))
    return epoch * min(first, schedule.epochs)


def prediction_errors(scores: Tensor, labels: Tensor) -> Tensor:
    """‖softmax(scores) - onehot(label)‖₂ of every image, from scores [n, C]: [n]."""
    wanted = F.one_hot(labels, scores.shape[1])
    return (scores.softmax(dim=1) - wanted).square().sum(dim=1).sqrt()


def sum_over_best(errors: Tensor, right: Tensor, best: int) -> Tensor:
    """The sum [n] of errors [epochs, n] over the `best` epochs: those with most images `right`, earlier ones first."""
    epochs = right.argsort(descending=True, stable=True)[:best]
    return errors[epochs].sum(dim=0)


def easiest_first(images: Pixels, factor: int, scores: Tensor) -> Pixels:
    """Stored images [N, C, ch, h, w] made of the same tiles, ordered in each class by score [N, C, factor²].

    The lowest score comes first; equal scores keep their order. If the factor does not divide the sides, a stored image
    counts as one tile.
    """
    ranks, classes, _, height, width = images.shape
    f = factor if height % factor == 0 == width % factor else 1
    per_tile = scores.reshape(ranks, classes, f**2, -1).mean(dim=3)
    order = per_tile.transpose(0, 1).flatten(1).argsort(stable=True)  # [C, N * f²]
    by_class = torch.from_numpy(images.copy()).transpose(0, 1)
    tiles = cut(by_class.flatten(0, 1), f)
    starts = torch.arange(classes)[:, None] * ranks * f**2  # of each class among all tiles
    stored = join(tiles[(starts + order).flatten()], f).reshape(by_class.shape)
    ordered: Pixels = stored.transpose(0, 1).contiguous().numpy()
    return ordered
