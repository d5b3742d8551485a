"""Small condensed sets for tests, class names that try to do harm, and functions to compare exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from PIL import Image

from mipset import Artifact

HOSTILE = [
    *("../../x", "/etc/passwd", "..", ".", "", " ", "~", "-", "CON", "nul.png", "a/b\\c", "x\0", "\0", "\x1b[2J"),
    *("two\nlines", "cat", "Cat", "CAT ", "*/ #error", "/* x", "??/", 'say "no"', "\\", "%s{name}", "\ud800", "猫"),
    *("ﬁ", "é" * 300, "long " * 5000, "classes.json", "sheet.png", "0", "ÀÉ", "$(reboot)", "<b>", "__mipset__"),
]
any_name = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=12))
any_names = st.lists(any_name, min_size=1, max_size=6)
FEW_EXAMPLES = settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])


def small_set(
    channels: int = 3, class_names: tuple[str, ...] = ("cat", "dög"), factor: int = 2, size: tuple[int, int] = (6, 8)
) -> Artifact:
    """Three images of noise in each class."""
    rng = np.random.default_rng(channels)
    return Artifact(
        images=rng.integers(0, 256, (3, len(class_names), channels, *size), dtype=np.uint8),
        factor=factor,
        mean=(0.4914, 0.25, 1e-5, 0.5)[:channels],
        std=(0.2023, 1.0, 0.125, 0.5)[:channels],
        class_names=class_names,
    )


def paths_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def pixels_of(picture: Image.Image) -> np.ndarray[Any, Any]:
    """The pixels [ch, h, w] of a picture."""
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)


def image_list_of(artifact: Artifact) -> np.ndarray[Any, Any]:
    return artifact.images.reshape(-1, *artifact.images.shape[2:])
