"""Write a condensed set for other programs: PNG files, npz, Parquet, WebDataset, torch, or a C header.

Every format keeps the order of the file, rank by rank and class by class within a rank. So S_[n] is the first n * C
images of an export of C classes. In a folder of PNG files it is the first n pictures of each class.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mipset.errors import ArtifactError, SettingError, choices
from mipset.exchange.exports import c_header, npz, parquet, png, pt, webdataset
from mipset.file.artifact import Artifact
from mipset.io.files import refuse_to_overwrite, write_folder, write_whole
from mipset.settings.exchange_choices import EXPORT_FORMATS

PNG = "png"
C_HEADER = "c"
SINGLE_FILES: dict[str, Callable[[Artifact], bytes]] = {
    "npz": npz.file_content,
    "parquet": parquet.file_content,
    "webdataset": webdataset.file_content,
    "pt": pt.file_content,
}


def export(artifact: Artifact, to: str, out: Path, *, force: bool = False) -> None:
    """Write all images of the set to `out`, completely or not at all. `to` is one of EXPORT_FORMATS.

    An existing file is replaced only with `force`; an existing folder also needs to be an export itself.
    """
    if to not in EXPORT_FORMATS:
        raise SettingError(f"`to` is {to!r}: there is no such format. Choose {choices(EXPORT_FORMATS)}.")
    try:
        if to == PNG:
            png.check_out_folder(out, force)
            write_folder(out, png.folder_content(artifact))
            return
        refuse_to_overwrite(out, force)
        content = c_header.file_content(artifact, out.stem) if to == C_HEADER else SINGLE_FILES[to](artifact)
        write_whole(out, lambda stream: stream.write(content))
    except OSError as error:
        raise ArtifactError(f"{out} cannot be written: {error.strerror or error}. Choose another `out`.") from error
