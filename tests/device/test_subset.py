"""Subsets: sizes per class, training images, batches, and writing."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mipset
import web
from mipset import Artifact, ArtifactError, SettingError, device, read
from mipset.evaluation.evaluate import decoded
from noise_sets import RANK_BYTES, check_prefix, noise_set, quick


def normalised(artifact: Artifact) -> npt.NDArray[np.float32]:
    """All training images of a set, as torch decodes them."""
    images: npt.NDArray[np.float32] = decoded(artifact, torch.device("cpu")).batch(slice(None))[0].numpy()
    return images


class TestPerClass:
    """As many of each class as the device needs."""

    @pytest.mark.parametrize("sizes", [(3, 1, 2, 4), (1, 1, 1, 1), (6, 6, 6, 6), (0, 0, 5, 0), (0, 2, 2, 0)])
    def test_sizes_per_class_give_the_images_of_the_file(
        self, set_path: Path, whole: Artifact, sizes: tuple[int, ...]
    ) -> None:
        subset = device.open(set_path).prefix(list(sizes))
        images, labels = subset.arrays()
        everything = decoded(whole, torch.device("cpu"))
        index = [
            (rank * 4 + c) * 4 + tile for rank in range(6) for c in range(4) if rank < sizes[c] for tile in range(4)
        ]
        assert len(subset) == len(index) == 4 * sum(sizes)
        assert subset.sizes == sizes
        np.testing.assert_array_equal(labels, everything.labels[index].numpy())
        np.testing.assert_allclose(images, normalised(whole)[index], atol=1e-6)
        assert np.bincount(labels, minlength=4).tolist() == [4 * n for n in sizes]
        assert subset.nbytes == sum(sizes) * RANK_BYTES // 4

    def test_sizes_per_class_read_whole_ranks(self, server: web.Server) -> None:
        source = device.open(server.url)
        before = server.sent
        subset = source.prefix([1, 0, 3, 1])
        assert server.sent - before == 3 * RANK_BYTES
        assert len(subset) == 4 * 5
        assert len(subset.grow([1, 1, 3, 3])) == 4 * 8
        assert server.sent - before == 3 * RANK_BYTES

    def test_sizes_may_be_numpy_integers(self, set_path: Path) -> None:
        source = device.open(set_path)
        assert source.prefix(np.array([1, 2, 0, 1])).sizes == (1, 2, 0, 1)  # type: ignore[arg-type]
        assert source.prefix(np.int64(2)).sizes == (2, 2, 2, 2)  # type: ignore[arg-type]

    def test_batches_of_sizes_per_class_have_every_image_once(self, set_path: Path) -> None:
        subset = device.open(set_path).prefix([2, 0, 1, 3])
        labels = np.concatenate([labels for _, labels in subset.batches(5)])
        assert np.bincount(labels, minlength=4).tolist() == [8, 0, 4, 12]

    @pytest.mark.parametrize("sizes", [[1, 2, 3], [1, 1, 1, 7], [1, -1, 1, 1], [0, 0, 0, 0], []])
    def test_sizes_per_class_that_are_not_valid_are_refused(self, set_path: Path, sizes: list[int]) -> None:
        with pytest.raises(
            SettingError, match=r"^`sizes` is .*: give one size for each of 4 classes, from 0 to 6 and not all 0"
        ):
            device.open(set_path).prefix(sizes)

    def test_shrinking_sizes_per_class_reads_nothing(self, server: web.Server) -> None:
        source = device.open(server.url)
        subset = source.prefix([3, 1, 2, 4])
        source.forget()
        before = server.sent
        smaller = subset.shrink([3, 0, 2, 1])
        assert server.sent == before
        np.testing.assert_array_equal(smaller.arrays()[0], device.open(server.url).prefix([3, 0, 2, 1]).arrays()[0])

    def test_sizes_per_class_cannot_be_written_to_a_file(self, set_path: Path, tmp_path: Path) -> None:
        subset = device.open(set_path).prefix([1, 1, 1, 2])
        with pytest.raises(
            SettingError, match=r"^A file needs the same number of images of each class, but the sizes are "
        ):
            subset.write(tmp_path / "new")
        with pytest.raises(SettingError, match=r"^An Artifact needs the same number of images of each class"):
            subset.artifact()
        assert "[1, 1, 1, 2] images per class, 20 to train on" in repr(subset)


ALL_AT_ONCE = """
import resource, sys
from mipset import SettingError, device

