"""The replay buffer of prefixes in the real strategies of Avalanche."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from framework_parts import import_stand_in, need, noise
from mipset import Artifact, SettingError
from mipset.evaluation.evaluate import decoded

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]  # Avalanche has deprecated names

import_stand_in()
need("avalanche", "avalanche-lib")

from avalanche.benchmarks import class_incremental_benchmark  # noqa: E402
from avalanche.benchmarks.utils import _make_taskaware_classification_dataset as as_dataset  # noqa: E402
from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin  # noqa: E402
from avalanche.training.supervised import Naive  # noqa: E402

from mipset.integrations.avalanche import PrefixBuffer, classes_of  # noqa: E402

WHOLE = noise(classes=6, ipc=4, shape=(3, 8, 8))


def stream() -> Any:
    """Three experiences of two classes each."""
    labels = torch.arange(6).repeat(5)
    images = torch.rand(30, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    both = {
        name: as_dataset(TensorDataset(images, labels), targets=labels.tolist(), task_labels=0)
        for name in ("train", "test")
    }
    return class_incremental_benchmark(both, class_order=[4, 1, 0, 5, 2, 3], num_experiences=3).train_stream


def from_file(experience: Any) -> Artifact:
    """The classes of an experience from the set of all classes."""
    return classes_of(WHOLE, sorted(experience.classes_in_this_experience))


def trained(buffer: PrefixBuffer, experiences: int = 3) -> list[list[int]]:
    """Train on the stream with the ReplayPlugin; the sizes of the classes after each experience, in their order."""
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 6))
    strategy = Naive(
        model=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=0.01),
        train_mb_size=8,
        plugins=[ReplayPlugin(mem_size=buffer.max_size, storage_policy=buffer)],
        evaluator=EvaluationPlugin(),
    )
    sizes = []
    for experience in list(stream())[:experiences]:
        strategy.train(experience)
        sizes.append([group.size for group in buffer.buffer_groups.values()])
    return sizes


def test_classes_keep_shorter_prefixes_as_others_arrive() -> None:
    buffer = PrefixBuffer(9, from_file)
    assert trained(buffer) == [[4, 4], [3, 2, 2, 2], [2, 2, 2, 1, 1, 1]]
    assert buffer.nbytes == 9 * 3 * 8 * 8
    assert len(buffer.buffer) == 9 * 4  # each stored image is four training images
    assert list(buffer.buffer_groups) == [1, 4, 0, 5, 2, 3]
    assert [buffer.buffer_groups[label].size for label in (1, 4, 0)] == [2, 2, 2]


def test_buffer_holds_the_decoded_prefix_of_each_class() -> None:
    buffer = PrefixBuffer(9, from_file)
    trained(buffer)
    for label, group in buffer.buffer_groups.items():
        expected, _ = decoded(classes_of(WHOLE, [label]).prefix(group.size), torch.device("cpu")).batch(slice(None))
        items = [group.buffer[i] for i in range(len(group.buffer))]
        torch.testing.assert_close(torch.stack([image for image, *_ in items]), expected, rtol=0, atol=0)
        assert {int(item[1]) for item in items} == {label}


def test_resize_is_a_prefix_cut_that_frees_memory() -> None:
    buffer = PrefixBuffer(8, from_file)
    trained(buffer, experiences=1)
    buffer.resize(None, 4)
    group = buffer.buffer_groups[1]
    np.testing.assert_array_equal(group.condensed.images[:, 0], WHOLE.images[:2, 1])
    assert group.condensed.images.base is None  # no view of the larger array
    buffer.resize(None, 8)
    assert group.size == 2  # what was given up does not come back
    buffer.resize(None, 1)
    assert [group.size for group in buffer.buffer_groups.values()] == [1, 0]
    assert (len(buffer.buffer), buffer.nbytes) == (4, 3 * 8 * 8)


def test_set_of_other_classes_is_refused() -> None:
    with pytest.raises(SettingError, match="`condense` returned a set of 6 classes for an experience of 2"):
        trained(PrefixBuffer(8, lambda _: WHOLE), experiences=1)


def test_class_that_comes_again_is_refused() -> None:
    buffer = PrefixBuffer(8, from_file)
    first = next(iter(stream()))
    buffer.post_adapt(None, first)
    with pytest.raises(SettingError, match="The buffer has class 1 already"):
        buffer.post_adapt(None, first)
