"""What the tests of framework adapters share: the stand-in for torchvision, and a set of noise."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from mipset import Artifact

EXAMPLES = Path(__file__).parent.parent / "examples"


def import_stand_in() -> None:
    """Let Avalanche and DD-Ranking import names of torchvision, if it is not installed."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        from standin import stand_in_for_torchvision

        stand_in_for_torchvision()
    finally:
        sys.path.remove(str(EXAMPLES))


def need(module: str, package: str) -> None:
    """Skip what needs a package that is not installed. One that is installed and cannot be imported is an error."""
    if find_spec(module) is None:
        pytest.skip(f"needs {package}: run make test-frameworks", allow_module_level=True)


def noise(classes: int = 2, ipc: int = 3, factor: int = 2, shape: tuple[int, int, int] = (3, 32, 32)) -> Artifact:
    """A set of random pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (ipc, classes, *shape), dtype=np.uint8)
    channels = shape[0]
    names = tuple(f"class {c}" for c in range(classes))
    return Artifact(pixels, factor, (0.5,) * channels, (0.25,) * channels, names)
