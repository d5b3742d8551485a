"""The HTTP client: retries, ranges, redirections and changed files, with a set on a server; downloads of datasets."""

from __future__ import annotations

import ssl
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import OpenerDirector, Request

import numpy as np
import pytest

import web
from commands import GOLDEN
from mipset import Artifact, ArtifactError, SettingError, device
from mipset.data.sources import Files, SourceError
from mipset.errors import ChangedError, RemoteError
from mipset.io import connections, http
from mipset.reporting import silent
from noise_sets import RANK_BYTES, SHAPE, check_prefix, header_length, noise_set


class TestDownloads:
    """Files of datasets: downloaded whole, retried, and resumed where the server allows it."""

    CONTENT = bytes(range(256)) * 20

    @pytest.fixture
    def dataset_server(self) -> Iterator[web.Server]:
        with web.serving(self.CONTENT) as running:
            yield running

    def download(self, server: web.Server, tmp_path: Path) -> bytes:
        Files(server.url.removesuffix("set.safetensors"), ("a.gz",)).deliver(tmp_path, silent)
        return (tmp_path / "a.gz").read_bytes()

    @pytest.mark.parametrize(
        "habit",
        [
            None,
            web.without_ranges,
            web.in_chunks,
            web.until_closed,
            web.at_most(3000),
            lambda handler: handler.answer(200, handler.server.content, {"Content-Encoding": "gzip"}),
        ],
        ids=["ranges", "no ranges", "chunks", "no length", "parts", "labelled as gzip"],
    )
    def test_dataset_is_downloaded_from_any_correct_server(
        self, dataset_server: web.Server, tmp_path: Path, habit: web.Fault | None
    ) -> None:
        dataset_server.always = habit
        assert self.download(dataset_server, tmp_path) == self.CONTENT

    def test_lost_download_is_resumed_where_it_stopped(self, dataset_server: web.Server, tmp_path: Path) -> None:
        dataset_server.faults = [web.hanging_up, web.closing_whole_after(2000), web.with_status(503)]
        assert self.download(dataset_server, tmp_path) == self.CONTENT
        assert dataset_server.sent == len(self.CONTENT)
        ranges = [request.get("Range") for request in dataset_server.requests]
        assert ranges == [None, None, *[f"bytes=2000-{len(self.CONTENT) - 1}"] * 2]
        assert dataset_server.requests[-1]["If-Match"] == dataset_server.etag

    def test_lost_download_without_tags_begins_again(self, dataset_server: web.Server, tmp_path: Path) -> None:
        dataset_server.etag = None
        dataset_server.faults = [web.closing_whole_after(2000)]
        assert self.download(dataset_server, tmp_path) == self.CONTENT
        assert dataset_server.sent == len(self.CONTENT) + 2000

    def test_download_without_ranges_is_retried(self, dataset_server: web.Server, tmp_path: Path) -> None:
        dataset_server.faults = [web.closing_whole_after(2000)]
        dataset_server.always = web.without_ranges
        assert self.download(dataset_server, tmp_path) == self.CONTENT

    def test_dataset_replaced_during_the_download_is_noticed(self, dataset_server: web.Server, tmp_path: Path) -> None:
        change = web.then(lambda server: vars(server).update(etag='"second"'))
        dataset_server.faults = [web.closing_whole_after(2000), change]
        with pytest.raises(SourceError, match="was changed after it was opened"):
            self.download(dataset_server, tmp_path)

    def test_failing_download_is_given_up(self, dataset_server: web.Server, tmp_path: Path) -> None:
        dataset_server.always = web.with_status(503)
        with pytest.raises(SourceError, match=r"the server answered 503 .*, 4 times in a row"):
            self.download(dataset_server, tmp_path)
        assert len(dataset_server.requests) == http.TRIES


