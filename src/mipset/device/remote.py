"""A file on a server, read in ranges of bytes over HTTP or HTTPS.

Every answer is checked to be the part that was asked for, of the file that was opened. What may pass (a lost
connection, an overloaded server) is tried again from where it stopped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse, InvalidURL
from ssl import SSLCertVerificationError
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from mipset import __version__
from mipset.device.places import BLOCK
from mipset.errors import ArtifactError, ChangedError, MipsetError, RemoteError, SettingError

TRIES = 4  # in a row that bring nothing
PAUSE = 0.5  # seconds before the second try; twice as long before each further one
PASSING = (408, 429)  # beside 5xx: answers that may be another one the next time


class _FailedError(Exception):
    """A try that did not go well, though the next one may."""


class Remote:
    """A file at an address. A server that is silent for `timeout` seconds is not waited for any longer."""

    def __init__(self, url: str, timeout: float) -> None:
        self.name = _without_secrets(url)
        if "@" in url.partition("//")[2].partition("/")[0]:
            raise SettingError(f"{self.name} cannot be opened with a name and a password: leave them out.")
        self._url = quote(url, safe="!#$%&'()*+,/:;=?@[]~")
        self._timeout = timeout
        self._opener = _opener()
        self._seen: dict[str, str | int] = {}  # by what versions of the file can be told apart

    @property
    def length(self) -> int | None:
        found = self._seen.get("length")
        return found if isinstance(found, int) else None

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        failures = 0
        while start < stop:
            try:
                for block in filter(None, self._answer(start, stop)):
                    start += len(block)
                    failures = 0
                    yield block
            except (_FailedError, OSError, HTTPException) as error:
                failures += 1
                if failures == TRIES:
                    raise RemoteError(
                        f"{self.name} could not be read: {_reason(error, self._timeout)}, {TRIES} times in a row; "
                        "what had arrived is kept, so try again later."
                    ) from error
                time.sleep(PAUSE * 2 ** (failures - 1))

    def _answer(self, start: int, stop: int) -> Iterator[bytes]:
        """What one request brings of the bytes from `start` up to `stop`: perhaps not all."""
        self._refuse_beyond(stop)
        with self._request(start, stop) as answer:
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise RemoteError(f"the server sends {self.name} compressed, though it was asked not to.")
            if answer.status == 206:
                first, end, length = self._range(answer, start, stop)
            elif answer.status == 200:  # the server does not know ranges: all that comes before has to pass by
                first, end, length = 0, stop, answer.length
            else:
                raise RemoteError(f"{self._said(answer.status, answer.reason)}, which is no file.")
            self._compare(answer, length)
            self._refuse_beyond(stop)
            before = start - first
            for block in _body(answer, end - first):
                yield block[before:]
                before = max(0, before - len(block))

    def _request(self, start: int, stop: int) -> HTTPResponse:
        headers = {
            "Range": f"bytes={start}-{stop - 1}",
            "Accept-Encoding": "identity",  # ranges of what is sent would not be ranges of the file
            "User-Agent": f"mipset/{__version__}",
            **self._conditions(),
        }
        try:
            answer: HTTPResponse = self._opener.open(Request(self._url, headers=headers), timeout=self._timeout)
        except HTTPError as error:
            with error:
                raise self._refusal(error, stop) from error
        except (InvalidURL, ValueError) as error:
            raise RemoteError(f"{self.name} is no address of a file.") from error
        except URLError as error:
            if isinstance(error.reason, str):
                raise RemoteError(f"{self.name} is no address of a file: {error.reason}.") from error
            if isinstance(error.reason, SSLCertVerificationError):
                raise RemoteError(f"the server of {self.name} cannot be trusted: {error.reason}.") from error
            raise
        return answer

    def _conditions(self) -> dict[str, str]:
        """Ask for the version that was opened, and for nothing if there is another."""
        tag, date = self._seen.get("ETag"), self._seen.get("Last-Modified")
        if isinstance(tag, str) and not tag.startswith("W/"):  # a weak tag cannot be asked for
            return {"If-Match": tag}
        return {"If-Unmodified-Since": date} if isinstance(date, str) else {}

    def _range(self, answer: HTTPResponse, start: int, stop: int) -> tuple[int, int, int | None]:
        """First byte, end and whole length that an answer claims; only part of what was asked for is no error."""
        claimed = answer.headers.get("Content-Range", "")
        found = re.fullmatch(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", claimed)
        if found is None or int(found[1]) != start or not start <= int(found[2]) < stop:
            raise RemoteError(
                f"the server of {self.name} was asked for the bytes {start}-{stop - 1} and answered "
                f"{claimed[:80]!r}: fetch the file in another way."
            )
        return start, int(found[2]) + 1, None if found[3] == "*" else int(found[3])

    def _compare(self, answer: HTTPResponse, length: int | None) -> None:
        """Refuse another version of the file than the one that was seen before."""
        found: dict[str, str | int | None] = {
            "ETag": answer.headers.get("ETag"),
            "Last-Modified": answer.headers.get("Last-Modified"),
            "length": length,
        }
        for name, value in found.items():
            if value is not None and self._seen.setdefault(name, value) != value:
                raise self._changed()

    def _refuse_beyond(self, stop: int) -> None:
        """Nothing is asked for that the file is known not to have."""
        if self.length is not None and self.length < stop:
            raise self._too_short(self.length, stop)

    def _refusal(self, error: HTTPError, stop: int) -> Exception:
        if error.code == 412:
            return self._changed()
        if error.code == 416:
            found = re.fullmatch(r"bytes \*/(\d{1,19})", error.headers.get("Content-Range") or "")
            length = int(found[1]) if found else None
            known = self._seen.get("length", length)
            return self._too_short(length, stop) if known == length else self._changed()
        sentence = self._said(error.code, error.reason)
        if error.code >= 500 or error.code in PASSING:
            return _FailedError(sentence)
        return RemoteError(f"{sentence}: check the address.")

    def _said(self, code: int, reason: str) -> str:
        words = "".join(c if c.isprintable() else " " for c in reason[:200])  # nothing that a terminal obeys
        return f"the server answered {' '.join([str(code), *words.split()])} to {self.name}"

    def _changed(self) -> MipsetError:
        return ChangedError(f"{self.name} was changed since it was opened: open it again.")

    def _too_short(self, length: int | None, stop: int) -> MipsetError:
        end = "early" if length is None else f"after {length:,} of {stop:,} bytes"
        return ArtifactError(f"{self.name} is not a whole safetensors file (it ends {end}): publish it again.")


class _SafeRedirects(HTTPRedirectHandler):
    """Follows a redirection to another web server, but not to one that anybody on the way could be."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: object, newurl: str
    ) -> Request | None:
        kind = newurl.partition(":")[0].lower()
        if kind != "https" and (kind != "http" or req.type == "https"):
            raise RemoteError(f"{_without_secrets(req.full_url)} leads to {kind}, which is not followed.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _without_secrets(url: str) -> str:
    """An address as messages show it: passwords and keys in it are nobody's business."""
    return re.sub(r"(?<=//)[^/]*@", "", url.partition("?")[0])


def _opener() -> OpenerDirector:
    """What opens addresses of web servers, and of nothing else."""
    opener = OpenerDirector()
    for handler in (
        *(ProxyHandler(), HTTPHandler(), HTTPSHandler()),
        *(HTTPDefaultErrorHandler(), _SafeRedirects(), HTTPErrorProcessor()),
    ):
        opener.add_handler(handler)
    return opener


def _body(answer: HTTPResponse, length: int) -> Iterator[bytes]:
    """The first `length` bytes of an answer, as they come."""
    while length > 0:
        block = answer.read1(min(BLOCK, length))
        if not block:
            raise _FailedError("the connection was closed early")
        length -= len(block)
        yield block


def _reason(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"the server was silent for {timeout:g} s"
    if isinstance(error, _FailedError):
        return str(error)
    return f"the connection failed ({cause or type(cause).__name__})"
