"""A set of noise, as an object, as a file and on a server, for the tests of devices and of the HTTP client."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import web
from mipset import Artifact, device
from mipset.file.description import Accuracy

SHAPE = (6, 4, 3, 8, 7)  # ranks, classes, channels, height, width
RANK_BYTES = 4 * 3 * 8 * 7

quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def point(size: int, mean: float, std: float = 1.0, protocol: str = "quick, 16 epochs, at least 100 steps") -> Accuracy:
    """A point of an accuracy curve as older files have it."""
    return Accuracy(size, mean, std, 3, "convnet-3, width 4", protocol, 0, "00" * 32)


def noise_set(shape: tuple[int, ...] = SHAPE, factor: int = 2, **changes: Any) -> Artifact:
    """A set of noise, with some fields changed."""
    channels = shape[2]
    fields: dict[str, Any] = {
        "images": np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8),
        "factor": factor,
        "mean": (0.4, 0.5, 0.6)[:channels],
        "std": (0.2, 0.25, 0.3)[:channels],
        "class_names": tuple("abcdefghij"[: shape[1]]),
        "recipe": {"ipc": shape[0]},
        "provenance": {"dataset": "noise"},
        "accuracy": (point(1, 40.0), point(2, 50.0, 2.0), point(4, 60.0, 1.0)),
    }
    return Artifact(**{**fields, **changes})


def header_length(content: bytes) -> int:
    """8 + H of a file."""
    (length,) = struct.unpack("<Q", content[:8])
    return 8 + int(length)


def check_prefix(subset: device.Subset, whole: Artifact, n: int) -> None:
    """Assert that a subset is S_[n] of a set, in every bit."""
    assert subset.sizes == (n,) * whole.images.shape[1]
    np.testing.assert_array_equal(subset.artifact().images, whole.prefix(n).images)


@pytest.fixture
def whole() -> Artifact:
    """The set of noise."""
    return noise_set()


@pytest.fixture
def server(whole: Artifact) -> Iterator[web.Server]:
    """A server of the set of noise."""
    with web.serving(whole.to_bytes()) as running:
        yield running


@pytest.fixture
def set_path(whole: Artifact, tmp_path: Path) -> Path:
    """A file of the set of noise."""
    whole.write(tmp_path / "set.safetensors")
    return tmp_path / "set.safetensors"
