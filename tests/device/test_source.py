"""Sources: opening files, and reading, growing and forgetting prefixes of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import web
from commands import GOLDEN
from mipset import Artifact, ArtifactError, SettingError, device
from mipset.errors import ChangedError
from mipset.io import http
from noise_sets import RANK_BYTES, check_prefix, header_length, noise_set, quick


class TestFiles:
    def test_opening_reads_only_the_header(self, set_path: Path, whole: Artifact) -> None:
        source = device.open(set_path)
        assert source.about == whole.description
        assert (source.name, source.ranks_in_memory) == (str(set_path), 0)

    @pytest.mark.parametrize("n", range(1, 7))
    def test_every_prefix_can_be_read(self, set_path: Path, whole: Artifact, n: int) -> None:
        source = device.open(str(set_path))
        check_prefix(source.prefix(n), whole, n)
        assert source.ranks_in_memory == n

    @pytest.mark.parametrize("n", [-1, 0, 7])
    def test_size_that_the_set_does_not_have_is_refused(self, set_path: Path, n: int) -> None:
        with pytest.raises(ArtifactError, match=rf"^There is no subset of size {n}\. Choose a size from 1 to 6\.$"):
            device.open(set_path).prefix(n)

    def test_file_that_was_written_again_is_noticed(self, set_path: Path, whole: Artifact) -> None:
        source = device.open(set_path)
        held = source.prefix(2)
        whole.prefix(4).write(set_path)
        with pytest.raises(ChangedError, match=r"was changed after it was opened\. Open it again\.$"):
            held.grow(3)
        check_prefix(held, whole, 2)
        check_prefix(device.open(set_path).prefix(3), whole, 3)

    def test_ranks_before_an_altered_rank_can_be_read(self, set_path: Path, whole: Artifact) -> None:
        content = bytearray(set_path.read_bytes())
        content[-3 * RANK_BYTES - 1] ^= 1  # the last byte of the third of six ranks
        set_path.write_bytes(content)
        source = device.open(set_path)
        check_prefix(source.prefix(2), whole, 2)
        with pytest.raises(ArtifactError, match="is damaged: image 3 of each class was altered"):
            source.prefix(5)
        assert source.ranks_in_memory == 2

    @pytest.mark.parametrize("length", [-1, 1])
    def test_file_of_a_wrong_length_is_refused(self, set_path: Path, length: int) -> None:
        content = set_path.read_bytes()
        set_path.write_bytes(content[:-1] if length < 0 else content + b"\0")
        with pytest.raises(ArtifactError, match="is not a complete safetensors file"):
            device.open(set_path)

    @pytest.mark.parametrize(
        "n", [2.0, True, "3", b"\1\1\1\1", None, [1.0] * 4, [True] * 4, ["1"] * 4, np.ones(4, bool)]
    )
    def test_size_of_a_wrong_type_is_refused(self, set_path: Path, n: Any) -> None:
        with pytest.raises(SettingError, match=r"^(The size|A value in `sizes`) is .*: it must be a whole number\.$"):
            device.open(set_path).prefix(n)

    def test_file_is_found_from_another_working_folder_until_it_is_deleted(
        self, set_path: Path, whole: Artifact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(set_path.parent)
        source = device.open(set_path.name, cache="ranks")
        monkeypatch.chdir("/")
        check_prefix(source.prefix(1), whole, 1)
        set_path.unlink()
        with pytest.raises(ChangedError, match=r"^set\.safetensors was moved or deleted after it was opened"):
            source.prefix(2)

    def test_altered_description_is_refused(self, set_path: Path) -> None:
        content = set_path.read_bytes()
        set_path.write_bytes(content.replace(b'\\"mean\\":[0.4', b'\\"mean\\":[0.1'))
        assert set_path.read_bytes() != content
        with pytest.raises(
            ArtifactError, match=r"is damaged: its description was altered\. Download the file or make it again\."
        ):
            device.open(set_path)

    def test_missing_files_and_wrong_arguments_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="There is no file"):
            device.open(tmp_path / "nothing")
        with pytest.raises(ArtifactError, match="is a folder"):
            device.open(tmp_path)
        (tmp_path / "empty").touch()
        with pytest.raises(ArtifactError, match="is not a complete safetensors file"):
            device.open(tmp_path / "empty")
        with pytest.raises(SettingError, match="begins with http or https"):
            device.open("ftp://example.org/set.safetensors")
        for timeout in (0, -1, float("nan"), float("inf"), 1e10, True, "3", None):
            with pytest.raises(SettingError, match=r"`timeout` is .*: it must be a number from "):
                device.open(GOLDEN, timeout=timeout)  # type: ignore[arg-type]


class Reporter:
    """A report that does whatever a test wants."""

    def __init__(self) -> None:
        self.action: Callable[[], object] | None = None

    def __call__(self, stage: str, done: float, total: float) -> None:
        if self.action is not None:
            self.action()


class TestSizes:
    """Growing and shrinking, over HTTP: what moves is what was missing."""

    def test_each_rank_is_downloaded_once(self, server: web.Server, whole: Artifact) -> None:
        start = header_length(server.content)
        source = device.open(server.url)
        assert server.sent == start
        small = source.prefix(2)
        assert server.sent == start + 2 * RANK_BYTES
        larger = small.grow(5)
        assert server.sent == start + 5 * RANK_BYTES
        check_prefix(small, whole, 2)
        check_prefix(larger, whole, 5)
        check_prefix(source.prefix(3), whole, 3)
        assert server.sent == start + 5 * RANK_BYTES
        smaller = larger.shrink(1)
        assert source.ranks_in_memory == 1
        check_prefix(smaller, whole, 1)
        check_prefix(smaller.grow(2), whole, 2)
        assert server.sent == start + 6 * RANK_BYTES
        assert [request["Range"] for request in server.requests] == [
            "bytes=0-7",
            f"bytes=8-{start - 1}",
            *(f"bytes={start + a * RANK_BYTES}-{start + b * RANK_BYTES - 1}" for a, b in [(0, 2), (2, 5), (1, 2)]),
        ]

    @quick
    @given(data=st.data(), first=st.integers(1, 6))
    def test_any_sequence_of_prefix_grow_shrink_and_forget_reads_only_missing_ranks(
        self, server: web.Server, whole: Artifact, data: st.DataObject, first: int
    ) -> None:
        source = device.open(server.url)
        subset, here = source.prefix(first), set(range(first))
        for _ in range(data.draw(st.integers(0, 6))):
            n = subset.sizes[0]
            before = server.sent
            match data.draw(st.sampled_from(["prefix", "grow", "shrink", "forget"])):
                case "prefix":
                    n = data.draw(st.integers(1, 6))
                    subset, missing = source.prefix(n), set(range(n)) - here
                case "grow":
                    here |= set(range(n))  # which the subset has
                    n = data.draw(st.integers(n, 6))
                    subset, missing = subset.grow(n), set(range(n)) - here
                case "shrink":
                    n = data.draw(st.integers(1, n))
                    subset, missing = subset.shrink(n), set()
                    here &= set(range(n))
                case "forget":
                    keep = data.draw(st.integers(0, 6))
                    source.forget(keep)
                    here &= set(range(keep))
                    missing = set()
            here |= missing
            check_prefix(subset, whole, n)
            assert server.sent - before == len(missing) * RANK_BYTES
            assert source.ranks_in_memory == len(here)

    def test_grow_to_a_smaller_size_and_shrink_to_a_larger_size_are_refused(self, set_path: Path) -> None:
        subset = device.open(set_path).prefix(3)
        with pytest.raises(SettingError, match=r"cannot grow to 2\. Use shrink\(\) to make it smaller\."):
            subset.grow(2)
        with pytest.raises(SettingError, match=r"cannot shrink to 4\. Use grow\(\) to make it larger\."):
            subset.shrink(4)

    def test_shrinking_frees_memory(self, tmp_path: Path) -> None:
        noise_set((10, 4, 3, 100, 100), accuracy=()).write(tmp_path / "large")
        tracemalloc.start()
        try:
            source = device.open(tmp_path / "large")
            subset = source.prefix(10)
            full, _ = tracemalloc.get_traced_memory()
            subset = subset.shrink(1)
            left, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert subset.nbytes == 4 * 3 * 100 * 100
        assert full - left > 0.95 * 9 * subset.nbytes

    def test_report_counts_bytes(self, server: web.Server) -> None:
        calls: list[tuple[Any, Any]] = []
        source = device.open(server.url, report=lambda _, done, total: calls.append((done, total)))
        source.prefix(2)
        assert calls[-1] == (2 * RANK_BYTES, 2 * RANK_BYTES)
        source.prefix(6)
        assert calls[-1] == (4 * RANK_BYTES, 4 * RANK_BYTES)
        count = len(calls)
        source.prefix(6)
        assert len(calls) == count

    def test_report_is_called_for_headers_and_for_bytes_that_pass_by(
        self, server: web.Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http, "BLOCK", 500)
        calls: list[tuple[Any, Any]] = []
        server.always = web.without_ranges
        source = device.open(server.url, report=lambda _, done, total: calls.append((done, total)))
        start = header_length(server.content)
        assert (8, 8) in calls
        assert calls[-1] == (start, start)
        source.prefix(5)
        calls.clear()
        source.prefix(6)
        assert calls[0] == (0, RANK_BYTES)  # the first block is all of ranks that are here
        assert calls[-1] == (RANK_BYTES, RANK_BYTES)

    def test_report_may_use_ranks_in_memory_but_not_read_others(self, server: web.Server) -> None:
        reporter = Reporter()
        source = device.open(server.url, report=reporter)
        source.prefix(2)
        lengths: list[int] = []
        reporter.action = lambda: lengths.append(len(source.prefix(2)))
        source.prefix(3)
        assert lengths
        for action in (lambda: source.prefix(6), source.forget):
            reporter.action = None
            source.forget(2)
            reporter.action = action
            with pytest.raises(SettingError, match=r"^`report` must not read or forget ranks while it is called\.$"):
                source.prefix(5)
        reporter.action = None
        assert len(source.prefix(6)) == 96

    def test_ranks_in_memory_are_available_while_another_thread_reads(self, server: web.Server) -> None:
        source = device.open(server.url)
        source.prefix(1)
        reading, seen = Event(), Event()

        def wait(_: object) -> None:
            reading.set()
            seen.wait(5)

        server.faults = [web.then(wait)]
        thread = Thread(target=source.prefix, args=(6,))
        thread.start()
        try:
            assert reading.wait(5)
            source.prefix(1)
            assert source.ranks_in_memory == 1
        finally:
            seen.set()
            thread.join()

    def test_ranks_that_a_subset_still_has_are_not_read_again(self, server: web.Server, whole: Artifact) -> None:
        source = device.open(server.url)
        small, large = source.prefix(2), source.prefix(5)
        small.shrink(1)
        before = server.sent
        check_prefix(large.grow(6), whole, 6)
        assert server.sent - before == RANK_BYTES
        source = device.open(server.url)
        mixed = source.prefix([3, 3, 3, 1])
        source.forget()
        before = server.sent
        mixed.grow([3, 3, 3, 2])
        assert server.sent - before == 2 * RANK_BYTES  # of the others not all classes are left

    @pytest.mark.parametrize("n", [-1, 1.5, True, None])
    def test_forget_refuses_what_is_not_a_count(self, set_path: Path, n: Any) -> None:
        source = device.open(set_path)
        source.prefix(3)
        with pytest.raises(SettingError, match=r"^`n` is "):
            source.forget(n)
        assert source.ranks_in_memory == 3

    def test_interrupted_read_keeps_complete_ranks(self, server: web.Server, whole: Artifact) -> None:
        def interrupt() -> None:
            raise KeyboardInterrupt

        reporter = Reporter()
        source = device.open(server.url, report=reporter)
        reporter.action = interrupt
        server.always = web.at_most(2 * RANK_BYTES + 10)
        with pytest.raises(KeyboardInterrupt):
            source.prefix(6)
        held = source.ranks_in_memory
        assert 0 <= held <= 2
        server.always, reporter.action = None, None
        before = server.sent
        check_prefix(source.prefix(6), whole, 6)
        assert server.sent - before == (6 - held) * RANK_BYTES
