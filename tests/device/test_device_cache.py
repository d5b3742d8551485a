"""The cache folder: ranks on disk."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import web
from mipset import Artifact, ArtifactError, device
from mipset.errors import RemoteError
from mipset.io import http
from noise_sets import RANK_BYTES, check_prefix, header_length, noise_set


class TestCache:
    def test_restart_needs_no_second_download(self, server: web.Server, whole: Artifact, tmp_path: Path) -> None:
        device.open(server.url, cache=tmp_path / "new" / "ranks").prefix(4)
        before = server.sent
        source = device.open(server.url, cache=str(tmp_path / "new" / "ranks"))
        check_prefix(source.prefix(4), whole, 4)
        assert server.sent - before == header_length(server.content)
        check_prefix(source.prefix(6), whole, 6)
        assert server.sent - before == header_length(server.content) + 2 * RANK_BYTES
        names = {entry.name for entry in (tmp_path / "new" / "ranks").iterdir()}
        assert names == {f"{digest}.rank" for digest in whole.rank_sha256}

    @pytest.mark.parametrize("damage", [b"", b"x", bytes(RANK_BYTES)], ids=["empty", "short", "altered"])
    def test_damaged_rank_in_the_cache_is_downloaded_again(
        self, server: web.Server, whole: Artifact, tmp_path: Path, damage: bytes
    ) -> None:
        device.open(server.url, cache=tmp_path).prefix(6)
        for rank in (1, 4, 5):
            (tmp_path / f"{whole.rank_sha256[rank]}.rank").write_bytes(damage)
        before = server.sent
        check_prefix(device.open(server.url, cache=tmp_path).prefix(6), whole, 6)
        assert server.sent - before == header_length(server.content) + 3 * RANK_BYTES
        assert len(server.requests) == 3 + 2 + 2  # one for a gap, one for the other
        for rank, digest in enumerate(whole.rank_sha256):
            assert (tmp_path / f"{digest}.rank").read_bytes() == whole.images[rank].tobytes()

    def test_error_names_the_cache_that_has_the_complete_ranks(self, server: web.Server, tmp_path: Path) -> None:
        source = device.open(server.url, cache=tmp_path)
        server.faults = [web.closing_after(2 * RANK_BYTES), *[web.closing_after(0)] * http.TRIES]
        with pytest.raises(RemoteError) as caught:
            source.prefix(6)
        assert str(caught.value).endswith(f" Try again later. The images that arrived are kept in {tmp_path}.")
        server.faults = [web.closing_after(0)] * http.TRIES
        with pytest.raises(RemoteError, match=r"in a row\. Try again later\.$"):
            device.open(server.url, cache=tmp_path)

    def test_shrinking_deletes_ranks_from_the_cache(self, server: web.Server, whole: Artifact, tmp_path: Path) -> None:
        subset = device.open(server.url, cache=tmp_path).prefix(5)
        subset.shrink(2)
        assert {entry.stem for entry in tmp_path.iterdir()} == set(whole.rank_sha256[:2])
        device.open(server.url, cache=tmp_path).forget()
        assert list(tmp_path.iterdir()) == []

    def test_rank_that_occurs_twice_stays_in_the_cache_for_the_first(self, tmp_path: Path) -> None:
        twice = noise_set(images=np.concatenate([noise_set().images, noise_set().images[:1]]), recipe={})
        twice.write(tmp_path / "set")
        source = device.open(tmp_path / "set", cache=tmp_path / "ranks")
        source.prefix(7).shrink(6)
        assert {entry.stem for entry in (tmp_path / "ranks").iterdir()} == set(twice.rank_sha256)

    def test_folder_that_cannot_be_written_is_an_error(
        self, server: web.Server, whole: Artifact, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ArtifactError, match="file cannot store what is downloaded"):
            device.open(server.url, cache=tmp_path / "file")
        source = device.open(server.url, cache=tmp_path / "ranks")
        (tmp_path / "ranks").rmdir()
        with pytest.raises(
            ArtifactError, match=r"ranks cannot store what is downloaded: No such file or directory\. Free some space"
        ):
            source.prefix(2)
        (tmp_path / "ranks").mkdir()
        check_prefix(source.prefix(2), whole, 2)

    def test_full_disk_leaves_no_partial_rank(
        self, server: web.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(
            ArtifactError, match=r"No space left on device\. Free some space, or choose another folder as `cache`\."
        ):
            device.open(server.url, cache=tmp_path).prefix(2)
        assert list(tmp_path.iterdir()) == []
