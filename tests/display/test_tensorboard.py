"""What is written for TensorBoard, read again from the event files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mipset.display.tensorboard import TensorBoard
from mipset.errors import MissingExtraError
from mipset.file.run_log import Entry
from report_sets import made_up_set


def events(folder: Path) -> Iterator[Any]:
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(folder.glob("events.*")):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            yield Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]


def test_scalars_and_images_of_a_run(tmp_path: Path) -> None:
    artifact = made_up_set(class_names=("a", "b", "c"))
    with TensorBoard(tmp_path, outers=3) as board:
        for outer in (1, 2, 3):
            board.add(Entry(outer, 9.0 - outer, (2.0, 1.0), (1, 2, 3), (0, 0, 0), 5.0, 4.0, None), lambda: artifact)
    values = {(v.tag, e.step): v for e in events(tmp_path) for v in e.summary.value}
    assert values["loss", 2].simple_value == 7.0
    assert values["distance/size_2", 3].simple_value == 1.0
    assert {step for tag, step in values if tag == "images"} == {1, 2, 3}
    assert values["images", 3].image.encoded_image_string.startswith(b"\x89PNG")


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
    with pytest.raises(MissingExtraError, match="tensorboard"):
        TensorBoard(tmp_path, 1)
