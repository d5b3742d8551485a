"""A condensed set for other programs: PNG files, npz, Parquet, WebDataset, torch, or a C header.

Every format keeps the order of the file, rank by rank and class by class within a rank. So S_[n] is the first n * C
images of an export of C classes, and the first n pictures of each class in a folder of PNG files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mipset.errors import ArtifactError, SettingError, choices
from mipset.exchange.exports import header, npz, parquet, png, tensors, webdataset
from mipset.file.artifact import Artifact
from mipset.io.files import refuse_to_overwrite, write_folder, write_whole

FOLDER = "png"
HEADER = "c"
_FILES: dict[str, Callable[[Artifact], bytes]] = {
    "npz": npz.content,
    "parquet": parquet.content,
    "webdataset": webdataset.content,
    "pt": tensors.content,
}
FORMATS = (FOLDER, *_FILES, HEADER)


def export(artifact: Artifact, to: str, out: Path, *, force: bool = False) -> None:
    """Write all images of the set to `out`, whole or not at all; `to` is one of FORMATS.

    Something that is there already is replaced only with `force`, and a folder only if it is an export itself.
    """
    if to not in FORMATS:
        raise SettingError(f"there is no format {to!r} to export to: choose {choices(FORMATS)}.")
    try:
        if to == FOLDER:
            png.check_place(out, force)
            write_folder(out, png.contents(artifact))
            return
        refuse_to_overwrite(out, force)
        content = header.content(artifact, out.stem) if to == HEADER else _FILES[to](artifact)
        write_whole(out, lambda stream: stream.write(content))
    except OSError as error:
        raise ArtifactError(f"{out} cannot be written: {error.strerror or error}.") from error
