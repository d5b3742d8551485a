"""A file that was opened and not read: which of its ranks are here, and getting those that are not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from threading import RLock

import numpy as np

from mipset.device.arguments import MOST_SECONDS, are_several, counted, number, whole, wholes
from mipset.device.cache import Cache
from mipset.device.normalising import scale
from mipset.device.places import LocalFile, Place
from mipset.device.subset import Subset, labelled
from mipset.errors import ArtifactError, RemoteError, SettingError
from mipset.file.artifact import Description, Pixels, check_length, read_header

Progress = Callable[[int, int], None]
"""Called as progress(done, total), in bytes, while a header or ranks are read."""


def open(
    where: str | Path, *, cache: str | Path | None = None, timeout: float = 30.0, progress: Progress | None = None
) -> Source:
    """Open a condensed set, at a path or at an http(s) address, by reading its header alone.

        source = device.open("https://example.org/c10.safetensors", cache="ranks")
        source.about.ipc, source.about.class_names, source.about.accuracy
        images, labels = source.prefix(3).arrays()

    `cache` names a folder where ranks are kept, so that after a restart they need not be read again. A server that is
    silent for `timeout` seconds is given up. `progress(done, total)` is called, in bytes, while the header and while
    ranks are read; it may look at the source, but not read from it.
    """
    number("timeout", timeout, MOST_SECONDS)
    place = _place(where, timeout)
    return Source(place, Cache(Path(cache)) if cache is not None else None, progress)


def _place(where: str | Path, timeout: float) -> Place:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", where) if isinstance(where, str) else None
    if scheme is None:
        return LocalFile(Path(where))
    if scheme[1].lower() not in ("http", "https"):
        raise SettingError(f"{where} cannot be opened: give a path, or an address that begins with http or https.")
    from mipset.device.remote import Remote

    return Remote(str(where), timeout)


class Source:
    """A condensed set of which the header was read; `prefix(n)` reads the first n images of each class.

    What was read is kept, and every rank is verified when it comes, so whatever `prefix` returns is what was published.
    An error on the way loses only the rank that it came in: call again, and the rest is read.
    """

    def __init__(self, place: Place, cache: Cache | None = None, progress: Progress | None = None) -> None:
        self._place, self._cache, self._progress = place, cache, progress
        self._ranks: dict[int, Pixels] = {}  # [C, ch, h, w] each
        self._lock, self._busy = RLock(), False
        self.about: Description  # what the file says about its images
        self.about, self._start = read_header(self._piece, place.name)
        self._check_length()
        scale(self.about, place.name)  # what cannot be trained with need not be read

    @property
    def name(self) -> str:
        """The path or the address, without what follows a question mark."""
        return self._place.name

    @property
    def held(self) -> int:
        """How many ranks are in memory."""
        return len(self._ranks)

    def prefix(self, sizes: int | Sequence[int]) -> Subset:
        """The first images of each class: so many of all, or one number for each class, of which some may be 0.

        Only ranks that are not here yet are read, each as a whole: a digest is that of one image of *every* class, so
        to verify one of them all are needed. So numbers that differ save training time and, after `forget()`, memory,
        but no reading.
        """
        counts = self.counts(sizes)
        return Subset(self, counts, labelled(self._hold(max(counts))))

    def offer(self, ranks: Iterable[Pixels]) -> None:
        """Take the first ranks from a subset that still has them, where they were let go."""
        lost = {rank: images for rank, images in enumerate(ranks) if rank not in self._ranks}
        if lost:
            with self._alone():
                self._ranks.update(lost)

    def forget(self, n: int = 0) -> None:
        """Let go of all but the first n ranks, in memory and in the cache folder.

        Memory is free when no `Subset` that has these ranks is left.
        """
        n = counted("the number of ranks to keep", n, least=0)
        with self._alone():
            kept = set(self.about.sha256[:n])
            for rank, digest in enumerate(self.about.sha256[n:], start=n):
                self._ranks.pop(rank, None)
                if self._cache is not None and digest not in kept:
                    self._cache.forget(digest)

    def counts(self, sizes: int | Sequence[int]) -> tuple[int, ...]:
        """Sizes as `prefix` takes them, as one number for each class."""
        ipc, classes = self.about.shape[:2]
        if not are_several(sizes):
            n = whole("the size", sizes)
            if not 1 <= n <= ipc:
                raise ArtifactError(f"there is no subset of size {n}: choose from 1 to {ipc}.")
            return (n,) * classes
        counts = tuple(wholes("the sizes", sizes))
        if len(counts) != classes or not all(0 <= n <= ipc for n in counts) or not any(counts):
            raise SettingError(
                f"the sizes cannot be {list(counts)[:20]}: give one for each of {classes} classes, from 0 to {ipc} and "
                "not all 0."
            )
        return counts

    def _hold(self, n: int) -> list[Pixels]:
        """The first n ranks, after those that are missing were read."""
        here = [self._ranks.get(rank) for rank in range(n)]
        found = [rank for rank in here if rank is not None]
        if len(found) == n:  # which need not wait for what another thread reads
            return found
        with self._alone():
            self._load(n)
            missing = [rank for rank in range(n) if rank not in self._ranks]
            try:
                self._read(missing)
            except RemoteError as error:
                raise self._with_what_is_kept(error) from error.__cause__
            self._check_length()
            return [self._ranks[rank] for rank in range(n)]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Only one changes what is here, and not a `progress` that is told about it."""
        with self._lock:
            if self._busy:
                raise SettingError("progress cannot read or forget ranks while it is told about them.")
            self._busy = True
            try:
                yield
            finally:
                self._busy = False

    def _with_what_is_kept(self, error: RemoteError) -> RemoteError:
        """An error as whoever tries again wants to know it; what memory keeps is of use in this process only."""
        if self._ranks and self._cache is not None:
            return RemoteError(f"{str(error).removesuffix('.')} (what had arrived is kept in {self._cache.folder}).")
        if self._ranks:
            error.add_note("What had arrived is kept by the source: call again, and the rest is read.")
        return error

    def _piece(self, start: int, stop: int) -> bytes:
        return self._place.piece(start, stop, lambda count: self._tell(start + count, stop))

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)

    def _read(self, ranks: Sequence[int]) -> None:
        done, total = 0, len(ranks) * self.about.rank_bytes
        for count in chain.from_iterable(map(self._fetch, _runs(ranks))):
            done += count
            self._tell(done, total)

    def _fetch(self, ranks: range) -> Iterator[int]:
        """Read ranks that follow each other, and keep each as soon as it is whole; yields how many bytes came."""
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
        """Refuse a file of another length than its header says, once that is known."""
        if self._place.length is not None:
            check_length(self._place.length, self.about, self._start, self.name)

    def _load(self, n: int) -> None:
        """Take from the cache folder what is whole of the first n ranks."""
        if self._cache is None:
            return
        for rank, digest in enumerate(self.about.sha256[:n]):
            content = None if rank in self._ranks else self._cache.load(digest, self.about.rank_bytes)
            if content is not None and self._is_sound(rank, content):
                self._ranks[rank] = self._pixels(content)

    def _keep(self, rank: int, content: bytes) -> None:
        self.about.verify(rank, content, self.name)
        self._ranks[rank] = self._pixels(content)
        if self._cache is not None:
            self._cache.keep(self.about.sha256[rank], content)

    def _is_sound(self, rank: int, content: bytes) -> bool:
        try:
            self.about.verify(rank, content, self.name)
        except ArtifactError:
            return False
        return True

    def _pixels(self, content: bytes) -> Pixels:
        return np.frombuffer(content, np.uint8).reshape(self.about.shape[1:])


def _runs(ranks: Iterable[int]) -> Iterator[range]:
    """Increasing numbers as ranges without gaps."""
    for _, run in groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0]):
        (_, first), *others = run
        yield range(first, first + 1 + len(others))
