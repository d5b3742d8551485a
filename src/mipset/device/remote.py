"""A file on a server, read in ranges of bytes over HTTP or HTTPS.

Every answer is checked to be the part that was asked for, of the file that was opened. What may pass (a lost
connection, an overloaded server) is tried again from where it stopped. How long a body may take is not limited as long
as it goes on: a slow connection looks like that too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse, InvalidURL
from ssl import SSLCertVerificationError
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request

from mipset import __version__
from mipset.device.connections import FailedError, opener, without_secrets
from mipset.device.places import BLOCK
from mipset.errors import ArtifactError, ChangedError, MipsetError, RemoteError, SettingError, printable

TRIES = 4  # in a row that bring next to nothing
LEAST = 1000  # bytes that are more than that
PAUSE = 0.5  # seconds before the second try; twice as long before each further one
PASSING = (408, 429)  # beside 5xx: answers that may be another one the next time
PASSING_ERRORS = (FailedError, OSError, HTTPException)


class Remote:
    """A file at an address. A server that is silent for `timeout` seconds is not waited for any longer."""

    def __init__(self, url: str, timeout: float) -> None:
        self.name = without_secrets(url)
        if "@" in re.split("[/?#]", url.partition("//")[2])[0]:
            raise SettingError(f"{self.name} cannot be opened with a name and a password: leave them out.")
        self._url = quote(url, safe="!#$%&'()*+,/:;=?@[]~")
        self._timeout = timeout
        self._opener = opener()
        self._seen: dict[str, str | int] = {}  # by what versions of the file can be told apart

    @property
    def length(self) -> int | None:
        found = self._seen.get("length")
        return found if isinstance(found, int) else None

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        return (block for _, block in self._coming(start, stop, one_version=False))

    def piece(self, start: int, stop: int, tell: Callable[[int], object]) -> bytes:
        content = bytearray()
        for place, block in self._coming(start, stop, one_version=True):
            content[place - start :] = block
            tell(len(content))
        return bytes(content)

    def _coming(self, start: int, stop: int, one_version: bool) -> Iterator[tuple[int, bytes]]:
        """Blocks and their places, in order; or from the first again, if all have to be of one version of the file and
        the server says nothing by which several answers are known to be."""
        patience, place = _Patience(self.name, self._timeout), start
        while place < stop:
            first = place
            try:
                for block in self._answer(place, stop):
                    yield place, block
                    place += len(block)
                if place < stop and one_version and not self._conditions():
                    raise FailedError("its description came in parts that may be of several versions")
            except PASSING_ERRORS as error:
                anew = one_version and not self._conditions()
                patience.wear(error, 0 if anew else place - first)
                place = start if anew else place

    def _answer(self, start: int, stop: int) -> Iterator[bytes]:
        """What one request brings of the bytes from `start` up to `stop`: perhaps not all, and empty blocks before."""
        self._refuse_beyond(stop)
        with self._request(start, stop) as answer:
            if answer.headers.get("Content-Encoding", "").strip().lower() not in ("", "identity"):
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
            error.close()
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
        found = re.fullmatch(r"(?i:bytes) (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", claimed)
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
            found = re.fullmatch(r"(?i:bytes) \*/(\d{1,19})", error.headers.get("Content-Range") or "")
            length = int(found[1]) if found else None
            known = self._seen.get("length", length)
            return self._too_short(length, stop) if known == length else self._changed()
        sentence = self._said(error.code, error.reason)
        if error.code >= 500 or error.code in PASSING:
            return FailedError(sentence)
        return RemoteError(f"{sentence}: check the address.")

    def _said(self, code: int, reason: str) -> str:
        words = printable(" ".join(reason[:200].split()))
        return f"the server answered {f'{code} {words}'.strip()} to {self.name}"

    def _changed(self) -> MipsetError:
        return ChangedError(f"{self.name} was changed since it was opened: open it again.")

    def _too_short(self, length: int | None, stop: int) -> MipsetError:
        end = "early" if length is None else f"after {length:,} of {stop:,} bytes"
        return ArtifactError(f"{self.name} is not a whole safetensors file (it ends {end}): publish it again.")


class _Patience:
    """Counts tries in a row that brought next to nothing, pauses after each, and ends after the last."""

    def __init__(self, name: str, timeout: float) -> None:
        self._name, self._timeout = name, timeout
        self._failures = 0

    def wear(self, error: Exception, brought: int) -> None:
        """A try failed with this error after it had brought so many bytes."""
        self._failures = 1 if brought >= LEAST else self._failures + 1
        if self._failures == TRIES:
            reason = _reason(error, self._timeout)
            raise RemoteError(
                f"{self._name} could not be read: {reason}, {TRIES} times in a row; try again later."
            ) from error
        time.sleep(PAUSE * 2 ** (self._failures - 1))


def _body(answer: HTTPResponse, length: int) -> Iterator[bytes]:
    """The first `length` bytes of an answer, as they come."""
    while length > 0:
        block = answer.read1(min(BLOCK, length))
        if not block:
            raise FailedError("the connection was closed early")
        if len(block) > length:
            raise FailedError("more came than was asked for")
        length -= len(block)
        yield block


def _reason(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"the server was silent for {timeout:g} s"
    if isinstance(error, FailedError):
        return str(error)
    return f"the connection failed ({printable(str(cause)[:200]) or type(cause).__name__})"
