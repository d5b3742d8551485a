"""Headers that are made to do harm."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import web
from mipset import ArtifactError, device
from mipset.errors import BudgetError, MipsetError, RemoteError
from noise_sets import RANK_BYTES, SHAPE, header_length, noise_set, point, quick


def hostile(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> bytes:
    """The example with another header: its entry of the images and its description, changed."""
    content = noise_set().to_bytes()
    end = header_length(content)
    header = json.loads(content[8:end])
    description = json.loads(header["__metadata__"]["mipset"])
    change(header["images"], description)
    header["__metadata__"] = {"mipset": json.dumps(description)}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[end:]


HUGE = 1 << 40
ACCURACY = {name: value for name, value in vars(point(1, 50.0)).items() if value is not None}


class TestHostileHeaders:
    @pytest.mark.parametrize(
        "content",
        [
            hostile(lambda images, _: images.update(shape=[HUGE, *SHAPE[1:]])),
            hostile(lambda images, _: images.update(shape=[6, 4, 3, HUGE, HUGE], data_offsets=[0, 72 * HUGE * HUGE])),
            hostile(lambda images, _: images.update(shape=[6, 4, 3, HUGE, 7], data_offsets=[0, 504 * HUGE])),
            hostile(lambda images, _: images.update(shape=[6, 4, 3, 2**64, 7])),
            hostile(lambda images, _: images.update(shape=[-6, -4, *SHAPE[2:]])),
            hostile(lambda images, _: images.update(shape=[6, 4, 3, 8.0, 7])),
            hostile(lambda images, _: images.update(shape=[6, 4, 3, float("nan"), 7])),
            hostile(lambda images, _: images.update(data_offsets=[0, HUGE])),
            hostile(lambda images, _: images.update(data_offsets=[-8, 6 * RANK_BYTES - 8])),
            hostile(lambda images, _: images.update(data_offsets=[0.0, 6.0 * RANK_BYTES])),
            hostile(lambda _, fields: fields.update(formation={"factor": HUGE})),
            hostile(lambda _, fields: fields.update(formation={"factor": -1})),
            hostile(lambda _, fields: fields.update(mean=[float("nan")] * 3)),
            hostile(lambda _, fields: fields.update(std=[-1.0] * 3)),
            hostile(lambda _, fields: fields.update(sha256=["../../../../etc/passwd"] * 6)),
            hostile(lambda _, fields: fields.update(sha256=fields["sha256"] * 1000)),
            hostile(lambda _, fields: fields.update(classes=["x"] * 100_000)),
            hostile(lambda _, fields: fields.update(accuracy=[{**ACCURACY, "size": HUGE}])),
            struct.pack("<Q", 2**64 - 1) + b"{" * 1000,
            struct.pack("<Q", 1 << 30) + b"{" * 1000,
            struct.pack("<Q", 1 << 22) + b"{" * 1000,
        ],
        ids=range(21),
    )
    def test_hostile_header_raises_an_artifact_error_and_takes_no_memory(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "set").write_bytes(content)
        with web.serving(content) as server:
            tracemalloc.start()
            try:
                for where in (tmp_path / "set", server.url):
                    with pytest.raises(ArtifactError) as caught:
                        device.open(where)
                    assert "\n" not in str(caught.value)
                    assert len(str(caught.value)) < 1000
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert peak < 40_000_000

    def test_bytes_beyond_the_end_of_the_file_are_not_requested(self, tmp_path: Path) -> None:
        """The first answer tells how long the file is: what it cannot have is not asked for."""
        content = struct.pack("<Q", 1 << 22) + b"{" * 1000
        (tmp_path / "set").write_bytes(content)
        with web.serving(content) as server:
            for where in (server.url, tmp_path / "set"):
                with pytest.raises(ArtifactError, match=r"it ends after 1,008 of 4,194,312 bytes"):
                    device.open(where)
            assert [request["Range"] for request in server.requests] == ["bytes=0-7"]

    def test_server_that_promises_a_terabyte_takes_no_memory(self, tmp_path: Path) -> None:
        """It promises a terabyte; what it sends is all that is ever in memory."""
        content = hostile(lambda images, _: images.update(shape=[6, 4, 3, HUGE, 7], data_offsets=[0, 504 * HUGE]))
        length = header_length(content) + 504 * HUGE
        with web.serving(content) as server:

            def lie(handler: web.Handler) -> bool:
                start, stop = handler.start, handler.stop
                claimed = {"Content-Range": f"bytes {start}-{stop - 1}/{length}"}
                return handler.answer(206, content[start:stop], claimed, stop - start)

            server.always = lie
            with pytest.raises(ArtifactError, match=r"for size 1, but .* are allowed\. Read a smaller"):
                device.open(server.url).prefix(1)
            source = device.open(server.url, max_memory=HUGE**2)
            tracemalloc.start()
            try:
                with pytest.raises(RemoteError, match="closed early"):
                    source.prefix(1)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak < 5_000_000
            with pytest.raises(BudgetError):
                device.plan(source, memory=10**9)

    def test_server_that_names_no_length_is_not_read_beyond_what_is_allowed(self) -> None:
        """It never ends, and its header promises images that are larger than what it has."""
        side = 1 << 17
        content = hostile(lambda images, _: images.update(shape=[6, 4, 3, side, 7], data_offsets=[0, 504 * side]))
        with web.serving(content) as server:

            def endless(handler: web.Handler) -> bool:
                handler.send_response(200)
                handler.end_headers()
                handler.send(content)
                while True:
                    handler.send(bytes(1 << 16))

            server.always = endless
            rank_bytes = 84 * side
            with pytest.raises(ArtifactError, match=r"needs 11\.0 MB of memory for size 1, but 11\.0 MB are allowed"):
                device.open(server.url, max_memory=rank_bytes - 1).prefix(1)
            assert server.sent < 2_000_000 + rank_bytes
            with pytest.raises(ArtifactError, match="is damaged"):
                device.open(server.url, max_memory=rank_bytes).prefix(1)  # what is allowed is read, and no more

    @settings(quick, max_examples=100)
    @given(start=st.integers(0, 900), change=st.binary(min_size=1, max_size=20), cut=st.integers(0, 30))
    def test_random_change_of_a_header_is_refused_or_harmless(
        self, tmp_path: Path, start: int, change: bytes, cut: int
    ) -> None:
        content = noise_set().to_bytes()
        (tmp_path / "set").write_bytes(content[:start] + change + content[start + cut :])
        try:
            subset = device.open(tmp_path / "set").prefix(2)
        except MipsetError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            np.testing.assert_array_equal(subset.artifact().images, noise_set().images[:2])
