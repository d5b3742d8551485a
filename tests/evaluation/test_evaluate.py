"""Evaluation: scores, curves, and the networks that are trained."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import statistics
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from mipset.data import Dataset, Split
from mipset.data.specs import MNIST
from mipset.errors import ArtifactError, DataError, DivergedError, LostWorkerError, SettingError
from mipset.evaluation.evaluate import Evaluation, Score, decoded
from mipset.file.artifact import Artifact
from mipset.nn.networks import ConvNet, DenseNet, ResNet, ResNetAP
from mipset.settings.architecture import Architecture
from mipset.settings.protocol import PROTOCOLS, Protocol, protocol

SHORT = Protocol(epochs=3, batch=16)
SMALL = Architecture("convnet", 8, 2)


@pytest.fixture(scope="module")
def artifact(toy: Dataset) -> Artifact:
    """The first real images of each class, as if they had been condensed."""
    ranks = [[toy.train.images[toy.train.labels == c][n] for c in range(3)] for n in range(8)]
    return Artifact(np.array(ranks), 1, toy.mean, toy.std, toy.class_names)


def test_protocol_of_the_paper() -> None:
    p = PROTOCOLS["paper"]
    assert (p.epochs, p.batch, p.rate, p.momentum, p.decay, p.mix, p.drop) == (1000, 64, 0.01, 0.9, 5e-4, 0.5, 0.2)
    assert [int(share * p.epochs) for share in p.milestones] == [666, 833]
    assert p.augment == "color_crop_flip_scale_rotate"


def test_unknown_and_impossible_protocols_are_refused() -> None:
    with pytest.raises(SettingError, match=r"no protocol 'slow'\. Choose standard, quick, paper or "):
        protocol("slow")
    with pytest.raises(SettingError, match="`epochs` is 0: it must be at least 1"):
        protocol("quick", epochs=0)
    assert str(protocol("paper", epochs=7)) == "paper, 7 epochs"
    assert str(protocol("quick")) == "quick, 16 epochs, at least 100 steps"


def test_digits_are_not_mirrored(toy: Dataset, artifact: Artifact) -> None:
    assert MNIST.flips is False
    digits = replace(toy, flips=False)
    usual, upright = Evaluation(artifact, toy, SHORT), Evaluation(artifact, digits, SHORT)
    assert upright.protocol.augment == "color_crop_scale_rotate"
    assert usual.protocol == SHORT
    assert digits.held_out(0.2, 0).flips is False
    assert str(upright.protocol) == "paper, 3 epochs, no flips"  # files and tables tell the two apart
    assert Protocol(augment="flip").without_flips().augment == "none"


def test_scores_do_not_depend_on_the_process_or_on_other_scores(toy: Dataset, artifact: Artifact) -> None:
    def accuracies(sizes: list[int], networks: int, workers: int) -> dict[tuple[int, int], float]:
        evaluation = Evaluation(artifact, toy, Protocol(epochs=40, batch=16, rate=0.05), SMALL)
        scores = evaluation.scores(sizes, networks, workers)
        return {(score.size, score.network): score.accuracy for score in scores}

    together = accuracies([2, 8], 2, workers=1)
    assert set(together) == {(8, 0), (8, 1), (2, 0), (2, 1)}
    assert accuracies([2], 1, workers=1) == {(2, 0): together[2, 0]}
    assert accuracies([2, 8], 2, workers=2) == together
    assert min(together[8, 0], together[8, 1]) > 60  # chance is 33


def test_test_labels_do_not_change_what_is_learned(toy: Dataset, artifact: Artifact) -> None:
    """No epoch and no setting is chosen with test images."""

    def right(labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        data = Dataset(toy.name, toy.train, Split.of(toy.test.images, labels), toy.class_names, toy.mean, toy.std)
        (score,) = Evaluation(artifact, data, SHORT, SMALL).scores([8], networks=1)
        return score.accuracy

    accuracies = [right((toy.test.labels + shift) % 3) for shift in range(3)]
    assert sum(accuracies) == pytest.approx(100)  # each prediction is right under exactly one labelling


def test_classes_are_matched_by_name(toy: Dataset, artifact: Artifact) -> None:
    """Their order in the file and in the data may differ."""
    (score,) = Evaluation(artifact, toy, SHORT, SMALL).scores([8], networks=1)
    other = toy.with_class_order(("c", "a", "b"))
    evaluation = Evaluation(artifact, other, SHORT, SMALL)
    assert evaluation.score(8, 0) == score
    (point,) = evaluation.curve([score])
    assert point.data == other.sha256, "of the data as they are"


def test_training_images_are_decoded_from_the_file(toy: Dataset) -> None:
    """They are decoded from uint8, ordered by rank, then by class."""
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 3, 12, 12)).astype(np.uint8)
    tiled = Artifact(images, 2, toy.mean, toy.std, toy.class_names)
    train = decoded(tiled, torch.device("cpu"))
    assert len(train) == 2 * 3 * 4
    assert train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [0] * 4 + [1] * 4 + [2] * 4
    assert torch.equal(train.pixels[:12], decoded(tiled.prefix(1), torch.device("cpu")).pixels)


def test_impossible_evaluations_are_refused(toy: Dataset, artifact: Artifact) -> None:
    with pytest.raises(ArtifactError, match=r"no subset of size 9\. Choose a size from 1 to 8"):
        list(Evaluation(artifact, toy).scores([9]))
    with pytest.raises(SettingError, match="`networks` is 0: it must be at least 1"):
        list(Evaluation(artifact, toy).scores([1], networks=0))
    small = Artifact(artifact.images[:, :, :, :8], 1, toy.mean, toy.std, toy.class_names)
    with pytest.raises(DataError, match=r"images of 3x8x12, but the images of toy are 3x12x12\. Name the dataset"):
        Evaluation(small, toy)
    for names, reason in (
        (("a", "b", "d"), "The file has the class 'd', but toy does not. Name the dataset"),
        (("a", "b"), "toy has the class 'c', but the file does not. Name the dataset"),
        (
            ("a", "b", "c", "c"),
            "The file has several classes with the same name, but all names in toy differ. Name the dataset",
        ),
    ):
        images = np.zeros((1, len(names), 3, 12, 12), np.uint8)
        with pytest.raises(DataError, match=reason):
            Evaluation(Artifact(images, 1, toy.mean, toy.std, names), toy)
    with pytest.raises(DivergedError, match="The weights of a network trained on size 1 became too large"):
        list(Evaluation(artifact, toy, Protocol(epochs=3, rate=1e20), SMALL).scores([1], networks=1))


def test_evaluation_uses_the_architecture_of_the_file(artifact: Artifact) -> None:
    assert Architecture.of(artifact.recipe) == Architecture("convnet", 128, 3)
    recipe = {"network": "convnet", "width": 9, "depth": 2}
    assert str(Architecture.of(recipe)) == "convnet-2, width 9"
    for odd in ({"width": "wide"}, {"width": 0}, {"depth": None}, {"network": 3}):
        with pytest.raises(ArtifactError, match=r"has a network that cannot be built: .* Choose one with `network`"):
            Architecture.of({**recipe, **odd})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("convnet", "convnet-3, width 128"),
        ("resnet", "resnet-10, width 32"),
        ("resnet-ap", "resnet-ap-10, width 64"),
        ("densenet", "densenet-121, width 12"),
    ],
)
def test_each_network_has_a_default_width_and_depth(name: str, text: str) -> None:
    assert str(Architecture.named(name)) == text


def test_architecture_defaults_equal_those_of_the_networks() -> None:
    assert Architecture() == Architecture.named("convnet")
    for name, kind in {"convnet": ConvNet, "resnet": ResNet, "resnet-ap": ResNetAP, "densenet": DenseNet}.items():
        given = inspect.signature(kind).parameters
        assert Architecture(name, given["width"].default, given["depth"].default) == Architecture.named(name)
    with pytest.raises(SettingError, match=r"no network 'vgg'\. Choose convnet, resnet, resnet-ap or densenet"):
        Architecture.named("vgg")


def test_a_network_with_batch_norm_learns_from_a_set_whose_last_batch_is_one_image(
    toy: Dataset, artifact: Artifact
) -> None:
    once_more = Protocol(epochs=20, batch=23, rate=0.05)  # of 24 images
    (score,) = Evaluation(artifact, toy, once_more, Architecture("resnet", 4, 10)).scores([8], networks=1)
    assert score.accuracy > 60  # chance is 33


def test_small_sets_are_trained_for_more_epochs_until_least_steps() -> None:
    p = Protocol(epochs=25, batch=64, least_steps=150)
    assert [p.epochs_for(images, 10) for images in (40, 64, 65, 400, 4000)] == [150, 150, 75, 25, 25]
    assert Protocol().epochs_for(40, 10) == 1000


def test_curve_has_mean_and_deviation_over_networks(toy: Dataset, artifact: Artifact) -> None:
    scores = [Score(2, 1, 50.0), Score(1, 0, 30.0), Score(2, 0, 40.0), Score(1, 1, 31.0)]
    evaluation = Evaluation(artifact, toy, SHORT, SMALL, seed=7)
    points = evaluation.curve(scores)
    assert [(p.size, p.mean, p.networks) for p in points] == [(1, 30.5, 2), (2, 45.0, 2)]
    assert points[1].std == pytest.approx(statistics.stdev([50.0, 40.0]))
    assert {(p.network, p.protocol, p.seed, p.data) for p in points} == {(str(SMALL), str(SHORT), 7, toy.sha256)}
    assert evaluation.curve(scores[:1])[0].std == 0


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 3])
def test_scores_of_a_killed_process_are_computed_again(toy: Dataset, artifact: Artifact, kills: int) -> None:
    """Real processes, one of which is killed after a score, up to three times: then it is an error."""
    evaluation = Evaluation(artifact, toy, SHORT, SMALL)
    others = set(multiprocessing.active_children())
    scores: list[Score] = []

    def compute() -> None:
        rounds = 0
        for score in evaluation.scores([1, 2, 3, 4], networks=20, workers=2):
            scores.append(score)
            fresh = {process.pid for process in set(multiprocessing.active_children()) - others} - killed
            if rounds < kills and fresh:
                victim = fresh.pop()
                assert victim is not None
                killed.update({victim, *fresh})
                rounds += 1
                os.kill(victim, signal.SIGKILL)

    killed: set[int | None] = set()
    if kills == 1:
        compute()
        assert len({(score.size, score.network) for score in scores}) == len(scores) == 80
    else:
        with pytest.raises(LostWorkerError, match="was killed, 3 times, perhaps because memory ran out"):
            compute()


def test_ending_workers_leaves_other_processes_alone(toy: Dataset, artifact: Artifact) -> None:
    bystander = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    bystander.start()
    try:
        list(Evaluation(artifact, toy, SHORT, SMALL).scores([1, 2], networks=1, workers=2))
        assert bystander.is_alive()
    finally:
        bystander.terminate()
        bystander.join()
