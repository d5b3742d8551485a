"""Connections to web servers: with time limits, through proxies, and with safe redirections only."""

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
    """A request that failed, but may succeed when it is sent again."""


def opener() -> OpenerDirector:
    """An opener of http and https addresses, and of no others."""
    director = OpenerDirector()
    for handler in (
        *(HttpProxies(), _TimedHTTPHandler(), _TimedHTTPSHandler()),
        *(HTTPDefaultErrorHandler(), SafeRedirects(), HTTPErrorProcessor()),
    ):
        director.add_handler(handler)
    return director


def without_secrets(url: str) -> str:
    """An address as messages show it: without the password and the query, which may be secret."""
    return re.sub(r"(?<=//)[^/]*@", "", url.partition("?")[0])


class _TimedConnection(HTTPConnection):
    """Closes the connection if the body of the answer has not begun after twice the timeout.

    The timeout of a socket limits the silence between bytes. A server that sends endless headers would not reach it.
    """

    def getresponse(self) -> HTTPResponse:
        seconds, expired = 2 * (self.timeout or 0.0), Event()
        timer = Timer(seconds, _hang_up, (self.sock, expired))
        timer.start()
        try:
            answer = super().getresponse()
            if expired.is_set():
                raise HTTPException
        except (OSError, HTTPException) as error:
            if expired.is_set():
                raise FailedError(f"the server did not begin its answer within {seconds:g} s") from error
            raise
        finally:
            timer.cancel()
        return answer


class _TimedSecureConnection(_TimedConnection, HTTPSConnection):
    """The same with TLS."""


def _hang_up(connection: socket.socket, expired: Event) -> None:
    expired.set()
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _TimedHTTPHandler(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_TimedConnection, req)


class _TimedHTTPSHandler(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_TimedSecureConnection, req)


class HttpProxies(ProxyHandler):
    """Uses the proxies that the environment names, if they speak HTTP."""

    def proxy_open(self, req: Request, proxy: str, type: str) -> HTTPResponse | None:
        kind = proxy.partition("://")[0].lower() if "://" in proxy else WEB[0]
        if kind not in WEB and not proxy_bypass(req.host):
            raise RemoteError(
                f"{without_secrets(req.full_url)} cannot be reached through a proxy of kind {kind}. Name a proxy of "
                f"kind http in {type}_proxy, or name the server in no_proxy."
            )
        return super().proxy_open(req, proxy, type)


class SafeRedirects(HTTPRedirectHandler):
    """Follows redirections to http and https, but not from https to http, which anybody could answer."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: object, newurl: str
    ) -> Request | None:
        kind = newurl.partition(":")[0].lower()
        if kind not in WEB or (kind == "http" and req.type == "https"):
            raise RemoteError(
                f"{without_secrets(req.full_url)} redirects to {kind}, which is not followed. Use the final address."
            )
        fp.close()  # the body of a redirection is not read, however long it is
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
