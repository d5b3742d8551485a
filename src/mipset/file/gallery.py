"""The gallery: condensed sets that are ready to use, by name. docs/gallery.md is the guide.

`gallery:NAME` stands for a file wherever `mipset.read` or `mipset.device.open` takes one. The variable MIPSET_GALLERY
says which gallery that is.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from mipset.errors import ArtifactError, SettingError, brief, did_you_mean, source_tree, together
from mipset.file.gallery_index import ADDRESS, INDEX, MOST_INDEX, Entry, parse_index
from mipset.io.memory import free_memory
from mipset.units import byte_count

VARIABLE = "MIPSET_GALLERY"
PREFIX = "gallery:"
TIMEOUT = 30.0  # seconds that a server may be silent
MOST_CARD = 1 << 20  # bytes


@dataclass(frozen=True)
class ListedSet:
    """A set of a gallery, and where it is."""

    entry: Entry
    index: Path | str  # path or address

    @property
    def file(self) -> Path | str:
        """The path or the address of its file."""
        return _place(self.index, self.entry.file)

    @property
    def name(self) -> str:
        """How messages call the file."""
        return _shown(self.file)

    def content(self) -> bytes:
        """The bytes of the whole file, which are those that the index lists."""
        free, length = free_memory(), self.entry.bytes
        if free is not None and length > free // 2:
            raise ArtifactError(
                f"{PREFIX}{self.entry.name} has {byte_count(length)}, which is more than half of the free memory. Read "
                "a prefix of it with mipset.device.open()."
            )
        content = _bytes_of(self.file, length)
        if content is None or len(content) != length:
            reason = f"it does not have the {length:,} bytes of the index"
        elif hashlib.sha256(content).hexdigest() != self.entry.sha256:
            reason = "its SHA-256 is not the one of the index"
        else:
            return content
        raise self.entry.other_file(self.name, reason)

    def card(self) -> str:
        """What its publisher tells about it, in Markdown."""
        place = _place(self.index, self.entry.card)
        content = _bytes_of(place, MOST_CARD)
        if content is None:
            raise ArtifactError(f"{_shown(place)} has more than {MOST_CARD:,} bytes, which is too long for a card.")
        return content.decode("utf-8", "replace")


def gallery() -> list[Entry]:
    """The sets of the gallery that MIPSET_GALLERY names: a folder, the path of an index, or the address of an index.

    Without it, a source tree of mipset has the folder `gallery`.
    """
    return entries_of(where())


def is_listed(path: Path | str) -> bool:
    """Whether this is written as gallery:NAME."""
    return str(path).startswith(PREFIX)


def find(path: Path | str) -> ListedSet:
    """The set that gallery:NAME means."""
    index, name = where(), str(path).removeprefix(PREFIX)
    entries = {entry.name: entry for entry in entries_of(index)}
    if name not in entries:
        known = f"{did_you_mean(name, entries)}It has {together(sorted(entries))}" if entries else "It is empty"
        raise ArtifactError(f"The gallery {brief(_shown(index), str)} has no set {brief(name)}. {known}.")
    return ListedSet(entries[name], index)


def local_file(path: Path | str) -> Path:
    """The path itself; for gallery:NAME, the file on this machine if its index is on this machine."""
    if is_listed(path) and isinstance(where(), Path):
        file = find(path).file
        return file if isinstance(file, Path) else Path(path)
    return Path(path)


def where() -> Path | str:
    """The path or the address of the index."""
    given = os.environ.get(VARIABLE)
    if given:
        if ADDRESS.match(given):
            return urljoin(given, INDEX) if given.endswith("/") else given
        path = Path(given).expanduser()
        return path / INDEX if path.is_dir() else path
    tree = source_tree()
    if tree is None or not (tree / "gallery" / INDEX).is_file():
        raise SettingError(
            f"No gallery is known: set {VARIABLE} to a folder with an {INDEX}, to the path of such a file, or to its "
            "address."
        )
    return tree / "gallery" / INDEX


def entries_of(index: Path | str) -> list[Entry]:
    """What an index lists."""
    content = _bytes_of(index, MOST_INDEX)
    if content is None:
        raise ArtifactError(f"{_shown(index)} has more than {MOST_INDEX:,} bytes, which is too long for an index.")
    try:
        return parse_index(content, _shown(index))
    except ArtifactError as error:
        if isinstance(index, Path) or index.lower().endswith(".json"):
            raise
        hint = f"If {VARIABLE} is the address of a folder, let it end in / or in /{INDEX}."
        raise ArtifactError(f"{error} {hint}") from error


def _place(index: Path | str, place: str) -> Path | str:
    """The path or address that an entry of the index names. It was checked that a path does not leave the folder."""
    if ADDRESS.match(place):
        return place
    if isinstance(index, str):
        return urljoin(index, place)
    path = index.parent / place
    if not path.resolve().is_relative_to(index.parent.resolve()):
        raise ArtifactError(f"{path} is a link that leaves the folder of the gallery. Put the file there itself.")
    return path


def _bytes_of(place: Path | str, most: int) -> bytes | None:
    """The content of a file on this machine or on a server; None if it has more than `most` bytes."""
    return _read(place, most) if isinstance(place, Path) else _download(place, most)


def _read(path: Path, most: int) -> bytes | None:
    try:
        with path.open("rb") as stream:
            content = stream.read(most + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise ArtifactError(f"{path} cannot be read: {reason}. Check {VARIABLE}, or get the gallery again.") from error
    return content if len(content) <= most else None


def _download(url: str, most: int) -> bytes | None:
    from mipset.io.http import WebFile  # imports the network modules of Python

    content = bytearray()
    for place, block in WebFile(url, TIMEOUT).whole():
        content[place:] = block
        if len(content) > most:
            return None
    return bytes(content)


def _shown(place: Path | str) -> str:
    """A path or an address as messages name it: without what may be secret in an address."""
    if isinstance(place, Path):
        return str(place)
    from mipset.io.connections import without_secrets

    return without_secrets(place)
