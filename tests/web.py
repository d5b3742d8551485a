"""A web server for tests. It obeys the rules of HTTP, counts the bytes that it sends, and fails on demand."""

from __future__ import annotations

import http.server
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Fault = Callable[["Handler"], bool]
"""Handles a request in its own way. It returns whether the request is finished."""


class Server(http.server.ThreadingHTTPServer):
    """Serves one file under every path that `others` does not have.

    Each request for it uses up one of the faults; then `always` counts.
    """

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.etag: str | None = '"first"'
        self.modified: str | None = None
        self.conditional = True  # whether it obeys If-Match and If-Unmodified-Since
        self.others: dict[str, bytes] = {}  # other files, by their path
        self.faults: list[Fault] = []
        self.always: Fault | None = None
        self.sent = 0  # bytes of bodies
        self.requests: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/set.safetensors"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client may close the connection early: that is not reported."""


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    start: int  # of the requested bytes
    stop: int

    def log_message(self, format: str, *args: object) -> None:
        """Tests are silent."""

    def do_GET(self) -> None:
        server = self.server
        server.requests.append({name.title(): value for name, value in self.headers.items()})
        if self.path in server.others:
            self.answer(200, server.others[self.path])
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        self.start = int(asked[1]) if asked else 0
        self.stop = int(asked[2]) + 1 if asked and asked[2] else len(server.content)
        fault = server.faults.pop(0) if server.faults else server.always
        if fault is not None and fault(self):
            return
        if server.conditional and not self._meets_conditions():
            self.answer(412)
        elif self.start >= len(server.content):
            self.answer(416, headers={"Content-Range": f"bytes */{len(server.content)}"})
        else:
            self.part()

    def _meets_conditions(self) -> bool:
        tag, date = self.headers.get("If-Match"), self.headers.get("If-Unmodified-Since")
        return tag in (None, self.server.etag) and date in (None, self.server.modified)

    def part(self, most: int | None = None, claimed: str | None = None, length: str | None = None) -> bool:
        """206 with the requested bytes, or at most so many of them; `claimed` replaces the true Content-Range."""
        body = self.server.content[self.start : self.stop][:most]
        whole = length or str(len(self.server.content))
        named = claimed or f"bytes {self.start}-{self.start + len(body) - 1}/{whole}"
        return self.answer(206, body, {"Content-Range": named})

    def answer(
        self, code: int, body: bytes = b"", headers: dict[str, str] | None = None, length: int | None = None
    ) -> bool:
        """One answer. If `length` is more than the body has, the rest never arrives."""
        self.send_response(code)
        validators = {"ETag": self.server.etag, "Last-Modified": self.server.modified}
        named = {"Content-Length": str(len(body) if length is None else length), **validators, **(headers or {})}
        for name, value in named.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.send(body)
        return True

    def send(self, body: bytes) -> None:
        self.server.sent += len(body)
        self.wfile.write(body)


def without_ranges(handler: Handler) -> bool:
    """200 with the whole file, without regard to ranges."""
    return handler.answer(200, handler.server.content)


def in_chunks(handler: Handler) -> bool:
    """200 with the whole file in chunks, without its length."""
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.send_header("Connection", "close")
    handler.end_headers()
    for first in range(0, len(handler.server.content), 1000):
        chunk = handler.server.content[first : first + 1000]
        handler.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
    handler.wfile.write(b"0\r\n\r\n")
    return True


def until_closed(handler: Handler) -> bool:
    """200 without a length: the body ends when the connection is closed."""
    handler.send_response(200)
    handler.end_headers()
    handler.send(handler.server.content)
    return True


def in_a_negative_chunk(handler: Handler) -> bool:
    """206 with the rest of the file, in a chunk of negative length."""
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(206)
    for name, value in {
        "Content-Range": f"bytes {handler.start}-{handler.stop - 1}/{len(handler.server.content)}",
        "Transfer-Encoding": "chunked",
        "Connection": "close",
    }.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(b"-5\r\n" + handler.server.content[handler.start :] + b"\r\n0\r\n\r\n")
    return True


def redirecting_at_length(handler: Handler) -> bool:
    """A redirection to the same address with a body of 32 MB."""
    handler.answer(302, headers={"Location": handler.server.url}, length=1 << 25)
    for _ in range(1 << 9):
        handler.send(bytes(1 << 16))
    return True


def saying(words: bytes, pause: float = 0.0, times: int = 1) -> Fault:
    """Send these bytes `times` times, with pauses."""

    def fault(handler: Handler) -> bool:
        for _ in range(times):
            handler.wfile.write(words)
            time.sleep(pause)
        return True

    return fault


def hanging_up(handler: Handler) -> bool:
    """Close the connection without an answer."""
    handler.close_connection = True
    return True


def closing_after(count: int) -> Fault:
    """Announce all requested bytes, and close the connection after `count` of them."""

    def fault(handler: Handler) -> bool:
        content = handler.server.content
        stop = min(handler.stop, len(content))
        claimed = {"Content-Range": f"bytes {handler.start}-{stop - 1}/{len(content)}"}
        return handler.answer(206, content[handler.start : stop][:count], claimed, stop - handler.start)

    return fault


def closing_whole_after(count: int) -> Fault:
    """The same by a server without ranges."""
    return lambda handler: handler.answer(200, handler.server.content[:count], length=len(handler.server.content))


def at_most(count: int) -> Fault:
    """A correct answer with only a part of the requested bytes."""
    return lambda handler: handler.part(count)


def claiming(text: str) -> Fault:
    """The requested bytes with another Content-Range."""
    return lambda handler: handler.part(claimed=text)


def with_status(code: int, **headers: str) -> Fault:
    """An answer without a body."""
    return lambda handler: handler.answer(code, headers=headers)


def silent_for(seconds: float) -> Fault:
    """Wait, then answer correctly."""
    return then(lambda _: time.sleep(seconds))


def stopping_for(seconds: float, after: int) -> Fault:
    """Send the first bytes, then wait."""

    def fault(handler: Handler) -> bool:
        closing_after(after)(handler)
        time.sleep(seconds)
        return True

    return fault


def slowly(count: int, pause: float) -> Fault:
    """The requested bytes, `count` of them at a time, with pauses."""

    def fault(handler: Handler) -> bool:
        body = handler.server.content[handler.start : handler.stop]
        closing_after(0)(handler)
        for first in range(0, len(body), count):
            handler.send(body[first : first + count])
            time.sleep(pause)
        return True

    return fault


def then(change: Callable[[Server], object]) -> Fault:
    """Change the server, then answer correctly."""

    def fault(handler: Handler) -> bool:
        change(handler.server)
        return False

    return fault


@contextmanager
def serving(content: bytes) -> Iterator[Server]:
    """A running server of this content."""
    with Server(content) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