subset = device.open(sys.argv[1]).prefix(1)
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
try:
    subset.arrays()
except SettingError as error:
    print(error)
print(next(subset.batches(4))[0].shape)
"""


class TestTraining:
    @pytest.mark.parametrize(
        ("factor", "height", "width"), [(1, 4, 5), (2, 8, 8), (2, 7, 5), (3, 10, 8), (4, 8, 10), (3, 32, 32)]
    )
    @pytest.mark.parametrize("channels", [1, 3])
    def test_arrays_equal_what_torch_decodes(
        self, tmp_path: Path, factor: int, height: int, width: int, channels: int
    ) -> None:
        whole = noise_set(
            (2, 3, channels, height, width), factor, mean=(0.5,) * channels, std=(1.0,) * channels, accuracy=()
        )
        whole.write(tmp_path / "set")
        subset = device.open(tmp_path / "set").prefix(2)
        images, labels = subset.arrays()
        assert images.dtype == np.float32
        assert labels.dtype == np.int64
        assert images.shape == (2 * 3 * factor**2, channels, height, width)
        np.testing.assert_allclose(images, normalised(whole), atol=1e-6)
        np.testing.assert_array_equal(labels, decoded(whole, torch.device("cpu")).labels.numpy())

    def test_arrays_are_normalised(self, set_path: Path, whole: Artifact) -> None:
        images, _ = device.open(set_path).prefix(6).arrays()
        np.testing.assert_allclose(images, normalised(whole), atol=3e-6)  # which are 5 times as large

    def test_arrays_of_a_prefix_are_a_prefix(self, set_path: Path) -> None:
        source = device.open(set_path)
        images, labels = source.prefix(6).arrays()
        some, some_labels = source.prefix(2).arrays()
        np.testing.assert_array_equal(images[: len(some)], some)
        np.testing.assert_array_equal(labels[: len(some)], some_labels)

    @quick
    @given(size=st.integers(1, 120), epochs=st.integers(1, 3), seed=st.integers(0, 5))
    def test_batches_have_every_image_once_in_an_epoch(self, set_path: Path, size: int, epochs: int, seed: int) -> None:
        subset = device.open(set_path).prefix(6)
        images, labels = subset.arrays()
        batches = list(subset.batches(size, epochs=epochs, seed=seed))
        steps = -(-96 // size)
        assert len(batches) == epochs * steps
        lengths = {len(batch) for batch, _ in batches}
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1
        for epoch in range(epochs):
            some = batches[epoch * steps : (epoch + 1) * steps]
            seen = {batch.tobytes(): int(label) for part, its in some for batch, label in zip(part, its, strict=True)}
            assert seen == {image.tobytes(): int(label) for image, label in zip(images, labels, strict=True)}

    def test_batches_are_drawn_by_the_seed(self, set_path: Path) -> None:
        subset = device.open(set_path).prefix(3)

        def order(**how: Any) -> list[bytes]:
            return [images.tobytes() for images, _ in subset.batches(10, **how)]

        assert order(seed=1) == order(seed=1)
        assert order(seed=1) != order(seed=2)
        assert order(epochs=2)[:5] != order(epochs=2)[5:]
        assert order(epochs=2)[:5] == order()

    def test_batches_without_epochs_never_end(self, set_path: Path) -> None:
        batches = device.open(set_path).prefix(1).batches(16, epochs=None)
        assert len([next(batches) for _ in range(50)]) == 50

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            *(({"batch": batch}, "batch") for batch in (0, 2.5, "3", True, None)),
            *(({"epochs": epochs}, "epochs") for epochs in (0, 1.5, True)),
            *(({"seed": seed}, "seed") for seed in (-1, 0.5, None)),
        ],
    )
    def test_arguments_of_batches_that_are_not_valid_are_refused(
        self, set_path: Path, given: dict[str, Any], reason: str
    ) -> None:
        with pytest.raises(SettingError, match=f"^`{reason}` is .*: it must be "):
            device.open(set_path).prefix(1).batches(**{"batch": 1, **given})

    def test_take_returns_single_images(self, set_path: Path) -> None:
        subset = device.open(set_path).prefix(2)
        images, labels = subset.arrays()
        some, some_labels = subset.take([31, 0, 5, 5])
        np.testing.assert_array_equal(some, images[[31, 0, 5, 5]])
        np.testing.assert_array_equal(some_labels, labels[[31, 0, 5, 5]])
        for wrong in (-1, 32):
            with pytest.raises(IndexError):
                subset.take([wrong])
        for numbers in ([1.7], [True, False], np.ones(32, bool), ["1"], b"\1", "12", 5, None):
            with pytest.raises(SettingError, match=r"(^|A value in )`numbers` is .*: it must be a (list|whole)"):
                subset.take(numbers)  # type: ignore[arg-type]

    def test_arrays_that_exceed_the_memory_are_refused_and_batches_work(self, tmp_path: Path) -> None:
        """A file may decode to a thousand times its bytes: this one of 2.5 MB to 2.6 GB."""
        noise_set((1, 10, 1, 500, 500), 16, accuracy=()).write(tmp_path / "set")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", ALL_AT_ONCE, str(tmp_path / "set")],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"},
        )
        assert done.stdout.splitlines() == [
            "2560 images at once need 2.6 GB of memory. Use batches() instead.",
            "(4, 1, 500, 500)",
        ]

    @pytest.mark.parametrize(
        ("mean", "std"),
        [(1e300, 1.0), (0.5, 1e-50), (0.5, 1e-40), (0.5, 1e300), (1e39, 1e39)],  # the last two would make all images 0
    )
    @pytest.mark.parametrize("channels", [1, 200])
    def test_mean_and_std_outside_of_float32_are_refused(
        self, tmp_path: Path, mean: float, std: float, channels: int
    ) -> None:
        means, stds = (mean,) * channels, (std,) * channels
        noise_set((1, 2, channels, 4, 4), mean=means, std=stds, accuracy=()).write(tmp_path / "set")
        with pytest.raises(ArtifactError, match="images cannot be normalised with them in float32") as caught:
            device.open(tmp_path / "set")
        assert str(tmp_path) in str(caught.value)
        assert len(str(caught.value)) < 1000

    @pytest.mark.parametrize(("classes", "size"), [(10, 16), (1000, 1)], ids=["few classes", "many classes"])
    def test_training_needs_the_memory_of_the_plan(self, tmp_path: Path, classes: int, size: int) -> None:
        names = tuple(map(str, range(classes)))
        noise_set((5, classes, 3, 32, 32), class_names=names, accuracy=()).write(tmp_path / "set")
        batch = next(device.open(tmp_path / "set").prefix(1).batches(1))  # whatever is set up on first use
        source = device.open(tmp_path / "set")
        tracemalloc.start()
        try:
            for batch in islice(source.prefix(5).batches(size), 50):
                assert len(batch[0]) <= size
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        planned = device.plan(source, batch=size).memory
        assert 0.6 * planned < peak < planned + 100_000  # beside a block of what comes, and small objects


class TestWriting:
    @pytest.mark.parametrize("n", [1, 3, 6])
    def test_written_prefix_equals_the_sliced_file(
        self, server: web.Server, whole: Artifact, tmp_path: Path, n: int
    ) -> None:
        device.open(server.url).prefix(n).write(tmp_path / "part")
        assert (tmp_path / "part").read_bytes() == whole.prefix(n).to_bytes()
        assert read(tmp_path / "part").accuracy == whole.prefix(n).accuracy
        check_prefix(device.open(tmp_path / "part").prefix(n), whole, n)

    def test_subset_cannot_be_written_into_a_missing_folder(self, set_path: Path, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="cannot be written: No such file or directory"):
            device.open(set_path).prefix(1).write(tmp_path / "nowhere" / "x")
