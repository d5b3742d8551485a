"""The HTTP client: reads a file on a server whole or in ranges of bytes, over HTTP or HTTPS.

Every answer is checked: it must be the range that was requested, of the file that was opened. After a lost connection
or a temporary error of the server, the request is sent again from the byte where it stopped. The total time of a body
is not limited as long as bytes arrive, and not too slowly.
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
from mipset.errors import ChangedError, MipsetError, RemoteError, SettingError, printable
from mipset.io import LEAST_RATE
from mipset.io.connections import FailedError, opener, without_secrets

TRIES = 4  # failures in a row, after which it gives up
LEAST_BYTES = 1000  # a request that brought fewer bytes counts as failed in a row with the one before
PAUSE = 0.5  # seconds before the second try; twice as long before each further one
BLOCK = 1 << 16  # bytes that are read at once
TEMPORARY = (408, 429)  # beside 5xx: status codes after which a second try may succeed
TEMPORARY_ERRORS = (FailedError, OSError, HTTPException)


class WebFile:
    """A file at an address.

    A server counts as failed that sends nothing for `timeout` seconds, or that sends fewer than `least_rate` bytes per
    second over `timeout` seconds or more. `any_encoding` accepts a server that labels the file itself as compressed, as
    some do with .gz files.
    """

    def __init__(self, url: str, timeout: float, *, least_rate: float = LEAST_RATE, any_encoding: bool = False) -> None:
        self.name = without_secrets(url)
        if "@" in re.split("[/?#]", url.partition("//")[2])[0]:
            raise SettingError(f"{self.name} cannot be opened with a user name and a password. Leave them out.")
        self._url = quote(url, safe="!#$%&'()*+,/:;=?@[]~")
        self._timeout, self._least_rate, self._any_encoding = timeout, least_rate, any_encoding
        self._opener = opener()
        self._version: dict[str, str | int] = {}  # what the server says about the version of the file
        self.moved = 0  # bytes of the file that have arrived, also those that were not requested
        self.ranges: bool | None = None  # whether the server sends ranges of bytes; None until an answer has told it

    @property
    def length(self) -> int | None:
        """How many bytes the file has, once an answer has told it."""
        length = self._version.get("length")
        return length if isinstance(length, int) else None

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes from `start` up to `stop`, in order, as they arrive. Empty blocks mean that others pass by."""
        return (block for _, block in self._arriving(start, stop, one_version=False))

    def piece(self, start: int, stop: int, arrived: Callable[[int], object]) -> bytes:
        """The same at once, of one version of the file; `arrived` is called with the number of bytes so far."""
        content = bytearray()
        for place, block in self._arriving(start, stop, one_version=True):
            content[place - start :] = block
            arrived(len(content))
        return bytes(content)

    def whole(self) -> Iterator[tuple[int, bytes]]:
        """The whole file, of one version: blocks and their places, in order; a place of 0 begins again."""
        return self._arriving(0, None, one_version=True)

    def too_short(self, length: int | None, stop: int | None) -> MipsetError:
        """The error for a file of `length` bytes, of which `stop` were requested; None is unknown."""
        end = "early" if length is None or stop is None else f"after {length:,} of {stop:,} bytes"
        return RemoteError(f"{self.name} ends {end}. Try again later.")

    def _arriving(self, start: int, stop: int | None, one_version: bool) -> Iterator[tuple[int, bytes]]:
        """Blocks and their places, in order.

        They begin again at `start` if all must be of one version of the file, but the server sends nothing that
        identifies the version.
        """
        retries, place = _Retries(self.name, self._timeout), start
        while True:
            stop = self.length if stop is None else stop  # the first answer may have told the length
            if stop is not None and place >= stop:
                return
            first = place
            try:
                for block in self._answer(place, stop):
                    yield place, block
                    place += len(block)
                if stop is None and self.length is None:
                    return
                if stop is not None and place < stop and one_version and not self._conditions():
                    raise FailedError("the file arrived in parts that may be of several versions")
            except TEMPORARY_ERRORS as error:
                restart = one_version and not self._conditions()
                retries.wait_after(error, 0 if restart else place - first)
                place = start if restart else place

    def _answer(self, start: int, stop: int | None) -> Iterator[bytes]:
        """What one request brings of the bytes from `start` up to `stop`: maybe not all, maybe empty blocks first."""
        self._refuse_beyond(stop)
        with self._request(start, stop) as answer:
            encoding = answer.headers.get("Content-Encoding", "").strip().lower()
            if encoding not in ("", "identity") and not self._any_encoding:
                raise RemoteError(
                    f"{self.name} is sent compressed, although the request forbids it. Change the settings of the "
                    "server, or download the file with another program."
                )
            end: int | None
            if answer.status == 206:
                first, end, length = self._range(answer, start, stop)
            elif answer.status == 200:  # the server ignores ranges, so the bytes before `start` must pass by
                first, length = 0, answer.length
                end = length if stop is None else stop
            else:
                status = _status(answer.status, answer.reason)
                raise RemoteError(f"{self.name} cannot be read: the server answered {status}, which is not a file.")
            self._compare(answer, length)
            self._refuse_beyond(stop)
            if start or stop is not None:
                self.ranges = answer.status == 206
            before = start - first
            for block in self._quick(_body(answer, None if end is None else end - first)):
                yield block[before:]
                before = max(0, before - len(block))

    def _quick(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The same blocks, as long as the server sends them fast enough. Only the time of waiting for it counts."""
        waited, arrived = 0.0, 0
        while True:
            start = time.monotonic()
            block = next(blocks, None)
            waited += time.monotonic() - start
            if block is None:
                return
            arrived += len(block)
            self.moved += len(block)
            if waited >= self._timeout:
                if arrived < self._least_rate * waited:
                    raise SlowError(f"the server sent {arrived} bytes in {waited:.3g} s")
                waited, arrived = 0.0, 0
            yield block

    def _request(self, start: int, stop: int | None) -> HTTPResponse:
        headers = {
            "Accept-Encoding": "identity",  # ranges of compressed bytes would not be ranges of the file
            "User-Agent": f"mipset/{__version__}",
            **self._conditions(),
        }
        if stop is not None or start:
            headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        try:
            answer: HTTPResponse = self._opener.open(Request(self._url, headers=headers), timeout=self._timeout)
        except HTTPError as error:
            error.close()
            raise self._refusal(error, stop) from error
        except (InvalidURL, ValueError) as error:
            raise RemoteError(f"{self.name} is not the address of a file. Check the address.") from error
        except URLError as error:
            if isinstance(error.reason, str):
                raise RemoteError(f"{self.name} is not the address of a file: {error.reason}.") from error
            if isinstance(error.reason, SSLCertVerificationError):
                raise RemoteError(f"{self.name} cannot be trusted: {error.reason}.") from error
            raise
        return answer

    def _conditions(self) -> dict[str, str]:
        """Headers that request the version that was opened, so that the server refuses to send another one."""
        tag, date = self._version.get("ETag"), self._version.get("Last-Modified")
        if isinstance(tag, str) and not tag.startswith("W/"):  # If-Match does not allow weak tags
            return {"If-Match": tag}
        return {"If-Unmodified-Since": date} if isinstance(date, str) else {}

    def _range(self, answer: HTTPResponse, start: int, stop: int | None) -> tuple[int, int, int | None]:
        """First byte, end and whole length that an answer claims; it may be a part of what was requested."""
        claimed = answer.headers.get("Content-Range", "")
        match = re.fullmatch(r"(?i:bytes) (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", claimed)
        last = int(match[2]) if match else -1
        if match is None or int(match[1]) != start or last < start or (stop is not None and last >= stop):
            requested = f"{start}-{'' if stop is None else stop - 1}"
            raise RemoteError(
                f"{self.name} cannot be read: the request was for the bytes {requested}, and the server answered "
                f"{claimed[:80]!r}. Download the file with another program."
            )
        return start, last + 1, None if match[3] == "*" else int(match[3])

    def _compare(self, answer: HTTPResponse, length: int | None) -> None:
        """Refuse another version of the file than that of the first answer."""
        version: dict[str, str | int | None] = {
            "ETag": answer.headers.get("ETag"),
            "Last-Modified": answer.headers.get("Last-Modified"),
            "length": length,
        }
        for name, value in version.items():
            if value is not None and self._version.setdefault(name, value) != value:
                raise self._changed()

    def _refuse_beyond(self, stop: int | None) -> None:
        """Do not request bytes beyond the end of the file, once its length is known."""
        if self.length is not None and stop is not None and self.length < stop:
            raise self.too_short(self.length, stop)

    def _refusal(self, error: HTTPError, stop: int | None) -> Exception:
        if error.code == 412:
            return self._changed()
        if error.code == 416:
            match = re.fullmatch(r"(?i:bytes) \*/(\d{1,19})", error.headers.get("Content-Range") or "")
            length = int(match[1]) if match else None
            same_version = self._version.get("length", length) == length
            return self.too_short(length, stop) if same_version else self._changed()
        answered = f"the server answered {_status(error.code, error.reason)}"
        if error.code >= 500 or error.code in TEMPORARY:
            return FailedError(answered)
        return RemoteError(f"{self.name} cannot be read: {answered}. Check the address.")

    def _changed(self) -> MipsetError:
        return ChangedError(f"{self.name} was changed after it was opened. Open it again.")


class SlowError(FailedError):
    """A server that sends too slowly. How much it has sent does not matter: it might go on like that for ever."""


class _Retries:
    """Counts failures in a row, pauses after each, and gives up after the last."""

    def __init__(self, name: str, timeout: float) -> None:
        self._name, self._timeout = name, timeout
        self._failures = 0

    def wait_after(self, error: Exception, brought: int) -> None:
        """Pause after a request that failed with this error and had brought so many bytes; or give up."""
        progress = brought >= LEAST_BYTES and not isinstance(error, SlowError)
        self._failures = 1 if progress else self._failures + 1
        if self._failures == TRIES:
            reason = _reason(error, self._timeout)
            raise RemoteError(
                f"{self._name} could not be read: {reason}, {TRIES} times in a row. Try again later."
            ) from error
        time.sleep(PAUSE * 2 ** (self._failures - 1))


def _status(code: int, reason: str) -> str:
    """`404 Not Found`, with nothing in it that a terminal obeys."""
    words = printable(" ".join(reason[:200].split()))
    return f"{code} {words}".strip()


def _body(answer: HTTPResponse, length: int | None) -> Iterator[bytes]:
    """The first `length` bytes of an answer as they arrive, or all of them if that is None."""
    while length is None or length > 0:
        block = answer.read1(BLOCK if length is None else min(BLOCK, length))
        if not block:
            if length is None:
                return
            raise FailedError("the connection was closed early")
        if length is not None:
            if len(block) > length:
                raise FailedError("the server sent more bytes than were requested")
            length -= len(block)
        yield block


def _reason(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"the server sent nothing for {timeout:g} s"
    if isinstance(error, FailedError):
        return str(error)
    return f"the connection failed ({printable(str(cause)[:200]) or type(cause).__name__})"
