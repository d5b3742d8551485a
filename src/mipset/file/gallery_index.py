"""The index of a gallery: one JSON file that lists condensed sets. docs/gallery.md specifies it.

An index may come from anywhere. Everything in it is checked before any of it is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from math import prod
from typing import Any

from mipset.errors import ArtifactError, brief
from mipset.file.description import Accuracy, Description, check_point
from mipset.file.header import MOST_BYTES, parse_point, point_fields, strict_json
from mipset.io.names import portable_name

KEY, VERSION = "mipset_gallery", 1
INDEX = "index.json"  # the usual name of the file
MOST_INDEX = 1 << 23  # bytes; a longer index is refused before it is parsed
MOST_TEXT = 10_000  # letters of one text
MOST_NAME = 64
MOST_IMAGES = 10**9  # per class
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
ADDRESS = re.compile(r"https?://[^\s/]", re.IGNORECASE)
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # of a path: neither `..` nor a hidden file
DIGEST = re.compile("[0-9a-f]{64}")
TYPES = {"str": str, "int": int}


@dataclass(frozen=True)
class Entry:
    """One condensed set of a gallery."""

    name: str  # as in gallery:NAME
    file: str  # its path below the folder of the index, or its address
    sha256: str  # of the file
    header_sha256: str  # of the first 8 + H bytes of the file, which hold the digests of its ranks
    bytes: int  # of the file
    dataset: str  # that was condensed
    ipc: int  # images per class
    recipe: str  # how it was made, in a few words
    licence: str  # of the dataset: a short name, as Hugging Face writes it
    licence_note: str  # the same in a sentence
    card: str  # path or address of its card, in Markdown
    accuracy: tuple[Accuracy, ...] = ()  # by size; the points that the file has

    def __post_init__(self) -> None:
        for f in fields(self):
            value, kind = getattr(self, f.name), TYPES.get(str(f.type))
            if kind is not None and type(value) is not kind:
                raise ArtifactError(f"{f.name!r} is {brief(value)}, which is not of type {f.type}")
            if kind is str and not 0 < len(value) <= MOST_TEXT:
                raise ArtifactError(f"{f.name!r} has {len(value):,} letters: 1 to {MOST_TEXT:,} are allowed")
        check_name(self.name)
        for name in ("file", "card"):
            _check_place(name, getattr(self, name))
        for name in ("sha256", "header_sha256"):
            if not DIGEST.fullmatch(getattr(self, name)):
                raise ArtifactError(f"{name!r} is {brief(getattr(self, name))}, which is not a SHA-256 digest")
        for name, most in (("bytes", MOST_BYTES), ("ipc", MOST_IMAGES)):
            if not 1 <= getattr(self, name) <= most:
                raise ArtifactError(f"{name!r} is {brief(getattr(self, name))}: it must be from 1 to {most:,}")
        for point in self.accuracy:
            check_point(point, self.ipc)

    def check_header(self, digest: str, about: Description, start: int, name: str) -> None:
        """Refuse the file called `name` if its header, of this digest and up to `start`, is not the listed one."""
        if digest != self.header_sha256:
            raise self.other_file(name, "its header is not the one of the index")
        if start + prod(about.shape) != self.bytes:
            raise self.other_file(
                name, f"it has {start + prod(about.shape):,} bytes, and the index says {self.bytes:,}"
            )
        if (about.ipc, about.accuracy) != (self.ipc, self.accuracy):
            raise self.other_file(name, "the index has other sizes or accuracies than the file")

    def other_file(self, name: str, reason: str) -> ArtifactError:
        """The error for a file that is not the one of this entry."""
        return ArtifactError(
            f"{name} is not the file that the gallery lists as {self.name} ({reason}). Get both again, or tell who "
            "publishes them."
        )


def check_name(name: str) -> None:
    """Refuse a name that cannot be typed as gallery:NAME, or that is no name of a file on every system."""
    if len(name) > MOST_NAME or not NAME.fullmatch(name):
        raise ArtifactError(
            f"{brief(name)} is no name of a set: it must be at most {MOST_NAME} small letters, digits and hyphens"
        )
    if portable_name(name) != name:
        raise ArtifactError(f"{brief(name)} is no name of a set: on Windows it is the name of a device")


def _check_place(name: str, place: str) -> None:
    """Refuse what is neither an http(s) address nor a path that stays below the folder of the index."""
    if not ADDRESS.match(place) and not all(PART.fullmatch(part) for part in place.split("/")):
        raise ArtifactError(
            f"{name!r} is {brief(place)}: it must be an address that begins with http or https, or a path below the "
            "folder of the index, of letters, digits, '.', '_', '-' and '/'"
        )


def parse_index(content: bytes, name: str) -> list[Entry]:
    """The entries of the index called `name`."""
    try:
        index = strict_json(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _unusable(name, f"it is not JSON: {brief(error, str)}") from error
    if not isinstance(index, dict) or KEY not in index:
        raise _unusable(name, f"it has no field {KEY!r}")
    version, sets = index[KEY], index.get("sets")
    if type(version) is not int or version != VERSION:
        raise _unusable(name, f"its version is {brief(version)}, and this mipset reads version {VERSION}")
    if not isinstance(sets, list):
        raise _unusable(name, "it has no list 'sets'")
    entries: dict[str, Entry] = {}
    for number, given in enumerate(sets, start=1):
        try:
            entry = _entry(given)
        except ArtifactError as error:
            raise _unusable(name, f"in its set {number}, {str(error).rstrip('.')}") from error
        if entry.name in entries:
            raise _unusable(name, f"it lists {entry.name} twice")
        entries[entry.name] = entry
    return list(entries.values())


def _entry(given: object) -> Entry:
    if not isinstance(given, dict):
        raise ArtifactError(f"there is {brief(given)} instead of an object")
    values: dict[str, Any] = {}
    for f in fields(Entry):
        if f.name not in given:
            raise ArtifactError(f"{f.name!r} is missing")
        values[f.name] = given[f.name]
    if not isinstance(values["accuracy"], list):
        raise ArtifactError(f"'accuracy' is {brief(values['accuracy'])}, which is not a list")
    return Entry(**{**values, "accuracy": tuple(_point(point) for point in values["accuracy"])})


def _point(given: object) -> Accuracy:
    try:
        if not isinstance(given, Mapping):
            raise TypeError("it is not an object")
        return parse_point(given)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(f"a point of 'accuracy' is not valid: {brief(error)}") from error


def index_bytes(entries: Iterable[Entry]) -> bytes:
    """The content of an index of these entries, ordered by name. The same entries always give the same bytes."""
    sets = [
        {**asdict(entry), "accuracy": [point_fields(point) for point in entry.accuracy]}
        for entry in sorted(entries, key=lambda entry: entry.name)
    ]
    content = (json.dumps({KEY: VERSION, "sets": sets}, indent=1) + "\n").encode()
    if len(content) > MOST_INDEX:
        raise ArtifactError(
            f"The index has {len(content):,} bytes: it may have at most {MOST_INDEX:,}. List fewer sets."
        )
    return content


def _unusable(name: str, reason: str) -> ArtifactError:
    return ArtifactError(
        f"{name} is not an index of a gallery that can be used: {reason}. Correct it, or get it again."
    )
