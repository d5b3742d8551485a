"""A web server for one page that changes, for browsers on this machine only."""

from __future__ import annotations

import http.server
from collections.abc import Callable
from threading import Lock

LOOPBACK = "127.0.0.1"


class PageServer(http.server.ThreadingHTTPServer):
    """Serves a page on the loopback address, under `/`, and its version under `/version`.

    `version` tells in a moment which page there is now, and `render` makes the page of a version: it is called once for
    each version that somebody asks for. Requests that name another host are refused, so that no web site can read the
    page through a browser on this machine.
    """

    daemon_threads = True

    def __init__(self, port: int, version: Callable[[], str], render: Callable[[str], bytes]) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self._version, self._render = version, render
        self._lock, self._page = Lock(), b""
        self._rendered: str | None = None  # the version of the page

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/"

    @property
    def hosts(self) -> set[str]:
        """What a browser on this machine names as the host."""
        return {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    def page(self) -> bytes:
        """The page of the present version."""
        with self._lock:
            version = self._version()
            if version != self._rendered:
                self._page, self._rendered = self._render(version), version
            return self._page

    def version(self) -> bytes:
        return self._version().encode()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser may close the connection early: that is not reported."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PageServer

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not printed."""

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            self._answer(403, b"This page is for browsers on the same machine.", "text/plain")
        elif self.path == "/":
            self._answer(200, self.server.page(), "text/html")
        elif self.path == "/version":
            self._answer(200, self.server.version(), "text/plain")
        else:
            self._answer(404, b"There is only one page here.", "text/plain")

    def _answer(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)
