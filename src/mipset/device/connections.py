"""Connections to web servers, and to nothing else: in time, through proxies, and along redirections that are safe."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event, Timer
from typing import IO
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    proxy_bypass,
)

from mipset.errors import RemoteError

WEB = ("http", "https")


class FailedError(Exception):
    """A try that did not go well, though the next one may."""


def opener() -> OpenerDirector:
    """What opens addresses of web servers."""
    found = OpenerDirector()
    for handler in (
        *(_Proxies(), _Punctual(), _PunctualAndSecure()),
        *(HTTPDefaultErrorHandler(), _SafeRedirects(), HTTPErrorProcessor()),
    ):
        found.add_handler(handler)
    return found


def without_secrets(url: str) -> str:
    """An address as messages show it: passwords and keys in it are nobody's business."""
    return re.sub(r"(?<=//)[^/]*@", "", url.partition("?")[0])


class _Connection(HTTPConnection):
    """Hangs up on a server that keeps talking without ever coming to the body of its answer."""

    def getresponse(self) -> HTTPResponse:
        seconds, late = 2 * (self.timeout or 0.0), Event()
        watch = Timer(seconds, _hang_up, (self.sock, late))
        watch.start()
        try:
            answer = super().getresponse()
            if late.is_set():
                raise HTTPException
        except (OSError, HTTPException) as error:
            if late.is_set():
                raise FailedError(f"no answer had begun after {seconds:g} s") from error
            raise
        finally:
            watch.cancel()
        return answer


class _SecureConnection(_Connection, HTTPSConnection):
    """The same with TLS."""


def _hang_up(line: socket.socket, late: Event) -> None:
    late.set()
    with suppress(OSError):
        socket.socket.shutdown(line, socket.SHUT_RDWR)


class _Punctual(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _PunctualAndSecure(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req)


class _Proxies(ProxyHandler):
    """Those that the environment names, if they speak HTTP."""

    def proxy_open(self, req: Request, proxy: str, type: str) -> HTTPResponse | None:
        kind = proxy.partition("://")[0].lower() if "://" in proxy else WEB[0]
        if kind not in WEB and not proxy_bypass(req.host):
            raise RemoteError(
                f"{without_secrets(req.full_url)} cannot be reached through a proxy of kind {kind}: "
                f"name one of kind http in {type}_proxy, or the server in no_proxy."
            )
        return super().proxy_open(req, proxy, type)


class _SafeRedirects(HTTPRedirectHandler):
    """Follows a redirection to another web server, but not to one that anybody on the way could be."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: object, newurl: str
    ) -> Request | None:
        kind = newurl.partition(":")[0].lower()
        if kind not in WEB or (kind == "http" and req.type == "https"):
            raise RemoteError(f"{without_secrets(req.full_url)} leads to {kind}, which is not followed.")
        fp.close()  # what the body says is not read, however long it is
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