class TestServers:
    """Whatever a server does, the images are right or the error says what is wrong."""

    @pytest.mark.parametrize(
        "habit",
        [
            web.without_ranges,
            web.in_chunks,
            web.until_closed,
            web.at_most(100),
            web.closing_after(http.LEAST_BYTES),
            web.then(lambda server: vars(server).update(etag=None)),
        ],
        ids=["no ranges", "chunks", "no length", "parts", "closes", "no tag"],
    )
    def test_unusual_but_correct_servers_are_read(self, server: web.Server, whole: Artifact, habit: web.Fault) -> None:
        server.always = habit
        source = device.open(server.url)
        check_prefix(source.prefix(2).grow(6), whole, 6)

    def test_server_without_ranges_is_read_no_further_than_needed(self, tmp_path: Path) -> None:
        large = noise_set((40, 4, 3, 100, 100), accuracy=())  # 5 MB, more than what is under way between two processes
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
    def test_lost_connection_is_resumed_where_it_stopped(self, server: web.Server, whole: Artifact, count: int) -> None:
        source = device.open(server.url)
        start = header_length(server.content)
        server.faults = [web.closing_after(count)]
        check_prefix(source.prefix(2), whole, 2)
        assert server.sent == start + 2 * RANK_BYTES
        assert server.requests[-1]["Range"] == f"bytes={start + count}-{start + 2 * RANK_BYTES - 1}"

    def test_connection_lost_too_often_raises_and_keeps_complete_ranks(
        self, server: web.Server, whole: Artifact
    ) -> None:
        source = device.open(server.url)
        server.faults = [web.closing_after(2 * RANK_BYTES), *[web.closing_after(0)] * http.TRIES]
        with pytest.raises(
            RemoteError, match=r"the connection was closed early, 4 times in a row\. Try again later\.\n"
        ) as caught:
            source.prefix(6)
        assert caught.value.__notes__ == [
            "The images that arrived are still in memory: call again to read only the rest."
        ]
        assert source.ranks_in_memory == 2
        before = server.sent
        check_prefix(source.prefix(6), whole, 6)
        assert server.sent - before == 4 * RANK_BYTES

    def test_connection_closed_without_an_answer_is_retried(self, server: web.Server, whole: Artifact) -> None:
        server.faults = [web.hanging_up, web.hanging_up]
        check_prefix(device.open(server.url).prefix(1), whole, 1)
        server.always = web.hanging_up
        with pytest.raises(RemoteError, match="the connection failed"):
            device.open(server.url)

    def test_server_without_ranges_that_always_fails_at_one_byte_is_given_up(self, server: web.Server) -> None:
        source = device.open(server.url)
        server.always = web.closing_whole_after(len(server.content) - 1)
        with pytest.raises(RemoteError, match="closed early, 4 times in a row"):
            source.prefix(6)
        assert source.ranks_in_memory == 5

    @pytest.mark.parametrize("code", [500, 502, 503, 504, 429, 408])
    def test_temporary_status_is_retried(self, server: web.Server, whole: Artifact, code: int) -> None:
        server.faults = [web.with_status(code)] * (http.TRIES - 1)
        check_prefix(device.open(server.url).prefix(1), whole, 1)
        server.always = web.with_status(code)
        count = len(server.requests)
        with pytest.raises(RemoteError, match=rf"the server answered {code} .*, 4 times in a row"):
            device.open(server.url)
        assert len(server.requests) - count == http.TRIES

    @pytest.mark.parametrize("code", [400, 401, 403, 404, 410])
    def test_permanent_status_is_not_retried(self, server: web.Server, code: int) -> None:
        server.always = web.with_status(code)
        with pytest.raises(
            RemoteError, match=rf"^http://.* cannot be read: the server answered {code} .*\. Check the address\.$"
        ):
            device.open(server.url)
        assert len(server.requests) == 1

    @pytest.mark.parametrize("code", [204, 203, 226])
    def test_status_without_a_file_is_refused(self, server: web.Server, code: int) -> None:
        server.always = web.with_status(code)
        with pytest.raises(RemoteError, match=rf"answered {code} .*, which is not a file"):
            device.open(server.url)

    @pytest.mark.parametrize(
        "claim",
        [
            *("bytes 1-8/9000", "bytes 0-8/9000", "bytes 7-0/9000", "bytes 0-7", "lines 0-7/9000", "bytes */9000", "x"),
            f"bytes 0-{'9' * 5000}/*",
            "bytes 0-7/-1",
        ],
    )
    def test_wrong_range_is_refused(self, server: web.Server, claim: str) -> None:
        server.always = web.claiming(claim)
        with pytest.raises(
            RemoteError, match=r"the request was for the bytes 0-7, and the server answered .*\. Download the file with"
        ):
            device.open(server.url)
        assert len(server.requests) == 1

    def test_unknown_length_is_accepted_and_a_wrong_length_refused(self, server: web.Server, whole: Artifact) -> None:
        server.always = lambda handler: handler.part(length="*")
        source = device.open(server.url)
        check_prefix(source.prefix(2), whole, 2)
        server.always = lambda handler: handler.part(length="9999")
        with pytest.raises(ArtifactError, match="it has 9,999 bytes, but its header says"):
            source.prefix(3)

    def test_compressed_answer_is_refused(self, server: web.Server) -> None:
        server.always = lambda handler: handler.answer(200, b"x", {"Content-Encoding": "gzip"})
        with pytest.raises(RemoteError, match="is sent compressed, although the request forbids it"):
            device.open(server.url)
        assert server.requests[0]["Accept-Encoding"] == "identity"

    @pytest.mark.parametrize("fault", [web.silent_for(0.6), web.stopping_for(0.6, after=3)], ids=["dead", "stops"])
    def test_silent_server_is_retried_and_then_given_up(
        self, server: web.Server, whole: Artifact, fault: web.Fault
    ) -> None:
        source = device.open(server.url, timeout=0.15)
        server.faults = [fault]
        check_prefix(source.prefix(1), whole, 1)
        server.always = web.silent_for(0.6)
        with pytest.raises(RemoteError, match=r"the server sent nothing for 0\.15 s, 4 times in a row"):
            source.prefix(2)

    def test_server_that_sends_slowly_for_ever_is_given_up(
        self, server: web.Server, whole: Artifact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also if each request brings more than the bytes after which failures are counted anew."""
        monkeypatch.setattr(http, "LEAST_BYTES", 10)
        strict = device.open(server.url, timeout=0.2, least_rate=1e5)
        patient = device.open(server.url, timeout=0.2, least_rate=0)
        server.always = web.slowly(12, pause=0.01)
        with pytest.raises(RemoteError, match=r"the server sent \d+ bytes in 0\.\d+ s, 4 times in a row\. Try again"):
            strict.prefix(6)
        check_prefix(patient.prefix(1), whole, 1)

    def test_refused_connection_is_an_error(self) -> None:
        with web.serving(b"") as server:
            url = server.url
        with pytest.raises(RemoteError, match=r"the connection failed \(.*refused\), 4 times in a row"):
            device.open(url)

    @pytest.mark.parametrize("url", ["http://", "http://[::1", "http://127.0.0.1:port/x", "http://a..b/x", "http:///x"])
    def test_address_that_is_not_valid_is_refused(self, url: str) -> None:
        with pytest.raises(RemoteError, match="is not the address of a file"):
            device.open(url)

    def test_address_with_special_characters_is_quoted(self, server: web.Server, whole: Artifact) -> None:
        check_prefix(device.open(server.url.replace("set", "süß es%20set")).prefix(1), whole, 1)

    def test_secrets_in_an_address_do_not_appear_in_errors(self, server: web.Server) -> None:
        server.always = web.with_status(403)
        with pytest.raises(RemoteError) as caught:
            device.open(f"{server.url}?key=secret")
        assert "secret" not in str(caught.value)
        assert server.url in str(caught.value)
        with pytest.raises(
            SettingError, match=r"^http://127\.0\.0\.1:1/x cannot be opened with a user name and a password"
        ):
            device.open("http://me:secret@127.0.0.1:1/x")
        with pytest.raises(RemoteError, match="answered 403"):
            device.open(f"{server.url.removesuffix('/set.safetensors')}?to=me@example.org")

    @pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
    def test_redirection_is_followed(self, server: web.Server, whole: Artifact, code: int) -> None:
        with web.serving(b"") as first:
            first.always = web.with_status(code, Location=server.url)
            check_prefix(device.open(first.url).prefix(2), whole, 2)
            assert len(first.requests) == 3
        assert server.sent == header_length(server.content) + 2 * RANK_BYTES

    def test_endless_redirection_and_other_protocols_are_refused(self, server: web.Server) -> None:
        server.always = web.with_status(302, Location=server.url)
        with pytest.raises(RemoteError, match="the server answered 302 ") as caught:
            device.open(server.url)
        assert "\n" not in str(caught.value)
        for other in ("ftp://127.0.0.1/x", "file:///etc/hostname"):
            server.always = web.with_status(302, Location=other)
            with pytest.raises(RemoteError, match=r"redirects to ftp, which is not followed|answered 302"):
                device.open(server.url)

    def test_redirection_from_https_to_http_is_refused(self) -> None:
        request = Request("https://example.org/set?key=1")
        with pytest.raises(
            RemoteError, match=r"^https://example\.org/set redirects to http, which is not followed\. Use the final"
        ):
            connections.SafeRedirects().redirect_request(request, None, 302, "", {}, "http://example.org/")  # type: ignore[arg-type]

    def test_certificate_that_is_not_trusted_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise URLError(ssl.SSLCertVerificationError("self-signed certificate"))

        monkeypatch.setattr(OpenerDirector, "open", refuse)
        with pytest.raises(RemoteError, match=r"cannot be trusted: .*self-signed certificate"):
            device.open("https://example.org/set")

    def test_control_characters_of_a_server_do_not_appear_in_errors(self, server: web.Server) -> None:
        words = b"HTTP/1.0 404 \x1b[2J" + b"no " * 1000 + b"\r\n\r\n"
        server.always = lambda handler: handler.wfile.write(words) > 0
        with pytest.raises(RemoteError, match="answered 404") as caught:
            device.open(server.url)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400

    def test_server_of_another_protocol_is_an_error(self, server: web.Server) -> None:
        server.always = web.saying(b"SSH-2.0-\x1b[2J" + b"x" * 10_000 + b"\r\n")
        with pytest.raises(RemoteError, match=r"SSH-2\.0.*4 times in a row\. Try again later") as caught:
            device.open(server.url)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400

    def test_more_bytes_than_requested_are_refused(self, server: web.Server, whole: Artifact) -> None:
        source = device.open(server.url)
        server.faults = [web.in_a_negative_chunk]
        check_prefix(source.prefix(2), whole, 2)
        server.always = web.in_a_negative_chunk
        with pytest.raises(RemoteError, match="the server sent more bytes than were requested, 4 times in a row"):
            source.prefix(3)

    def test_long_body_of_a_redirection_is_not_read(self, server: web.Server, whole: Artifact) -> None:
        source = device.open(server.url)
        tracemalloc.start()
        try:
            server.faults = [web.redirecting_at_length]
            check_prefix(source.prefix(2), whole, 2)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 5_000_000

    @pytest.mark.parametrize("words", [b"HTTP/1.1 100 Continue\r\n\r\n", b"X: y\r\n"], ids=["continue", "headers"])
    def test_endless_headers_are_given_up(self, server: web.Server, words: bytes) -> None:
        server.always = web.saying(b"HTTP/1.1 100 Continue\r\n" + words, pause=0.01, times=500)
        with pytest.raises(RemoteError, match=r"the server did not begin its answer within 0\.2 s, 4 times in a row"):
            device.open(server.url, timeout=0.1)

    def test_server_that_sends_one_byte_per_request_is_given_up(self, server: web.Server) -> None:
        source = device.open(server.url)
        server.always = web.closing_after(1)
        count = len(server.requests)
        with pytest.raises(RemoteError, match="closed early, 4 times in a row"):
            source.prefix(1)
        assert len(server.requests) - count == http.TRIES

    @pytest.mark.parametrize("name", ["Content-Encoding", "content-encoding"])
    @pytest.mark.parametrize("coding", ["Identity", "identity", "", " "])
    def test_identity_encoding_is_accepted(self, server: web.Server, whole: Artifact, name: str, coding: str) -> None:
        def answer(handler: web.Handler) -> bool:
            body = server.content[handler.start : handler.stop]
            place = f"Bytes {handler.start}-{handler.stop - 1}/{len(server.content)}"
            return handler.answer(206, body, {"Content-Range": place, name: coding})

        server.always = answer
        check_prefix(device.open(server.url).prefix(1), whole, 1)

    def test_proxy_of_another_protocol_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
        with pytest.raises(
            RemoteError, match=r"a proxy of kind socks5\. Name a proxy of kind http in http_proxy, or name the"
        ):
            device.open("http://example.org/set?key=1")

    def test_altered_image_from_a_server_is_refused(self, server: web.Server, whole: Artifact) -> None:
        content = bytearray(server.content)
        content[-1] ^= 1
        server.content = bytes(content)
        source = device.open(server.url)
        check_prefix(source.prefix(5), whole, 5)
        with pytest.raises(ArtifactError, match=r"^http://.* is damaged: image 6 of each class was altered"):
            source.prefix(6)
        check_prefix(source.prefix(5), whole, 5)

    def test_answer_that_is_not_a_complete_set_is_refused(self) -> None:
        for content in (b"", b"short", b"<html>not found</html>", GOLDEN.read_bytes()[:-1], GOLDEN.read_bytes() + b"x"):
            with web.serving(content) as server:
                for habit in (None, web.without_ranges):
                    server.always = habit
                    with pytest.raises(ArtifactError, match="is not a complete safetensors file"):
                        device.open(server.url)


def replaced(server: web.Server) -> None:
    """Another set of the same length and the same header length, with another tag."""
    server.content = noise_set(provenance={"dataset": "fakes"}).to_bytes()
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
    def test_replaced_file_is_noticed(
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
        with pytest.raises(ChangedError, match=r"^http://.* was changed after it was opened\. Open it again\.$"):
            subset.grow(3)
        check_prefix(subset, whole, 2)
        assert device.open(server.url).about.provenance == {"dataset": "fakes"}

    def test_changed_length_is_noticed_without_tags(self, server: web.Server, whole: Artifact) -> None:
        server.etag = None
        for shorter in (noise_set((7, *SHAPE[1:])), noise_set((1, *SHAPE[1:]), accuracy=())):
            server.content = whole.to_bytes()
            source = device.open(server.url)
            server.content = shorter.to_bytes()
            with pytest.raises(ChangedError):
                source.prefix(6)

    def test_replaced_file_without_tags_is_noticed_by_the_digests(self, server: web.Server) -> None:
        server.etag = None
        source = device.open(server.url)
        other = noise_set(images=255 - noise_set().images)
        server.content = other.to_bytes()
        with pytest.raises(ArtifactError, match="image 1 of each class was altered"):
            source.prefix(6)

    def test_file_replaced_between_two_requests_of_a_header_is_noticed(self, server: web.Server) -> None:
        server.faults = [web.then(lambda _: None), web.then(replaced)]
        with pytest.raises(ChangedError):
            device.open(server.url)

    @pytest.mark.parametrize("etag", [None, 'W/"first"'], ids=["no tag", "weak tag"])
    def test_header_is_never_mixed_from_two_versions(
        self, server: web.Server, monkeypatch: pytest.MonkeyPatch, etag: str | None
    ) -> None:
        """Half of one header and half of another are never taken for one."""
        other = noise_set(mean=(0.1,) * 3)
        content = other.to_bytes()
        server.etag = etag
        faults: list[web.Fault] = [web.closing_after(8), web.closing_after(900), web.at_most(900)]
        server.faults = [*faults, web.then(lambda _: setattr(server, "content", content))]
        monkeypatch.setattr("mipset.file.header.DIGEST", "unknown")  # as if it were an older file
        assert device.open(server.url).about == other.description
        assert [request["Range"].partition("-")[0] for request in server.requests] == ["bytes=0", *["bytes=8"] * 3]

    def test_header_that_always_arrives_in_parts_without_tags_is_given_up(self, server: web.Server) -> None:
        server.etag, server.always = None, web.at_most(http.LEAST_BYTES)
        with pytest.raises(RemoteError, match="arrived in parts that may be of several versions, 4 times in a row"):
            device.open(server.url)

    def test_file_replaced_after_a_lost_connection_is_noticed(self, server: web.Server) -> None:
        source = device.open(server.url)
        server.faults = [web.closing_after(RANK_BYTES + 5), web.then(replaced)]
        with pytest.raises(ChangedError):
            source.prefix(3)
        assert source.ranks_in_memory == 1
