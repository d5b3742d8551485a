"""A local web server that answers requests for byte ranges and counts the bytes that it sends."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class CountingServer(ThreadingHTTPServer):
    """Serves the files of a folder. `sent` is the number of bytes of images and headers sent so far."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), RangeHandler)
        self.folder, self.sent = folder, 0

    def url(self, name: str) -> str:
        """The URL of a file in the folder."""
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class RangeHandler(BaseHTTPRequestHandler):
    """Answers `Range: bytes=FIRST-LAST`. A device sends no other kind of request."""

    server: CountingServer

    def do_GET(self) -> None:
        content = (self.server.folder / self.path.lstrip("/")).read_bytes()
        first, last = map(int, re.findall(r"\d+", self.headers["Range"]))
        body = content[first : last + 1]
        self.server.sent += len(body)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the output of the example stays readable."""


@contextmanager
def serving(folder: Path) -> Iterator[CountingServer]:
    """A server that runs until the `with` block ends."""
    with CountingServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
