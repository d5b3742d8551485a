"""The set in tests/data/golden.safetensors, and files made of it: for the tests of the file format."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load, save

from commands import GOLDEN
from mipset import Artifact, ArtifactError, read
from mipset.file.description import Accuracy

OLDER = GOLDEN.with_name("older.safetensors")  # the same, from before descriptions had a digest
SHAPE = (3, 2, 1, 4, 5)  # ranks, classes, channels, height, width
RANK_BYTES = 2 * 1 * 4 * 5

quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def point(size: int, mean: float = 50.0, network: str = "convnet-3, width 4", protocol: str = "quick") -> Accuracy:
    return Accuracy(size, mean, 1.25, 3, network, protocol, 0, "00" * 32)


def golden_set() -> Artifact:
    """The set in the golden file: fixed in every bit."""
    pixels = (np.arange(np.prod(SHAPE)) * 7 % 251).astype(np.uint8).reshape(SHAPE)
    return Artifact(
        images=pixels,
        factor=2,
        mean=(0.25,),
        std=(0.125,),
        class_names=("cat", "dög"),
        recipe={"ipc": 3, "policy": "mdc", "pixel_lr": 0.005},
        provenance={"dataset": "npz:pets.npz", "sha256": "00" * 32, "mipset": "0.1.0", "size": None},
        accuracy=(point(1, 41.5), point(3, 62.0)),
    )


def header_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    """A safetensors file taken apart by hand: its JSON header and the bytes after it."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def with_description(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The example as a file whose description (not its images) was changed."""
    content = golden_set().to_bytes()
    header, _ = header_of(content)
    description = json.loads(header["__metadata__"]["mipset"])
    change(description)
    return save({"images": golden_set().images}, metadata={"mipset": json.dumps(description)})


def refused(path: Path, content: bytes) -> str:
    """The message of the error for a file with this content, which is one line and names the file."""
    path.write_bytes(content)
    with pytest.raises(ArtifactError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert message.endswith(".")
    assert len(message) < 1000
    return message


def any_set() -> st.SearchStrategy[Artifact]:
    """Any set that can be, in small."""
    names = st.text(max_size=6)
    plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    settings_ = st.dictionaries(names, plain | names | st.lists(plain, max_size=2), max_size=3)

    @st.composite
    def build(draw: st.DrawFn) -> Artifact:
        shape = draw(st.tuples(*(st.integers(1, 4) for _ in range(5))))
        percent = st.floats(0, 100)
        count = st.none() | st.integers(1, 10**9)
        points = st.builds(
            Accuracy,
            *(st.integers(1, shape[0]), percent, percent, st.integers(1, 9), names, names),
            epochs=count,
            least_steps=count,
            batch=count,
        )
        finite = st.floats(allow_nan=False, allow_infinity=False)
        positive = st.floats(min_value=1e-300, allow_infinity=False)
        images: npt.NDArray[np.uint8] = draw(hnp.arrays(np.uint8, shape))
        return Artifact(
            images=images,
            factor=draw(st.sampled_from([1, *(f for f in (2, 3) if all(side % f == 0 for side in shape[3:]))])),
            mean=tuple(draw(finite) for _ in range(shape[2])),
            std=tuple(draw(positive) for _ in range(shape[2])),
            class_names=tuple(draw(names) for _ in range(shape[1])),
            recipe=draw(settings_),
            provenance=cast(Any, draw(settings_)),
            accuracy=tuple(draw(st.lists(points, max_size=3))),
        )

    return build()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The example's bytes with a few changed, cut, doubled or put in, mostly in the header."""
    content = bytearray(golden_set().to_bytes())
    for _ in range(draw(st.integers(1, 4))):
        here = draw(st.integers(0, len(content)))
        there = draw(st.integers(here, min(len(content), here + 40)))
        match draw(st.sampled_from(["change", "remove", "insert", "cut", "double"])):
            case "change":
                content[here:there] = draw(st.binary(min_size=there - here, max_size=there - here))
            case "remove":
                del content[here:there]
            case "insert":
                content[here:here] = draw(st.binary(max_size=8) | st.sampled_from([b"0", b"-", b"null", b"9e999"]))
            case "cut":
                del content[there:]
            case "double":
                content[here:here] = content[here:there]
    return bytes(content)


@st.composite
def redescribed(draw: st.DrawFn) -> bytes:
    """Sound safetensors, with any JSON in place of some of the description's fields."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    anything = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    )
    header, _ = header_of(golden_set().to_bytes())
    description = json.loads(header["__metadata__"]["mipset"])
    for name in draw(st.lists(st.sampled_from(sorted(description)), min_size=1, max_size=3)):
        description[name] = draw(anything)
    return save({"images": golden_set().images}, metadata={"mipset": json.dumps(description)})


def read_or_refuse(path: Path, content: bytes) -> None:
    """Whatever the bytes: a sound set or an ArtifactError of one line, and a sound set can be written again."""
    path.write_bytes(content)
    try:
        reread = read(path)
    except ArtifactError as error:
        message = str(error)
    else:
        message = ""
        np.testing.assert_array_equal(reread.images, golden_set().images)
        reread.to_bytes()
        np.testing.assert_array_equal(load(content)["images"], reread.images)  # safetensors' own reader agrees
    assert "\n" not in message
