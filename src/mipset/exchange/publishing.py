"""A folder that can be put on a web server, or into a dataset repository of Hugging Face, as it is.

It holds the file, its card, the picture of its accuracy curve, its training images as Parquet, and an index of one
entry: so the folder is a gallery. There is one Parquet file for each rank, and size n is the first n of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from mipset.display.charts import accuracy_curve
from mipset.errors import ArtifactError
from mipset.exchange.card import Publication, card, recipe_summary
from mipset.exchange.exports import parquet
from mipset.file.decoding import decoded
from mipset.file.gallery import entries_of
from mipset.file.gallery_index import INDEX, Entry, check_name, index_bytes
from mipset.file.header import header_bytes
from mipset.io.files import refuse_to_replace, write_folder

CARD = "README.md"
PICTURE = "accuracy.png"
DATA = "data"  # the folder of Parquet files
SUFFIX = ".safetensors"
PARQUET = re.compile(r"rank-\d+\.parquet")


def publish(publication: Publication, to: Path, *, with_parquet: bool = True, force: bool = False) -> Entry:
    """Write the folder `to`, completely or not at all. Gives its entry for an index.

    An existing folder is replaced only with `force`, and only if it holds nothing but a published set.
    """
    check_target(publication.name, to, force)
    entry = entry_of(publication)
    try:
        write_folder(to, _content(publication, entry, with_parquet))
    except OSError as error:
        raise ArtifactError(f"{to} cannot be written: {error.strerror or error}. Choose another `to`.") from error
    return entry


def check_target(name: str, to: Path, force: bool) -> None:
    """Refuse a name that an index cannot have, and a folder that cannot be written, before any work is done."""
    try:
        check_name(name)
    except ArtifactError as error:
        raise ArtifactError(f"{error}. Choose another `name`.") from error
    refuse_to_replace(to, force, is_publication, "a published set", "to")


def entry_of(publication: Publication) -> Entry:
    """What an index beside the file tells about a set."""
    artifact = publication.artifact
    content = artifact.to_bytes()
    return Entry(
        name=publication.name,
        file=publication.name + SUFFIX,
        sha256=hashlib.sha256(content).hexdigest(),
        header_sha256=hashlib.sha256(header_bytes(artifact.description)).hexdigest(),
        bytes=len(content),
        dataset=publication.dataset,
        ipc=artifact.ipc,
        recipe=recipe_summary(artifact),
        licence=publication.licence,
        licence_note=publication.licence_note,
        card=CARD,
        accuracy=artifact.accuracy,
    )


def is_publication(folder: Path) -> bool:
    """Whether a folder holds only files that `publish` writes, so nothing else is lost with it."""
    try:
        entries = entries_of(folder / INDEX)
    except ArtifactError:
        return False
    files = {INDEX, CARD, PICTURE, DATA, *(entry.file for entry in entries)}

    def is_published(path: Path) -> bool:
        match path.relative_to(folder).parts:
            case (name,):
                return name in files and path.is_dir() == (name == DATA)
            case (name, file):
                return name == DATA and PARQUET.fullmatch(file) is not None
            case _:
                return False

    return all(is_published(path) for path in folder.rglob("*"))


def _content(publication: Publication, entry: Entry, with_parquet: bool) -> Iterator[tuple[str, bytes]]:
    """Every file of the folder: its path within the folder, and its bytes."""
    artifact = publication.artifact
    digits = len(str(artifact.ipc))
    paths = [f"{DATA}/rank-{rank:0{digits}d}.parquet" for rank in range(1, artifact.ipc + 1)] if with_parquet else []
    yield entry.file, artifact.to_bytes()
    yield INDEX, index_bytes([entry])
    sizes = {str(size): paths[:size] for size in range(1, len(paths) + 1)}
    yield CARD, card(publication, sizes, PICTURE if artifact.accuracy else "").encode("utf-8", "replace")
    if artifact.accuracy:
        title = f"{publication.name}: accuracy against images per class"
        yield PICTURE, accuracy_curve(title, artifact.accuracy).png()
    if with_parquet:
        yield from zip(paths, parquet.file_contents(decoded(artifact), artifact.factor**2), strict=True)
