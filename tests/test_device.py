"""The consumer: prefixes of files and of files on servers, whatever those do; training from them; what fits."""

from __future__ import annotations

import json
import os
import ssl
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.error import URLError
from urllib.request import OpenerDirector, Request

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mipset
import web
from commands import SOFTMAX
from mipset import Accuracy, Artifact, ArtifactError, SettingError, device, read
from mipset.device import connections, remote
from mipset.errors import BudgetError, ChangedError, MipsetError, RemoteError
from mipset.evaluation.evaluate import decoded
from mipset.settings import protocol

GOLDEN = Path(__file__).parent / "data" / "golden.safetensors"
SHAPE = (6, 4, 3, 8, 7)  # ranks, classes, channels, height, width
RANK_BYTES = 4 * 3 * 8 * 7

quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def point(size: int, mean: float, std: float = 1.0, protocol: str = "quick, 16 epochs, at least 100 steps") -> Accuracy:
    return Accuracy(size, mean, std, 3, "convnet-3, width 4", protocol, 0, "00" * 32)


def example(shape: tuple[int, ...] = SHAPE, factor: int = 2, **changes: Any) -> Artifact:
    """A set of noise."""
    channels = shape[2]
    facts: dict[str, Any] = {
        "images": np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8),
        "factor": factor,
        "mean": (0.4, 0.5, 0.6)[:channels],
        "std": (0.2, 0.25, 0.3)[:channels],
        "class_names": tuple("abcdefghij"[: shape[1]]),
        "recipe": {"ipc": shape[0]},
        "provenance": {"dataset": "noise"},
        "accuracy": (point(1, 40.0), point(2, 50.0, 2.0), point(4, 60.0, 1.0)),
    }
    return Artifact(**{**facts, **changes})


