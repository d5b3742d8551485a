"""Format `c`: a C header for microcontrollers. Its pixels are one constant array, so the linker keeps it in flash."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from mipset import __version__
from mipset.errors import ArtifactError, brief
from mipset.exchange.exports.images import image_list
from mipset.exchange.exports.names import MAX_LETTERS, c_identifier
from mipset.file.artifact import Artifact

BYTES_PER_LINE = 24

TEMPLATE = """\
/* {ranks} images for each of {classes} classes, {channels} x {height} x {width} pixels. Written by mipset {version}.

   Flash: {pixels} bytes of pixels and {scale} bytes for mean and std. Include this file in one source file only.

   {name}_images holds one image after the other, rank by rank and class by class within a rank; an image is
   channel by channel, and a channel row by row. So the first n images of each class are the first n * {NAME}_RANK_BYTES
   bytes. A byte b stands for the value b / 255.0f; to train, subtract the mean of its channel and divide by its std.
{decoding}
   Image i has the label {NAME}_LABEL(i). The labels stand for:

{label_names}
*/
#ifndef {NAME}_H
#define {NAME}_H

#include <stdint.h>

#define {NAME}_RANKS {ranks}
#define {NAME}_CLASSES {classes}
#define {NAME}_CHANNELS {channels}
#define {NAME}_HEIGHT {height}
#define {NAME}_WIDTH {width}
#define {NAME}_FACTOR {factor}
#define {NAME}_IMAGES {images}
#define {NAME}_IMAGE_BYTES {image_bytes}
#define {NAME}_RANK_BYTES {rank_bytes}
#define {NAME}_LABEL(i) ((i) % {NAME}_CLASSES)

static const float {name}_mean[{NAME}_CHANNELS] = {{{mean}}};
static const float {name}_std[{NAME}_CHANNELS] = {{{std}}};

static const uint8_t {name}_images[{pixels}] = {{
{bytes}
}};

#endif
"""

DECODING_NOTE = """\
   Each image is {factor} x {factor} training images, side by side, of which each has to be enlarged to the full size
   (the section "Decoding" of mipset's FORMAT.md).
"""


def file_content(artifact: Artifact, stem: str) -> bytes:
    """The bytes of the header. Its C names are made from `stem`, the file name without its suffix."""
    ranks, classes, channels, height, width = artifact.images.shape
    name = c_identifier(stem)
    text = TEMPLATE.format(
        version=__version__,
        name=name,
        NAME=name.upper(),
        ranks=ranks,
        classes=classes,
        channels=channels,
        height=height,
        width=width,
        factor=artifact.factor,
        images=ranks * classes,
        image_bytes=channels * height * width,
        rank_bytes=classes * channels * height * width,
        pixels=artifact.images.size,
        scale=2 * 4 * channels,
        decoding=DECODING_NOTE.format(factor=artifact.factor) if artifact.factor > 1 else "",
        label_names="\n".join(f"   {label} {_in_comment(name)}" for label, name in enumerate(artifact.class_names)),
        mean=_floats(artifact.mean),
        std=_floats(artifact.std, above=0),
        bytes=_bytes(image_list(artifact).reshape(-1).tolist()),
    )
    return text.encode("ascii")


def _in_comment(name: str) -> str:
    """The beginning of a name as a JSON string that cannot begin or end a comment."""
    shown = name if len(name) <= MAX_LETTERS else f"{name[:MAX_LETTERS]}..."
    return json.dumps(shown).replace("*", r"\u002a")


def _floats(values: Sequence[float], above: float = -np.inf) -> str:
    with np.errstate(over="ignore", under="ignore"):
        narrow = np.array(values).astype(np.float32)
    if not all(np.isfinite(narrow)) or not all(narrow > above):
        listed = brief(", ".join(map(str, values)), str)
        raise ArtifactError(
            f"The mean and std must fit into a float of C, but they are {listed}. Export to npz instead."
        )
    return ", ".join(f"{value!s}f" for value in narrow)


def _bytes(values: Sequence[int]) -> str:
    lines = (values[start : start + BYTES_PER_LINE] for start in range(0, len(values), BYTES_PER_LINE))
    return ",\n".join("  " + ",".join(map(str, line)) for line in lines)
