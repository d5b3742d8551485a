"""An opened file: the ranks of it that are in memory, and reading those that are missing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby, takewhile
from pathlib import Path
from threading import RLock

import numpy as np

from mipset.device.arguments import (
    MOST,
    MOST_SECONDS,
    check_positive,
    checked_count,
    checked_integer,
    checked_integers,
    is_sequence,
)
from mipset.device.cache import Cache
from mipset.device.places import LocalFile, Place
from mipset.device.subset import Subset
from mipset.errors import ArtifactError, RemoteError, SettingError
from mipset.file.curves import curve_table
from mipset.file.description import Description, contents, end_of_prefix, no_such_size
from mipset.file.gallery import find, is_listed
from mipset.file.gallery_index import Entry
from mipset.file.grids import image_grid
from mipset.file.header import check_length, file_bytes, read_header
from mipset.file.pixels import Pixels
from mipset.file.training_images import float32_scale, labelled
from mipset.io import LEAST_RATE
from mipset.io.memory import free_memory
from mipset.markup import paragraph
from mipset.reporting import Report, silent
from mipset.units import byte_count

READING = "reading"  # the stage that is reported


def open(
    where: str | Path,
    *,
    cache: str | Path | None = None,
    timeout: float = 30.0,
    least_rate: float = LEAST_RATE,
    max_memory: int | None = None,
    report: Report = silent,
) -> Source:
    """Open a condensed set at a path, at an http(s) address, or in the gallery (gallery:NAME). Only its header is read.

        source = device.open("https://example.org/c10.safetensors", cache="ranks")
        source.about.ipc, source.about.class_names, source.about.accuracy
        images, labels = source.prefix(3).arrays()

    `cache` names a folder that stores ranks, so that they need not be downloaded again after a restart. A server counts
    as failed that sends nothing for `timeout` seconds, or fewer than `least_rate` bytes per second over that time. No
    more than `max_memory` bytes of images are read, by default half of the memory that is free.
    `report("reading", done, total)` is called, in bytes, while the header and ranks are read. It may use ranks that are
    in memory, but must not read others.
    """
    check_positive("timeout", timeout, MOST_SECONDS)
    if least_rate != 0:
        check_positive("least_rate", least_rate)
    if max_memory is not None:
        checked_count("max_memory", max_memory, most=MOST)
    listed = find(where) if is_listed(where) else None
    place = _place(where if listed is None else listed.file, timeout, least_rate)
    entry = None if listed is None else listed.entry
    return Source(place, Cache(Path(cache)) if cache is not None else None, report, max_memory, entry)


def _place(where: str | Path, timeout: float, least_rate: float) -> Place:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", where) if isinstance(where, str) else None
    if scheme is None:
        return LocalFile(Path(where))
    if scheme[1].lower() not in ("http", "https"):
        raise SettingError(f"{where} cannot be opened. Give a path, or an address that begins with http or https.")
    from mipset.device.remote import RemoteFile  # imports the network modules of Python

    return RemoteFile(str(where), timeout, least_rate=least_rate)


class Source:
    """A condensed set whose header was read; `prefix(n)` reads the first n images of each class.

    Ranks stay in memory after they were read. Every rank is verified when it arrives, so `prefix` returns exactly what
    was published. After an error, the ranks that arrived are still there: call again to read only the rest.
    """

    def __init__(
        self,
        place: Place,
        cache: Cache | None = None,
        report: Report = silent,
        max_memory: int | None = None,
        entry: Entry | None = None,
    ) -> None:
        self._place, self._cache, self._report = place, cache, report
        self._max_memory = max_memory
        self._entry = entry  # of the gallery, if the file is listed there
        self._digest = hashlib.sha256()  # of the header
        self._ranks: dict[int, Pixels] = {}  # [C, ch, h, w] each
        self._lock, self._busy = RLock(), False
        self.about: Description  # of the file
        self.about, self._start = read_header(self._piece, place.name)
        if entry is not None:
            entry.check_header(self._digest.hexdigest(), self.about, self._start, place.name)
        self._check_length()
        float32_scale(self.about, place.name)  # refuses a set that cannot be trained on before its pixels are read

    def __repr__(self) -> str:
        here = f"{self.ranks_in_memory} of {self.about.ipc} ranks in memory"
        return f"<Source {self.name}: {contents(self.about.shape, self.about)}\n{here}>"

    def _repr_html_(self) -> str:
        """What the file holds, the images that are in memory, and the accuracy of each size."""
        first = list(takewhile(lambda rank: rank is not None, map(self._ranks.get, range(self.about.ipc))))
        rows = ([rank[c] for rank in first if rank is not None] for c in range(len(self.about.class_names)))
        grid = image_grid(self.about.class_names, rows) if first else ""
        curve = curve_table(self.about.accuracy) if self.about.accuracy else ""
        return paragraph(repr(self).strip("<>").replace("\n", ", ")) + grid + curve

    def __getitem__(self, key: slice) -> Subset:
        """`source[:n]` is `source.prefix(n)`. Other slices are refused."""
        return self.prefix(end_of_prefix(key, self.about.ipc))

    @property
    def name(self) -> str:
        """The path, or the address without its query."""
        return self._place.name

    @property
    def ranks_in_memory(self) -> int:
        """How many ranks are in memory."""
        return len(self._ranks)

    @property
    def moved(self) -> int:
        """How many bytes have been read or downloaded, also those that a server without ranges sends in vain."""
        return self._place.moved

    @property
    def ranges(self) -> bool | None:
        """Whether the server sends ranges of bytes; None for a file on this machine."""
        return self._place.ranges

    def file_bytes(self, n: int) -> int:
        """The length of a file of S_[n]."""
        return file_bytes(self.about.prefix(n))

    def prefix(self, sizes: int | Sequence[int]) -> Subset:
        """The first images of each class: one size for all classes, or a list of one size per class (0 is allowed).

        Only ranks that are not in memory are read, and each of them whole: a digest covers one image of *every* class,
        so verifying one image needs all of them. Different sizes per class therefore save training time and, after
        `forget()`, memory, but no download.
        """
        counts = self.counts(sizes)
        return Subset(self, counts, labelled(self._read_ranks(max(counts))))

    def offer(self, ranks: Iterable[Pixels]) -> None:
        """Take the first ranks from a subset that still has them, if they were dropped here."""
        dropped = {rank: images for rank, images in enumerate(ranks) if rank not in self._ranks}
        if dropped:
            with self._exclusive():
                self._ranks.update(dropped)

    def forget(self, n: int = 0) -> None:
        """Drop all ranks except the first n, in memory and in the cache folder.

        The memory is free when no `Subset` with these ranks is left.
        """
        n = checked_count("n", n, least=0)
        with self._exclusive():
            kept = set(self.about.sha256[:n])
            for rank, digest in enumerate(self.about.sha256[n:], start=n):
                self._ranks.pop(rank, None)
                if self._cache is not None and digest not in kept:
                    self._cache.delete(digest)

    def counts(self, sizes: int | Sequence[int]) -> tuple[int, ...]:
        """The argument of `prefix` as one size for each class."""
        ipc, classes = self.about.shape[:2]
        if not is_sequence(sizes):
            n = checked_integer("The size", sizes)
            if not 1 <= n <= ipc:
                raise no_such_size(n, ipc)
            return (n,) * classes
        counts = tuple(checked_integers("sizes", sizes))
        if len(counts) != classes or not all(0 <= n <= ipc for n in counts) or not any(counts):
            raise SettingError(
                f"`sizes` is {list(counts)[:20]}: give one size for each of {classes} classes, from 0 to {ipc} and not "
                "all 0."
            )
        return counts

    def _read_ranks(self, n: int) -> list[Pixels]:
        """The first n ranks; those that are not in memory are read."""
        cached = [self._ranks.get(rank) for rank in range(n)]
        in_memory = [rank for rank in cached if rank is not None]
        if len(in_memory) == n:  # need not wait for another thread that reads
            return in_memory
        self._check_memory(n)
        with self._exclusive():
            self._load(n)
            missing = [rank for rank in range(n) if rank not in self._ranks]
            try:
                self._read(missing)
            except RemoteError as error:
                raise self._naming_what_arrived(error) from error.__cause__
            self._check_length()
            ranks = [self._ranks[rank] for rank in range(n)]
            self._check_whole(ranks)
            return ranks

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Let one thread at a time change the ranks, and never a `report` that is called meanwhile."""
        with self._lock:
            if self._busy:
                raise SettingError("`report` must not read or forget ranks while it is called.")
            self._busy = True
            try:
                yield
            finally:
                self._busy = False

    def _naming_what_arrived(self, error: RemoteError) -> RemoteError:
        """The error with a hint where the ranks are that arrived; those in memory help only this process."""
        if self._ranks and self._cache is not None:
            return RemoteError(f"{error} The images that arrived are kept in {self._cache.folder}.")
        if self._ranks:
            error.add_note("The images that arrived are still in memory: call again to read only the rest.")
        return error

    def _piece(self, start: int, stop: int) -> bytes:
        content = self._place.piece(start, stop, lambda count: self._report(READING, start + count, stop))
        self._digest.update(content)
        return content

    def _read(self, ranks: Sequence[int]) -> None:
        done, total = 0, len(ranks) * self.about.rank_bytes
        for count in chain.from_iterable(map(self._fetch, _runs(ranks))):
            done += count
            self._report(READING, done, total)

    def _fetch(self, ranks: range) -> Iterator[int]:
        """Read consecutive ranks, and keep each as soon as it is complete; yields how many bytes arrived."""
        size, rank = self.about.rank_bytes, ranks.start
        content = bytearray()
        for block in self._place.blocks(self._start + ranks.start * size, self._start + ranks.stop * size):
            content += block
            while len(content) >= size:
                with memoryview(content) as view:
                    self._keep(rank, bytes(view[:size]))
                del content[:size]
                rank += 1
            yield len(block)

    def _check_length(self) -> None:
        """Refuse a file of another length than its header says, once the length is known."""
        if self._place.length is not None:
            check_length(self._place.length, self.about, self._start, self.name)

    def _check_whole(self, ranks: Sequence[Pixels]) -> None:
        """Refuse a whole file of the gallery that is not the listed one, if these are all its ranks."""
        if self._entry is None or len(ranks) < self.about.ipc:
            return
        digest = self._digest.copy()
        for rank in ranks:
            digest.update(rank.data)
        if digest.hexdigest() != self._entry.sha256:
            raise self._entry.other_file(self.name, "its SHA-256 is not the one of the index")

    def _check_memory(self, n: int) -> None:
        """Refuse to read more than this machine, or the caller, allows: the header may promise any size."""
        free = free_memory()
        allowed = self._max_memory if free is None or self._max_memory is not None else free // 2
        needed = n * self.about.rank_bytes
        if allowed is not None and needed > allowed:
            raise ArtifactError(
                f"{self.name} needs {byte_count(needed)} of memory for size {n}, but {byte_count(allowed)} are "
                f"allowed. Read a smaller size, or allow more with `max_memory` (by default half of the free memory)."
            )

    def _load(self, n: int) -> None:
        """Load those of the first n ranks that the cache folder has unaltered."""
        if self._cache is None:
            return
        for rank, digest in enumerate(self.about.sha256[:n]):
            content = None if rank in self._ranks else self._cache.load(digest, self.about.rank_bytes)
            if content is not None and self._is_unaltered(rank, content):
                self._ranks[rank] = self._pixels(content)

    def _keep(self, rank: int, content: bytes) -> None:
        self.about.verify(rank, content, self.name)
        self._ranks[rank] = self._pixels(content)
        if self._cache is not None:
            self._cache.store(self.about.sha256[rank], content)

    def _is_unaltered(self, rank: int, content: bytes) -> bool:
        try:
            self.about.verify(rank, content, self.name)
        except ArtifactError:
            return False
        return True

    def _pixels(self, content: bytes) -> Pixels:
        return np.frombuffer(content, np.uint8).reshape(self.about.shape[1:])


def _runs(ranks: Iterable[int]) -> Iterator[range]:
    """Increasing numbers, as ranges without gaps."""
    for _, run in groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0]):
        (_, first), *others = run
        yield range(first, first + 1 + len(others))