def header_bytes(content: bytes) -> int:
    (length,) = struct.unpack("<Q", content[:8])
    return 8 + int(length)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between tries, and no proxy between us and our own server."""
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def whole() -> Artifact:
    return example()


@pytest.fixture
def server(whole: Artifact) -> Iterator[web.Server]:
    with web.serving(whole.to_bytes()) as running:
        yield running


@pytest.fixture
def path(whole: Artifact, tmp_path: Path) -> Path:
    whole.write(tmp_path / "set.safetensors")
    return tmp_path / "set.safetensors"


def same(subset: device.Subset, whole: Artifact, n: int) -> None:
    """A subset is S_[n] of a set, in every bit."""
    assert subset.sizes == (n,) * whole.images.shape[1]
    np.testing.assert_array_equal(subset.artifact().images, whole.prefix(n).images)


class TestFiles:
    def test_are_opened_by_their_header(self, path: Path, whole: Artifact) -> None:
        source = device.open(path)
        assert source.about == whole.description
        assert (source.name, source.held) == (str(path), 0)

    @pytest.mark.parametrize("n", range(1, 7))
    def test_give_every_prefix(self, path: Path, whole: Artifact, n: int) -> None:
        source = device.open(str(path))
        same(source.prefix(n), whole, n)
        assert source.held == n

    @pytest.mark.parametrize("n", [-1, 0, 7])
    def test_have_no_other_sizes(self, path: Path, n: int) -> None:
        with pytest.raises(ArtifactError, match=rf"^there is no subset of size {n}: choose from 1 to 6\.$"):
            device.open(path).prefix(n)

    def test_that_are_written_again_are_noticed(self, path: Path, whole: Artifact) -> None:
        source = device.open(path)
        held = source.prefix(2)
        whole.prefix(4).write(path)
        with pytest.raises(ChangedError, match=r"was changed since it was opened: open it again\.$"):
            held.grow(3)
        same(held, whole, 2)
        same(device.open(path).prefix(3), whole, 3)

    def test_of_which_one_rank_was_altered_give_those_before_it(self, path: Path, whole: Artifact) -> None:
        content = bytearray(path.read_bytes())
        content[-3 * RANK_BYTES - 1] ^= 1  # the last byte of the third of six ranks
        path.write_bytes(content)
        source = device.open(path)
        same(source.prefix(2), whole, 2)
        with pytest.raises(ArtifactError, match="is damaged: image 3 of each class was altered"):
            source.prefix(5)
        assert source.held == 2

    @pytest.mark.parametrize("length", [-1, 1])
    def test_of_another_length_than_they_say(self, path: Path, length: int) -> None:
        content = path.read_bytes()
        path.write_bytes(content[:-1] if length < 0 else content + b"\0")
        with pytest.raises(ArtifactError, match="is not a whole safetensors file"):
            device.open(path)

    @pytest.mark.parametrize(
        "n", [2.0, True, "3", b"\1\1\1\1", None, [1.0] * 4, [True] * 4, ["1"] * 4, np.ones(4, bool)]
    )
    def test_have_no_sizes_that_are_no_numbers(self, path: Path, n: Any) -> None:
        with pytest.raises(SettingError, match=r"the sizes? cannot be .*: it must be a whole number"):
            device.open(path).prefix(n)

    def test_that_were_removed_or_are_elsewhere_now(
        self, path: Path, whole: Artifact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(path.parent)
        source = device.open(path.name, cache="ranks")
        monkeypatch.chdir("/")
        same(source.prefix(1), whole, 1)
        path.unlink()
        with pytest.raises(ChangedError, match=r"^set\.safetensors is no longer where it was opened"):
            source.prefix(2)

    def test_whose_description_was_altered_are_refused(self, path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content.replace(b'\\"mean\\":[0.4', b'\\"mean\\":[0.1'))
        assert path.read_bytes() != content
        with pytest.raises(ArtifactError, match="is damaged: its description was altered; fetch or make it again"):
            device.open(path)

    def test_that_are_none(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="there is no file"):
            device.open(tmp_path / "nothing")
        with pytest.raises(ArtifactError, match="is a folder"):
            device.open(tmp_path)
        (tmp_path / "empty").touch()
        with pytest.raises(ArtifactError, match="is not a whole safetensors file"):
            device.open(tmp_path / "empty")
        with pytest.raises(SettingError, match="begins with http or https"):
            device.open("ftp://example.org/set.safetensors")
        for timeout in (0, -1, float("nan"), float("inf"), 1e10, True, "3", None):
            with pytest.raises(SettingError, match="timeout cannot be "):
                device.open(GOLDEN, timeout=timeout)  # type: ignore[arg-type]


class TestSizes:
    """Growing and shrinking, over HTTP: what moves is what was missing."""

    def test_each_rank_is_sent_once(self, server: web.Server, whole: Artifact) -> None:
        start = header_bytes(server.content)
        source = device.open(server.url)
        assert server.sent == start
        small = source.prefix(2)
        assert server.sent == start + 2 * RANK_BYTES
        larger = small.grow(5)
        assert server.sent == start + 5 * RANK_BYTES
        same(small, whole, 2)
        same(larger, whole, 5)
        same(source.prefix(3), whole, 3)
        assert server.sent == start + 5 * RANK_BYTES
        smaller = larger.shrink(1)
        assert source.held == 1
        same(smaller, whole, 1)
        same(smaller.grow(2), whole, 2)
        assert server.sent == start + 6 * RANK_BYTES
        assert [request["Range"] for request in server.requests] == [
            "bytes=0-7",
            f"bytes=8-{start - 1}",
            *(f"bytes={start + a * RANK_BYTES}-{start + b * RANK_BYTES - 1}" for a, b in [(0, 2), (2, 5), (1, 2)]),
        ]

    @quick
    @given(data=st.data(), first=st.integers(1, 6))
    def test_in_any_order(self, server: web.Server, whole: Artifact, data: st.DataObject, first: int) -> None:
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
            same(subset, whole, n)
            assert server.sent - before == len(missing) * RANK_BYTES
            assert source.held == len(here)

    def test_grow_and_shrink_are_not_each_other(self, path: Path) -> None:
        subset = device.open(path).prefix(3)
        with pytest.raises(SettingError, match=r"cannot grow to 2: shrink\(\) makes it smaller"):
            subset.grow(2)
        with pytest.raises(SettingError, match=r"cannot shrink to 4: grow\(\) makes it larger"):
            subset.shrink(4)

    def test_shrinking_frees_memory(self, tmp_path: Path) -> None:
        example((10, 4, 3, 100, 100), accuracy=()).write(tmp_path / "large")
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

    def test_progress_is_told_in_bytes(self, server: web.Server) -> None:
        told: list[tuple[int, int]] = []
        source = device.open(server.url, progress=lambda done, total: told.append((done, total)))
        source.prefix(2)
        assert told[-1] == (2 * RANK_BYTES, 2 * RANK_BYTES)
        source.prefix(6)
        assert told[-1] == (4 * RANK_BYTES, 4 * RANK_BYTES)
        count = len(told)
        source.prefix(6)
        assert len(told) == count

    def test_progress_is_told_of_headers_and_of_what_passes_by(
        self, server: web.Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(remote, "BLOCK", 500)
        told: list[tuple[int, int]] = []
        server.always = web.without_ranges
        source = device.open(server.url, progress=lambda done, total: told.append((done, total)))
        start = header_bytes(server.content)
        assert (8, 8) in told
        assert told[-1] == (start, start)
        source.prefix(5)
        told.clear()
        source.prefix(6)
        assert told[0] == (0, RANK_BYTES)  # the first block is all of ranks that are here
        assert told[-1] == (RANK_BYTES, RANK_BYTES)

    def test_progress_may_look_but_not_read(self, server: web.Server) -> None:
        source = device.open(server.url)
        source.prefix(2)
        seen: list[int] = []
        source._progress = lambda *_: seen.append(len(source.prefix(2)))
        source.prefix(3)
        assert seen
        for use in (lambda *_: source.prefix(6), lambda *_: source.forget()):
            source._progress = None
            source.forget(2)
            source._progress = use  # type: ignore[assignment]
            with pytest.raises(SettingError, match="progress cannot read or forget ranks while it is told about them"):
                source.prefix(5)
        source._progress = None
        assert len(source.prefix(6)) == 96

    def test_what_is_held_does_not_wait_for_what_is_read(self, server: web.Server) -> None:
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
            assert source.held == 1
        finally:
            seen.set()
            thread.join()

    def test_what_another_subset_let_go_is_not_read_again(self, server: web.Server, whole: Artifact) -> None:
        source = device.open(server.url)
        small, large = source.prefix(2), source.prefix(5)
        small.shrink(1)
        before = server.sent
        same(large.grow(6), whole, 6)
        assert server.sent - before == RANK_BYTES
        mixed = device.open(server.url).prefix([3, 3, 3, 1])
        mixed._source.forget()
        before = server.sent
        mixed.grow([3, 3, 3, 2])
        assert server.sent - before == 2 * RANK_BYTES  # of the others not all classes are left

    @pytest.mark.parametrize("n", [-1, 1.5, True, None])
    def test_forgetting_needs_a_number(self, path: Path, n: Any) -> None:
        source = device.open(path)
        source.prefix(3)
        with pytest.raises(SettingError, match="the number of ranks to keep cannot be"):
            source.forget(n)
        assert source.held == 3

    def test_an_interrupt_keeps_what_is_whole(self, server: web.Server, whole: Artifact) -> None:
        def stop(*_: int) -> None:
            raise KeyboardInterrupt

        source = device.open(server.url)
        source._progress = stop
        server.always = web.at_most(2 * RANK_BYTES + 10)
        with pytest.raises(KeyboardInterrupt):
            source.prefix(6)
        held = source.held
        assert 0 <= held <= 2
        server.always, source._progress = None, None
        before = server.sent
        same(source.prefix(6), whole, 6)
        assert server.sent - before == (6 - held) * RANK_BYTES


class TestServers:
    """Whatever a server does, the images are right or the error says what is wrong."""

    @pytest.mark.parametrize(
        "habit",
        [
            web.without_ranges,
            web.in_chunks,
            web.until_closed,
            web.at_most(100),
            web.closing_after(remote.LEAST),
            web.then(lambda server: vars(server).update(etag=None)),
        ],
        ids=["no ranges", "chunks", "no length", "parts", "closes", "no tag"],
    )
    def test_that_are_odd(self, server: web.Server, whole: Artifact, habit: web.Fault) -> None:
        server.always = habit
        source = device.open(server.url)
        same(source.prefix(2).grow(6), whole, 6)

    def test_that_do_not_know_ranges_are_read_no_further_than_needed(self, tmp_path: Path) -> None:
        large = example((40, 4, 3, 100, 100), accuracy=())  # 5 MB, more than what is under way between two processes
        with web.serving(large.to_bytes()) as server:
            ended: list[int] = []

            def in_parts(handler: web.Handler) -> bool:
                handler.answer(200, length=len(server.content))
                for first in range(0, len(server.content), 10_000):
                    handler.send(server.content[first : first + 10_000])
                ended.append(handler.stop)
                return True

            server.always = in_parts
            subset = device.open(server.url).prefix(1)
            assert ended == []  # no answer came to its end: we hung up before
            np.testing.assert_array_equal(subset.artifact().images, large.prefix(1).images)

    @pytest.mark.parametrize("count", [1, 10, RANK_BYTES + 1])
    def test_that_hang_up_are_asked_for_the_rest(self, server: web.Server, whole: Artifact, count: int) -> None:
        source = device.open(server.url)
        start = header_bytes(server.content)
        server.faults = [web.closing_after(count)]
        same(source.prefix(2), whole, 2)
        assert server.sent == start + 2 * RANK_BYTES
        assert server.requests[-1]["Range"] == f"bytes={start + count}-{start + 2 * RANK_BYTES - 1}"

    def test_that_hang_up_again_and_again(self, server: web.Server, whole: Artifact) -> None:
        source = device.open(server.url)
        server.faults = [web.closing_after(2 * RANK_BYTES), *[web.closing_after(0)] * remote.TRIES]
        with pytest.raises(
            RemoteError, match=r"the connection was closed early, 4 times in a row; try again later\.\n"
        ) as caught:
            source.prefix(6)
        assert caught.value.__notes__ == ["What had arrived is kept by the source: call again, and the rest is read."]
        assert source.held == 2
        before = server.sent
        same(source.prefix(6), whole, 6)
        assert server.sent - before == 4 * RANK_BYTES

    def test_that_hang_up_without_a_word(self, server: web.Server, whole: Artifact) -> None:
        server.faults = [web.hanging_up, web.hanging_up]
        same(device.open(server.url).prefix(1), whole, 1)
        server.always = web.hanging_up
        with pytest.raises(RemoteError, match="the connection failed"):
            device.open(server.url)

    def test_without_ranges_that_always_hang_up_at_one_place(self, server: web.Server) -> None:
        source = device.open(server.url)
        server.always = web.closing_whole_after(len(server.content) - 1)
        with pytest.raises(RemoteError, match="closed early, 4 times in a row"):
            source.prefix(6)
        assert source.held == 5

    @pytest.mark.parametrize("code", [500, 502, 503, 504, 429, 408])
    def test_that_are_overloaded_are_asked_again(self, server: web.Server, whole: Artifact, code: int) -> None:
        server.faults = [web.with_status(code)] * (remote.TRIES - 1)
        same(device.open(server.url).prefix(1), whole, 1)
        server.always = web.with_status(code)
        count = len(server.requests)
        with pytest.raises(RemoteError, match=rf"the server answered {code} .*, 4 times in a row"):
            device.open(server.url)
        assert len(server.requests) - count == remote.TRIES

    @pytest.mark.parametrize("code", [400, 401, 403, 404, 410])
    def test_that_refuse_are_not_asked_again(self, server: web.Server, code: int) -> None:
        server.always = web.with_status(code)
        with pytest.raises(RemoteError, match=rf"^the server answered {code} .*: check the address\.$"):
            device.open(server.url)
        assert len(server.requests) == 1

    @pytest.mark.parametrize("code", [204, 203, 226])
    def test_that_answer_what_was_not_asked(self, server: web.Server, code: int) -> None:
        server.always = web.with_status(code)
        with pytest.raises(RemoteError, match=rf"answered {code} .*, which is no file"):
            device.open(server.url)

    @pytest.mark.parametrize(
        "claim",
        [
            *("bytes 1-8/9000", "bytes 0-8/9000", "bytes 7-0/9000", "bytes 0-7", "lines 0-7/9000", "bytes */9000", "x"),
            f"bytes 0-{'9' * 5000}/*",
            "bytes 0-7/-1",
        ],
    )
    def test_that_send_another_part(self, server: web.Server, claim: str) -> None:
        server.always = web.claiming(claim)
        with pytest.raises(RemoteError, match=r"was asked for the bytes 0-7 and answered .*fetch the file in another"):
            device.open(server.url)
        assert len(server.requests) == 1

    def test_that_do_not_tell_the_length(self, server: web.Server, whole: Artifact) -> None:
        server.always = lambda handler: handler.part(length="*")
        source = device.open(server.url)
        same(source.prefix(2), whole, 2)
        server.always = lambda handler: handler.part(length="9999")
        with pytest.raises(ArtifactError, match="it has 9,999 bytes, but its header says"):
            source.prefix(3)

    def test_that_send_it_compressed(self, server: web.Server) -> None:
        server.always = lambda handler: handler.answer(200, b"x", {"Content-Encoding": "gzip"})
        with pytest.raises(RemoteError, match="compressed, though it was asked not to"):
            device.open(server.url)
        assert server.requests[0]["Accept-Encoding"] == "identity"

    @pytest.mark.parametrize("fault", [web.silent_for(0.6), web.stopping_for(0.6, after=3)], ids=["dead", "stops"])
    def test_that_are_silent(self, server: web.Server, whole: Artifact, fault: web.Fault) -> None:
        source = device.open(server.url, timeout=0.15)
        server.faults = [fault]
        same(source.prefix(1), whole, 1)
        server.always = web.silent_for(0.6)
        with pytest.raises(RemoteError, match=r"the server was silent for 0\.15 s, 4 times in a row"):
            source.prefix(2)

    def test_that_are_not_there(self) -> None:
        with web.serving(b"") as server:
            url = server.url
        with pytest.raises(RemoteError, match=r"the connection failed \(.*refused\), 4 times in a row"):
            device.open(url)

    @pytest.mark.parametrize("url", ["http://", "http://[::1", "http://127.0.0.1:port/x", "http://a..b/x", "http:///x"])
    def test_that_cannot_be(self, url: str) -> None:
        with pytest.raises(RemoteError, match="is no address of a file"):
            device.open(url)

    def test_at_addresses_with_odd_letters(self, server: web.Server, whole: Artifact) -> None:
        same(device.open(server.url.replace("set", "süß es%20set")).prefix(1), whole, 1)

    def test_whose_addresses_have_keys_do_not_see_them_in_errors(self, server: web.Server) -> None:
        server.always = web.with_status(403)
        with pytest.raises(RemoteError) as caught:
            device.open(f"{server.url}?key=secret")
        assert "secret" not in str(caught.value)
        assert server.url in str(caught.value)
        with pytest.raises(SettingError, match=r"^http://127\.0\.0\.1:1/x cannot be opened with a name and a password"):
            device.open("http://me:secret@127.0.0.1:1/x")
        with pytest.raises(RemoteError, match="answered 403"):
            device.open(f"{server.url.removesuffix('/set.safetensors')}?to=me@example.org")

    @pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
    def test_that_lead_elsewhere_are_followed(self, server: web.Server, whole: Artifact, code: int) -> None:
        with web.serving(b"") as first:
            first.always = web.with_status(code, Location=server.url)
            same(device.open(first.url).prefix(2), whole, 2)
            assert len(first.requests) == 3
        assert server.sent == header_bytes(server.content) + 2 * RANK_BYTES

    def test_that_lead_in_circles_or_to_other_things(self, server: web.Server) -> None:
        server.always = web.with_status(302, Location=server.url)
        with pytest.raises(RemoteError, match="the server answered 302 ") as caught:
            device.open(server.url)
        assert "\n" not in str(caught.value)
        for other in ("ftp://127.0.0.1/x", "file:///etc/hostname"):
            server.always = web.with_status(302, Location=other)
            with pytest.raises(RemoteError, match=r"leads to ftp, which is not followed|answered 302"):
                device.open(server.url)

    def test_that_lead_from_https_to_http_are_not_followed(self) -> None:
        request = Request("https://example.org/set?key=1")
        with pytest.raises(RemoteError, match=r"^https://example\.org/set leads to http, which is not followed\.$"):
            connections._SafeRedirects().redirect_request(request, None, 302, "", {}, "http://example.org/")  # type: ignore[arg-type]

    def test_that_nobody_vouches_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise URLError(ssl.SSLCertVerificationError("self-signed certificate"))

        monkeypatch.setattr(OpenerDirector, "open", refuse)
        with pytest.raises(RemoteError, match=r"cannot be trusted: .*self-signed certificate"):
            device.open("https://example.org/set")

    def test_that_say_what_a_terminal_would_obey(self, server: web.Server) -> None:
        words = b"HTTP/1.0 404 \x1b[2J" + b"no " * 1000 + b"\r\n\r\n"
        server.always = lambda handler: handler.wfile.write(words) > 0
        with pytest.raises(RemoteError, match="answered 404") as caught:
            device.open(server.url)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400

    def test_that_do_not_speak_http(self, server: web.Server) -> None:
        server.always = web.saying(b"SSH-2.0-\x1b[2J" + b"x" * 10_000 + b"\r\n")
        with pytest.raises(RemoteError, match=r"SSH-2\.0.*4 times in a row; try again later") as caught:
            device.open(server.url)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400

    def test_that_send_more_than_they_say(self, server: web.Server, whole: Artifact) -> None:
        source = device.open(server.url)
        server.faults = [web.in_a_negative_chunk]
        same(source.prefix(2), whole, 2)
        server.always = web.in_a_negative_chunk
        with pytest.raises(RemoteError, match="more came than was asked for, 4 times in a row"):
            source.prefix(3)

    def test_that_redirect_at_length_are_not_listened_to(self, server: web.Server, whole: Artifact) -> None:
        source = device.open(server.url)
        tracemalloc.start()
        try:
            server.faults = [web.redirecting_at_length]
            same(source.prefix(2), whole, 2)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 5_000_000

    @pytest.mark.parametrize("words", [b"HTTP/1.1 100 Continue\r\n\r\n", b"X: y\r\n"], ids=["continue", "headers"])
    def test_that_never_come_to_the_point(self, server: web.Server, words: bytes) -> None:
        server.always = web.saying(b"HTTP/1.1 100 Continue\r\n" + words, pause=0.01, times=500)
        with pytest.raises(RemoteError, match=r"no answer had begun after 0\.2 s, 4 times in a row"):
            device.open(server.url, timeout=0.1)

    def test_that_bring_a_byte_at_a_time(self, server: web.Server) -> None:
        source = device.open(server.url)
        server.always = web.closing_after(1)
        count = len(server.requests)
        with pytest.raises(RemoteError, match="closed early, 4 times in a row"):
            source.prefix(1)
        assert len(server.requests) - count == remote.TRIES

    @pytest.mark.parametrize("name", ["Content-Encoding", "content-encoding"])
    @pytest.mark.parametrize("coding", ["Identity", "identity", "", " "])
    def test_that_say_that_nothing_was_compressed(
        self, server: web.Server, whole: Artifact, name: str, coding: str
    ) -> None:
        def answer(handler: web.Handler) -> bool:
            body = server.content[handler.start : handler.stop]
            place = f"Bytes {handler.start}-{handler.stop - 1}/{len(server.content)}"
            return handler.answer(206, body, {"Content-Range": place, name: coding})

        server.always = answer
        same(device.open(server.url).prefix(1), whole, 1)

    def test_behind_a_proxy_that_does_not_speak_http(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
        with pytest.raises(RemoteError, match=r"a proxy of kind socks5: name one of kind http in http_proxy, or the"):
            device.open("http://example.org/set?key=1")

    def test_that_send_altered_images(self, server: web.Server, whole: Artifact) -> None:
        content = bytearray(server.content)
        content[-1] ^= 1
        server.content = bytes(content)
        source = device.open(server.url)
        same(source.prefix(5), whole, 5)
        with pytest.raises(ArtifactError, match=r"^http://.* is damaged: image 6 of each class was altered"):
            source.prefix(6)
        same(source.prefix(5), whole, 5)

    def test_that_send_something_else(self) -> None:
        for content in (b"", b"short", b"<html>not found</html>", GOLDEN.read_bytes()[:-1], GOLDEN.read_bytes() + b"x"):
            with web.serving(content) as server:
                for habit in (None, web.without_ranges):
                    server.always = habit
                    with pytest.raises(ArtifactError, match="is not a whole safetensors file"):
                        device.open(server.url)


def replaced(server: web.Server) -> None:
    """Another set of the same length and the same header length, with another tag."""
    server.content = example(provenance={"dataset": "fakes"}).to_bytes()
    server.etag = server.etag and '"second"'
    server.modified = server.modified and "Tue, 02 Jan 2024 00:00:00 GMT"


class TestChanges:
    """A file that is replaced while somebody reads it never gives a mixture."""

    @pytest.mark.parametrize("conditional", [True, False], ids=["412", "silently"])
    @pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
    @pytest.mark.parametrize(
        ("etag", "modified", "condition"),
        [
            ('"first"', None, {"If-Match": '"first"'}),
            (None, "Mon, 01 Jan 2024 00:00:00 GMT", {"If-Unmodified-Since": "Mon, 01 Jan 2024 00:00:00 GMT"}),
            ('W/"first"', None, {}),
            ('"first"', "Mon, 01 Jan 2024 00:00:00 GMT", {"If-Match": '"first"'}),
        ],
        ids=["tag", "date", "weak tag", "both"],
    )
    def test_are_noticed(
        self,
        server: web.Server,
        whole: Artifact,
        conditional: bool,
        ranges: bool,
        etag: str | None,
        modified: str | None,
        condition: dict[str, str],
    ) -> None:
        server.etag, server.modified, server.conditional = etag, modified, conditional
        server.always = None if ranges else web.without_ranges
        source = device.open(server.url)
        subset = source.prefix(2)
        conditions = ("If-Match", "If-Unmodified-Since", "If-Range")
        assert {name: value for name, value in server.requests[-1].items() if name in conditions} == condition
        assert not set(server.requests[0]) & set(conditions)
        replaced(server)
        with pytest.raises(ChangedError, match=r"^http://.* was changed since it was opened: open it again\.$"):
            subset.grow(3)
        same(subset, whole, 2)
        assert device.open(server.url).about.provenance == {"dataset": "fakes"}

    def test_of_the_length_are_noticed_without_tags(self, server: web.Server, whole: Artifact) -> None:
        server.etag = None
        for shorter in (example((7, *SHAPE[1:])), example((1, *SHAPE[1:]), accuracy=())):
            server.content = whole.to_bytes()
            source = device.open(server.url)
            server.content = shorter.to_bytes()
            with pytest.raises(ChangedError):
                source.prefix(6)

    def test_that_nothing_tells_are_found_by_the_digests(self, server: web.Server) -> None:
        server.etag = None
        source = device.open(server.url)
        other = example(images=255 - example().images)
        server.content = other.to_bytes()
        with pytest.raises(ArtifactError, match="image 1 of each class was altered"):
            source.prefix(6)

    def test_between_the_two_parts_of_a_header(self, server: web.Server) -> None:
        server.faults = [web.then(lambda _: None), web.then(replaced)]
        with pytest.raises(ChangedError):
            device.open(server.url)

    @pytest.mark.parametrize("etag", [None, 'W/"first"'], ids=["no tag", "weak tag"])
    def test_within_a_header_that_nothing_tells(
        self, server: web.Server, monkeypatch: pytest.MonkeyPatch, etag: str | None
    ) -> None:
        """Half of one header and half of another are never taken for one."""
        other = example(mean=(0.1,) * 3)
        content = other.to_bytes()
        server.etag = etag
        faults: list[web.Fault] = [web.closing_after(8), web.closing_after(900), web.at_most(900)]
        server.faults = [*faults, web.then(lambda _: setattr(server, "content", content))]
        monkeypatch.setattr("mipset.file.artifact.DIGEST", "unknown")  # as if it were an older file
        assert device.open(server.url).about == other.description
        assert [request["Range"].partition("-")[0] for request in server.requests] == ["bytes=0", *["bytes=8"] * 3]

    def test_of_a_header_that_always_comes_in_parts(self, server: web.Server) -> None:
        server.etag, server.always = None, web.at_most(remote.LEAST)
        with pytest.raises(RemoteError, match="came in parts that may be of several versions, 4 times in a row"):
            device.open(server.url)

    def test_between_a_broken_answer_and_the_next(self, server: web.Server) -> None:
        source = device.open(server.url)
        server.faults = [web.closing_after(RANK_BYTES + 5), web.then(replaced)]
        with pytest.raises(ChangedError):
            source.prefix(3)
        assert source.held == 1


class TestCache:
    def test_a_restart_needs_no_second_download(self, server: web.Server, whole: Artifact, tmp_path: Path) -> None:
        device.open(server.url, cache=tmp_path / "new" / "ranks").prefix(4)
        before = server.sent
        source = device.open(server.url, cache=str(tmp_path / "new" / "ranks"))
        same(source.prefix(4), whole, 4)
        assert server.sent - before == header_bytes(server.content)
        same(source.prefix(6), whole, 6)
        assert server.sent - before == header_bytes(server.content) + 2 * RANK_BYTES
        names = {entry.name for entry in (tmp_path / "new" / "ranks").iterdir()}
        assert names == {f"{digest}.rank" for digest in whole.rank_sha256}

    @pytest.mark.parametrize("damage", [b"", b"x", bytes(RANK_BYTES)], ids=["empty", "short", "altered"])
    def test_what_is_damaged_is_fetched_again(
        self, server: web.Server, whole: Artifact, tmp_path: Path, damage: bytes
    ) -> None:
        device.open(server.url, cache=tmp_path).prefix(6)
        for rank in (1, 4, 5):
            (tmp_path / f"{whole.rank_sha256[rank]}.rank").write_bytes(damage)
        before = server.sent
        same(device.open(server.url, cache=tmp_path).prefix(6), whole, 6)
        assert server.sent - before == header_bytes(server.content) + 3 * RANK_BYTES
        assert len(server.requests) == 3 + 2 + 2  # one for a gap, one for the other
        for rank, digest in enumerate(whole.rank_sha256):
            assert (tmp_path / f"{digest}.rank").read_bytes() == whole.images[rank].tobytes()

    def test_what_had_arrived_is_kept_there(self, server: web.Server, tmp_path: Path) -> None:
        source = device.open(server.url, cache=tmp_path)
        server.faults = [web.closing_after(2 * RANK_BYTES), *[web.closing_after(0)] * remote.TRIES]
        with pytest.raises(RemoteError) as caught:
            source.prefix(6)
        assert str(caught.value).endswith(f"; try again later (what had arrived is kept in {tmp_path}).")
        server.faults = [web.closing_after(0)] * remote.TRIES
        with pytest.raises(RemoteError, match=r"; try again later\.$"):
            device.open(server.url, cache=tmp_path)

    def test_shrinking_makes_room(self, server: web.Server, whole: Artifact, tmp_path: Path) -> None:
        subset = device.open(server.url, cache=tmp_path).prefix(5)
        subset.shrink(2)
        assert {entry.stem for entry in tmp_path.iterdir()} == set(whole.rank_sha256[:2])
        device.open(server.url, cache=tmp_path).forget()
        assert list(tmp_path.iterdir()) == []

    def test_a_rank_that_comes_twice_is_not_thrown_away_with_the_second(self, tmp_path: Path) -> None:
        twice = example(images=np.concatenate([example().images, example().images[:1]]), recipe={})
        twice.write(tmp_path / "set")
        source = device.open(tmp_path / "set", cache=tmp_path / "ranks")
        source.prefix(7).shrink(6)
        assert {entry.stem for entry in (tmp_path / "ranks").iterdir()} == set(twice.rank_sha256)

    def test_that_cannot_be_written(self, server: web.Server, whole: Artifact, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ArtifactError, match="file cannot keep what is fetched"):
            device.open(server.url, cache=tmp_path / "file")
        source = device.open(server.url, cache=tmp_path / "ranks")
        (tmp_path / "ranks").rmdir()
        with pytest.raises(
            ArtifactError, match=r"ranks cannot keep what is fetched: No such file or directory; make room"
        ):
            source.prefix(2)
        (tmp_path / "ranks").mkdir()
        same(source.prefix(2), whole, 2)

    def test_is_written_whole_or_not_at_all(
        self, server: web.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ArtifactError, match="No space left on device; make room"):
            device.open(server.url, cache=tmp_path).prefix(2)
        assert list(tmp_path.iterdir()) == []


class TestPerClass:
    """As many of each class as the device needs."""

    @pytest.mark.parametrize("sizes", [(3, 1, 2, 4), (1, 1, 1, 1), (6, 6, 6, 6), (0, 0, 5, 0), (0, 2, 2, 0)])
    def test_images_are_those_of_the_file(self, path: Path, whole: Artifact, sizes: tuple[int, ...]) -> None:
        subset = device.open(path).prefix(list(sizes))
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

    def test_whole_ranks_are_read_because_only_those_can_be_verified(self, server: web.Server) -> None:
        source = device.open(server.url)
        before = server.sent
        subset = source.prefix([1, 0, 3, 1])
        assert server.sent - before == 3 * RANK_BYTES
        assert len(subset) == 4 * 5
        assert len(subset.grow([1, 1, 3, 3])) == 4 * 8
        assert server.sent - before == 3 * RANK_BYTES

    def test_numpy_numbers_will_do(self, path: Path) -> None:
        source = device.open(path)
        assert source.prefix(np.array([1, 2, 0, 1])).sizes == (1, 2, 0, 1)  # type: ignore[arg-type]
        assert source.prefix(np.int64(2)).sizes == (2, 2, 2, 2)  # type: ignore[arg-type]

    def test_batches_have_them_all_once(self, path: Path) -> None:
        subset = device.open(path).prefix([2, 0, 1, 3])
        labels = np.concatenate([labels for _, labels in subset.batches(5)])
        assert np.bincount(labels, minlength=4).tolist() == [8, 0, 4, 12]

    @pytest.mark.parametrize("sizes", [[1, 2, 3], [1, 1, 1, 7], [1, -1, 1, 1], [0, 0, 0, 0], []])
    def test_that_cannot_be(self, path: Path, sizes: list[int]) -> None:
        with pytest.raises(SettingError, match="give one for each of 4 classes, from 0 to 6 and not all 0"):
            device.open(path).prefix(sizes)

    def test_shrinking_needs_no_reading(self, server: web.Server) -> None:
        source = device.open(server.url)
        subset = source.prefix([3, 1, 2, 4])
        source.forget()
        before = server.sent
        smaller = subset.shrink([3, 0, 2, 1])
        assert server.sent == before
        np.testing.assert_array_equal(smaller.arrays()[0], device.open(server.url).prefix([3, 0, 2, 1]).arrays()[0])

    def test_is_no_file(self, path: Path, tmp_path: Path) -> None:
        subset = device.open(path).prefix([1, 1, 1, 2])
        with pytest.raises(SettingError, match="a file has as many images of each class"):
            subset.write(tmp_path / "new")
        with pytest.raises(SettingError, match="an Artifact has as many images of each class"):
            subset.artifact()
        assert "[1, 1, 1, 2] images per class, 20 to train on" in repr(subset)


def normalised(artifact: Artifact) -> npt.NDArray[np.float32]:
    """All training images of a set, as torch decodes them."""
    found: npt.NDArray[np.float32] = decoded(artifact, torch.device("cpu")).batch(slice(None))[0].numpy()
    return found


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
    def test_images_are_those_that_torch_decodes(
        self, tmp_path: Path, factor: int, height: int, width: int, channels: int
    ) -> None:
        whole = example(
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

    def test_images_are_normalised(self, path: Path, whole: Artifact) -> None:
        images, _ = device.open(path).prefix(6).arrays()
        np.testing.assert_allclose(images, normalised(whole), atol=3e-6)  # which are 5 times as large

    def test_of_a_prefix_is_a_prefix(self, path: Path) -> None:
        source = device.open(path)
        images, labels = source.prefix(6).arrays()
        some, some_labels = source.prefix(2).arrays()
        np.testing.assert_array_equal(images[: len(some)], some)
        np.testing.assert_array_equal(labels[: len(some)], some_labels)

    @quick
    @given(size=st.integers(1, 120), epochs=st.integers(1, 3), seed=st.integers(0, 5))
    def test_batches_have_every_image_once_in_an_epoch(self, path: Path, size: int, epochs: int, seed: int) -> None:
        subset = device.open(path).prefix(6)
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

    def test_batches_are_drawn_by_the_seed(self, path: Path) -> None:
        subset = device.open(path).prefix(3)

        def order(**how: Any) -> list[bytes]:
            return [images.tobytes() for images, _ in subset.batches(10, **how)]

        assert order(seed=1) == order(seed=1)
        assert order(seed=1) != order(seed=2)
        assert order(epochs=2)[:5] != order(epochs=2)[5:]
        assert order(epochs=2)[:5] == order()

    def test_batches_without_end(self, path: Path) -> None:
        batches = device.open(path).prefix(1).batches(16, epochs=None)
        assert len([next(batches) for _ in range(50)]) == 50

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            *(({"size": size}, "size") for size in (0, 2.5, "3", True, None)),
            *(({"epochs": epochs}, "epochs") for epochs in (0, 1.5, True)),
            *(({"seed": seed}, "seed") for seed in (-1, 0.5, None)),
        ],
    )
    def test_batches_that_cannot_be(self, path: Path, given: dict[str, Any], reason: str) -> None:
        with pytest.raises(SettingError, match=f"^{reason} of batches cannot be"):
            device.open(path).prefix(1).batches(**{"size": 1, **given})

    def test_single_images(self, path: Path) -> None:
        subset = device.open(path).prefix(2)
        images, labels = subset.arrays()
        some, some_labels = subset.take([31, 0, 5, 5])
        np.testing.assert_array_equal(some, images[[31, 0, 5, 5]])
        np.testing.assert_array_equal(some_labels, labels[[31, 0, 5, 5]])
        for wrong in (-1, 32):
            with pytest.raises(IndexError):
                subset.take([wrong])
        for numbers in ([1.7], [True, False], np.ones(32, bool), ["1"], b"\1", "12", 5, None):
            with pytest.raises(SettingError, match="the numbers of training images cannot be"):
                subset.take(numbers)  # type: ignore[arg-type]

    def test_in_torch(self, path: Path) -> None:
        subset = device.open(path).prefix(2)
        dataset = subset.torch()
        assert len(dataset) == 32
        images, labels = subset.arrays()
        np.testing.assert_array_equal(dataset.tensors[0].numpy(), images)
        np.testing.assert_array_equal(dataset.tensors[1].numpy(), labels)
        assert dataset.tensors[1].dtype == torch.int64

    def test_without_torch_says_what_to_install(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(mipset.MissingExtraError, match=r"Subset\.torch\(\) needs torch, .* pip install"):
            device.open(path).prefix(1).torch()

    def test_more_at_once_than_there_is_memory(self, tmp_path: Path) -> None:
        """A file may decode to a thousand times its bytes: this one of 2.5 MB to 2.6 GB."""
        example((1, 10, 1, 500, 500), 16, accuracy=()).write(tmp_path / "set")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", ALL_AT_ONCE, str(tmp_path / "set")],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"},
        )
        assert done.stdout.splitlines() == [
            "2560 images at once need 2.6 GB: use batches().",
            "(4, 1, 500, 500)",
        ]

    @pytest.mark.parametrize(
        ("mean", "std"),
        [(1e300, 1.0), (0.5, 1e-50), (0.5, 1e-40), (0.5, 1e300), (1e39, 1e39)],  # the last two would make all images 0
    )
    @pytest.mark.parametrize("channels", [1, 200])
    def test_numbers_that_float32_does_not_have(self, tmp_path: Path, mean: float, std: float, channels: int) -> None:
        means, stds = (mean,) * channels, (std,) * channels
        example((1, 2, channels, 4, 4), mean=means, std=stds, accuracy=()).write(tmp_path / "set")
        with pytest.raises(ArtifactError, match="cannot be normalised with in float32") as caught:
            device.open(tmp_path / "set")
        assert str(tmp_path) in str(caught.value)
        assert len(str(caught.value)) < 1000

    @pytest.mark.parametrize(("classes", "size"), [(10, 16), (1000, 1)], ids=["few classes", "many classes"])
    def test_memory_is_what_the_plan_says(self, tmp_path: Path, classes: int, size: int) -> None:
        names = tuple(map(str, range(classes)))
        example((5, classes, 3, 32, 32), class_names=names, accuracy=()).write(tmp_path / "set")
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
    def test_a_prefix_is_the_file_that_slicing_makes(
        self, server: web.Server, whole: Artifact, tmp_path: Path, n: int
    ) -> None:
        device.open(server.url).prefix(n).write(tmp_path / "part")
        assert (tmp_path / "part").read_bytes() == whole.prefix(n).to_bytes()
        assert read(tmp_path / "part").accuracy == whole.prefix(n).accuracy
        same(device.open(tmp_path / "part").prefix(n), whole, n)

    def test_where_nothing_can_be_written(self, path: Path, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="cannot be written: No such file or directory"):
            device.open(path).prefix(1).write(tmp_path / "nowhere" / "x")


class TestPlan:
    @pytest.mark.parametrize("n", range(1, 7))
    def test_storage(self, path: Path, whole: Artifact, n: int) -> None:
        source = device.open(path)
        needed = len(whole.prefix(n).to_bytes())
        for room, size in ((needed, n), (needed + 1, n), (needed - 1, n - 1)):
            if size:
                plan = device.plan(source, bytes=room)
                assert plan.size == size
                assert plan.file_bytes == len(whole.prefix(size).to_bytes()) <= room
        assert source.held == 0

    def test_everything_fits_where_there_are_no_limits(self, path: Path) -> None:
        plan = device.plan(device.open(path))
        assert (plan.size, plan.images, plan.epochs, plan.seconds) == (6, 96, 50, None)

    @pytest.mark.parametrize("n", range(1, 7))
    def test_memory(self, path: Path, n: int) -> None:
        needed = (n + 1) * RANK_BYTES + RANK_BYTES // 8 + 16 * n * 16 + (2 * 20 + 8) * 4 * 3 * 8 * 7
        source = device.open(path)
        plan = device.plan(source, memory=needed, batch=20)
        assert (plan.size, plan.memory) == (n, needed)
        if n > 1:
            assert device.plan(source, memory=needed - 1, batch=20).size == n - 1

    def test_time_is_images_times_epochs(self, tmp_path: Path) -> None:
        example(accuracy=(point(1, 40.0, protocol="paper, 1000 epochs"),)).write(tmp_path / "set")
        source = device.open(tmp_path / "set")
        plan = device.plan(source, seconds=640, throughput=100)
        assert (plan.size, plan.epochs, plan.seconds) == (4, 1000, 640.0)
        assert device.plan(source, seconds=639, throughput=100).size == 3
        assert device.plan(source, seconds=640, throughput=100, epochs=500).size == 6
        assert device.plan(source, throughput=100).seconds == 960.0

    @pytest.mark.parametrize("n", range(1, 7))
    def test_epochs_are_those_of_the_protocol(self, path: Path, n: int) -> None:
        """Which trains longer on few images: at least for 100 steps, with batches of 64."""
        rule = protocol.PROTOCOLS["quick"]
        assert point(1, 1.0).protocol == str(rule)
        source = device.open(path)
        room = source.about.prefix(n).file_bytes
        assert device.plan(source, bytes=room).epochs == rule.epochs_for(16 * n)
        assert device.plan(source, bytes=room, batch=8).epochs == rule.epochs_for(16 * n)

    def test_every_limit_counts(self, path: Path) -> None:
        source = device.open(path)
        room = source.about.prefix(4).file_bytes
        assert device.plan(source, bytes=room, seconds=1e9, throughput=1).size == 4
        assert device.plan(source, bytes=room, seconds=1600, throughput=1, epochs=50).size == 2

    @pytest.mark.parametrize(
        ("n", "mean", "std", "measured"),
        [(1, 40.0, 1.0, True), (2, 50.0, 2.0, True), (3, 55.0, 1.5, False), (4, 60.0, 1.0, True)],
    )
    def test_accuracy_is_that_of_the_curve(self, path: Path, n: int, mean: float, std: float, measured: bool) -> None:
        source = device.open(path)
        expected = device.plan(source, bytes=source.about.prefix(n).file_bytes).expected
        assert expected is not None
        assert (expected.mean, expected.std, expected.measured) == (mean, std, measured)
        assert str(expected) == f"{mean:.1f} ± {std:.1f} %"
        assert expected.networks == 3
        assert expected.network == "convnet-3, width 4"

    def test_accuracy_of_one_network_has_no_spread(self, tmp_path: Path) -> None:
        points = (replace(point(1, 40.0, 0.0), networks=1), point(6, 60.0))
        example(accuracy=points).write(tmp_path / "set")
        source = device.open(tmp_path / "set")
        for n, text in ((1, "40.0 % (one network)"), (3, "48.0 % (one network)"), (6, "60.0 ± 1.0 %")):
            assert str(device.plan(source, bytes=source.about.prefix(n).file_bytes).expected) == text

    def test_accuracy_is_unknown_beyond_what_was_measured(self, path: Path, tmp_path: Path) -> None:
        assert device.plan(device.open(path)).expected is None
        example(accuracy=()).write(tmp_path / "unmeasured")
        assert device.plan(device.open(tmp_path / "unmeasured")).expected is None

    def test_accuracy_is_unknown_after_other_epochs(self, path: Path) -> None:
        source = device.open(path)
        room = source.about.prefix(4).file_bytes
        assert device.plan(source, bytes=room, epochs=100).expected is not None
        assert device.plan(source, bytes=room, epochs=99).expected is None

    def test_of_several_curves_the_one_with_the_most_sizes_counts(self, tmp_path: Path) -> None:
        others = (point(4, 1.0, protocol="paper, 1000 epochs"), replace(point(4, 2.0), network="resnet"))
        example(accuracy=(*others, *example().accuracy)).write(tmp_path / "set")
        source = device.open(tmp_path / "set")
        expected = device.plan(source, bytes=source.about.prefix(4).file_bytes).expected
        assert expected is not None
        assert expected.mean == 60.0

    def test_where_nothing_fits(self, path: Path) -> None:
        source = device.open(path)
        with pytest.raises(
            BudgetError,
            match=r"^not even one image per class fits: its file has [\d.]+ kB, and there is room for 100 B\.$",
        ):
            device.plan(source, bytes=100)
        with pytest.raises(BudgetError, match=r"training takes [\d.]+ kB of memory, and there are 1\.0 kB"):
            device.plan(source, memory=1000)
        with pytest.raises(BudgetError, match=r"training takes 160 s, and there are 159"):
            device.plan(source, seconds=159, throughput=10)
        with pytest.raises(BudgetError, match=r"training takes 160 s, and there are 159\.99\.$"):
            device.plan(source, seconds=159.99, throughput=10)
        with pytest.raises(BudgetError, match=r"its file has 1,\d{3} B, and there is room for 1,\d{3} B\."):
            device.plan(source, bytes=source.about.prefix(1).file_bytes - 1)
        with pytest.raises(
            BudgetError, match=r"file has .*; training takes .* of memory, .*; training takes .* s, and"
        ):
            device.plan(source, bytes=1, memory=1, seconds=1, throughput=1)

    @pytest.mark.parametrize("name", ["bytes", "memory", "seconds", "throughput", "epochs", "batch"])
    def test_limits_that_cannot_be(self, path: Path, name: str) -> None:
        source = device.open(path)
        for value in (0, -1, float("nan"), float("inf"), 10**400, 10**5000, 1e-320, True, "3", [1]):
            with pytest.raises(SettingError, match=f"^{name} cannot be .*: it must be ") as caught:
                device.plan(source, **{name: value})  # type: ignore[arg-type]
            assert len(str(caught.value)) < 200

    @pytest.mark.parametrize("name", ["epochs", "batch"])
    def test_limits_that_must_be_whole(self, path: Path, name: str) -> None:
        with pytest.raises(SettingError, match=rf"^{name} cannot be 2\.5: it must be a whole number"):
            device.plan(device.open(path), **{name: 2.5})  # type: ignore[arg-type]

    def test_limits_may_be_numbers_of_numpy(self, path: Path) -> None:
        assert device.plan(device.open(path), bytes=np.float32(1e5), batch=np.int64(3)).size == 6  # type: ignore[arg-type]

    def test_what_takes_longest_is_still_a_number(self, path: Path) -> None:
        assert device.plan(device.open(path), throughput=1e-30, epochs=10**9).seconds == 9.6e40

    def test_what_is_missing_is_named(self, path: Path, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match=r"without throughput: device\.probe\(\) measures it"):
            device.plan(device.open(path), seconds=10)
        for points in ((), (point(1, 1.0, protocol="by heart"),), (point(1, 1.0, protocol="0 epochs"),)):
            example(accuracy=points).write(tmp_path / "set")
            with pytest.raises(SettingError, match="does not say for how many epochs to train: give epochs"):
                device.plan(device.open(tmp_path / "set"), seconds=10, throughput=10)
            assert device.plan(device.open(tmp_path / "set"), seconds=10, throughput=10, epochs=1).size == 6

    def test_the_header_is_all_that_is_read(self, server: web.Server) -> None:
        device.plan(device.open(server.url), bytes=10**6, memory=10**6, seconds=10**6, throughput=1)
        assert server.sent == header_bytes(server.content)


class TestProbe:
    def test_counts_images_in_a_second(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [0.0]
        shapes = []

        def step(images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> None:
            shapes.append((images.shape, labels.shape))
            clock[0] += 10.0 if len(shapes) == 1 else 0.5  # setting up takes long

        monkeypatch.setattr("mipset.device.planning.time.perf_counter", lambda: clock[0])
        source = device.open(path)
        assert device.probe(step, source, batch=20) == 40.0
        assert shapes == [((20, 3, 8, 7), (20,))] * 5  # more images than one per class has, and two seconds of them
        assert source.held == 1

    def test_of_a_step_that_takes_longer(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [0.0]

        def step(*_: object) -> None:
            clock[0] += 60.0

        monkeypatch.setattr("mipset.device.planning.time.perf_counter", lambda: clock[0])
        assert device.probe(step, device.open(path), batch=30) == 0.5

    def test_of_nothing(self, path: Path) -> None:
        with pytest.raises(SettingError, match="batch cannot be 0"):
            device.probe(print, device.open(path), batch=0)

    def test_takes_about_as_long_as_it_is_told(self, path: Path) -> None:
        assert device.probe(lambda *_: None, device.open(path), batch=4, seconds=0.05) > 0


def hostile(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> bytes:
    """The example with another header: its entry of the images and its description, changed."""
    content = example().to_bytes()
    end = header_bytes(content)
    header = json.loads(content[8:end])
    description = json.loads(header["__metadata__"]["mipset"])
    change(header["images"], description)
    header["__metadata__"] = {"mipset": json.dumps(description)}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[end:]


HUGE = 1 << 40


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
            hostile(lambda _, said: said.update(formation={"factor": HUGE})),
            hostile(lambda _, said: said.update(formation={"factor": -1})),
            hostile(lambda _, said: said.update(mean=[float("nan")] * 3)),
            hostile(lambda _, said: said.update(std=[-1.0] * 3)),
            hostile(lambda _, said: said.update(sha256=["../../../../etc/passwd"] * 6)),
            hostile(lambda _, said: said.update(sha256=said["sha256"] * 1000)),
            hostile(lambda _, said: said.update(classes=["x"] * 100_000)),
            hostile(lambda _, said: said.update(accuracy=[vars(point(HUGE, 50.0))])),
            struct.pack("<Q", 2**64 - 1) + b"{" * 1000,
            struct.pack("<Q", 1 << 30) + b"{" * 1000,
            struct.pack("<Q", 1 << 22) + b"{" * 1000,
        ],
        ids=range(21),
    )
    def test_give_our_error_and_take_no_memory(self, tmp_path: Path, content: bytes) -> None:
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

    def test_are_not_followed_out_of_the_file(self, tmp_path: Path) -> None:
        """The first answer tells how long the file is: what it cannot have is not asked for."""
        content = struct.pack("<Q", 1 << 22) + b"{" * 1000
        (tmp_path / "set").write_bytes(content)
        with web.serving(content) as server:
            for where in (server.url, tmp_path / "set"):
                with pytest.raises(ArtifactError, match=r"it ends after 1,008 of 4,194,312 bytes"):
                    device.open(where)
            assert [request["Range"] for request in server.requests] == ["bytes=0-7"]

    def test_of_a_server_that_lies_about_the_length_too(self, tmp_path: Path) -> None:
        """It promises a terabyte; what it sends is all that is ever in memory."""
        content = hostile(lambda images, _: images.update(shape=[6, 4, 3, HUGE, 7], data_offsets=[0, 504 * HUGE]))
        length = header_bytes(content) + 504 * HUGE
        with web.serving(content) as server:

            def lie(handler: web.Handler) -> bool:
                start, stop = handler.start, handler.stop
                claimed = {"Content-Range": f"bytes {start}-{stop - 1}/{length}"}
                return handler.answer(206, content[start:stop], claimed, stop - start)

            server.always = lie
            source = device.open(server.url)
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

    @settings(quick, max_examples=100)
    @given(start=st.integers(0, 900), change=st.binary(min_size=1, max_size=20), cut=st.integers(0, 30))
    def test_of_any_kind(self, tmp_path: Path, start: int, change: bytes, cut: int) -> None:
        content = example().to_bytes()
        (tmp_path / "set").write_bytes(content[:start] + change + content[start + cut :])
        try:
            subset = device.open(tmp_path / "set").prefix(2)
        except MipsetError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            np.testing.assert_array_equal(subset.artifact().images, example().images[:2])


class TestWithoutTorch:
    def test_a_classifier_is_trained_over_http(self, server: web.Server) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", SOFTMAX, server.url],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1])},
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split("\n")[:2] == ["True", "[]"]
        assert server.sent == header_bytes(server.content) + 3 * RANK_BYTES

    def test_opening_a_path_imports_no_network(self) -> None:
        code = f"import sys; from mipset import device; device.open({str(GOLDEN)!r}).prefix(1).arrays(); " + (
            "print([name for name in ('torch', 'urllib.request', 'http.client', 'ssl') if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1])},
        )
        assert done.stdout.strip() == "[]"
