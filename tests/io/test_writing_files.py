"""Writing files: what is refused before any work is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from mipset.errors import ArtifactError
from mipset.io.files import refuse_to_overwrite


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
