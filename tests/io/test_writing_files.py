"""Writing files: what is refused before any work is done."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from mipset.errors import ArtifactError
from mipset.io.files import refuse_to_overwrite, write_whole


@pytest.mark.skipif(sys.platform == "win32", reason="has no modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    """Also while it is written: nobody else may read the new content."""
    path, modes = tmp_path / "private", []
    path.write_bytes(b"old")
    path.chmod(mode)

    def write(stream: BinaryIO) -> None:
        modes.append(stat.S_IMODE(os.fstat(stream.fileno()).st_mode))
        stream.write(b"new")

    write_whole(path, write)
    assert path.read_bytes() == b"new"
    assert [*modes, stat.S_IMODE(path.stat().st_mode)] == [mode, mode]


def test_existing_file_is_overwritten_only_with_force(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.touch()
    refuse_to_overwrite(path, force=True)
    with pytest.raises(ArtifactError, match=r"old exists already\. Choose another `out`, or set `force` to overwrite"):
        refuse_to_overwrite(path, force=False)
    with pytest.raises(ArtifactError) as caught:
        refuse_to_overwrite(path, force=False, argument="png")
    assert caught.value.settings == ("png", "force")


@pytest.mark.parametrize("force", [True, False])
def test_folder_is_never_overwritten(tmp_path: Path, force: bool) -> None:
    with pytest.raises(ArtifactError, match=r"is a folder\. Add a file name to it\.$"):
        refuse_to_overwrite(tmp_path, force)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^There is no folder .*nowhere to write new into\. Make it first\.$"):
        refuse_to_overwrite(tmp_path / "nowhere" / "new", force=False)
    refuse_to_overwrite(tmp_path / "new", force=False)
