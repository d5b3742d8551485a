"""Write a condensed set for other programs: PNG files, npz, Parquet, WebDataset, torch, or a C header.

Training images are exported, because other programs train on what they find. Stored images, each of which is a mosaic
of factor² training images, are exported on request; only the C header, which must be small, holds them by default.
Where images are mosaics, the factor is part of the data: a column, a field of each sample, an array, or the file names.

Every format keeps the order of the file, rank by rank and class by class within a rank. So S_[n] is the first n * C
stored images, or the first n * C * factor² training images, of an export of C classes. In a folder of PNG files it is
the first n, or n * factor², pictures of each class.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mipset.errors import ArtifactError, SettingError, choose
from mipset.exchange.exports import c_header, npz, parquet, png, pt, webdataset
from mipset.file.artifact import Artifact
from mipset.file.decoding import decoded
from mipset.io.files import refuse_to_overwrite, refuse_to_replace, write_folder, write_whole
from mipset.settings.exchange_choices import EXPORT_FORMATS

PNG = "png"
C_HEADER = "c"
SINGLE_FILES: dict[str, Callable[[Artifact], bytes]] = {
    "npz": npz.file_content,
    "parquet": parquet.file_content,
    "webdataset": webdataset.file_content,
    "pt": pt.file_content,
}


def export(artifact: Artifact, to: str, out: Path, *, stored: bool | None = None, force: bool = False) -> Artifact:
    """Write all images of the set to `out`, completely or not at all. `to` is one of EXPORT_FORMATS.

    `stored` chooses stored images (True) or training images (False); the default is training images, except for a C
    header. An existing file is replaced only with `force`; an existing folder also needs to be an export itself. Gives
    the set as it was written.
    """
    if to not in EXPORT_FORMATS:
        raise SettingError(f"`to` is {to!r}: there is no such format. {choose(to, EXPORT_FORMATS)}.")
    if not (to == C_HEADER if stored is None else stored):
        artifact = decoded(artifact)
    try:
        if to == PNG:
            refuse_to_replace(out, force, png.is_export, "an export to PNG files")
            write_folder(out, png.folder_content(artifact))
            return artifact
        refuse_to_overwrite(out, force)
        content = c_header.file_content(artifact, out.stem) if to == C_HEADER else SINGLE_FILES[to](artifact)
        write_whole(out, lambda stream: stream.write(content))
        return artifact
    except OSError as error:
        raise ArtifactError(f"{out} cannot be written: {error.strerror or error}. Choose another `out`.") from error
