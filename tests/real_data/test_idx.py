"""IDX files of MNIST and Fashion-MNIST, sound and broken."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from mipset.data import idx
from mipset.data.official import OfficialDataset, at_once
from mipset.data.specs import MNIST
from mipset.errors import DataError
from tiny_data import (
    equal_splits,
    idx_bytes,
    shrink,
    write_idx,
)


@pytest.mark.parametrize("zipped", [False, True])
def test_idx_files_are_read_gzipped_or_plain(tmp_path: Path, zipped: bool) -> None:
    spec, train, test = shrink(MNIST, 40, 20)
    write_idx(tmp_path, train, test, zipped=zipped)
    assert idx.is_in(tmp_path)
    dataset = OfficialDataset(spec, idx.is_in, at_once(idx.read)).open("mnist", tmp_path)
    assert equal_splits(dataset.train, train)
    assert equal_splits(dataset.test, test)
    assert dataset.train.images.flags.writeable


def test_missing_idx_file_is_named(tmp_path: Path) -> None:
    spec, train, test = shrink(MNIST, 40, 20)
    write_idx(tmp_path, train, test, zipped=True)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    assert not idx.is_in(tmp_path)
    with pytest.raises(DataError, match=r"Put t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz there"):
        idx.read(tmp_path, spec)


GOOD_IDX = idx_bytes(np.arange(24).reshape(4, 2, 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD_IDX[:-1], "is truncated"),
        (GOOD_IDX + b"x", "has more bytes than its header says"),
        (GOOD_IDX[:10], "ends within its header"),
        (b"", "found nothing"),
        (b"\x00\x00\x0d\x03" + GOOD_IDX[4:], "does not begin like an IDX file .*found 00 00 0d 03"),
        (idx_bytes(np.zeros((24,))), "with 3 axes"),
        (idx_bytes(np.zeros((4, 3, 2))), "holds 4x3x2 values instead of 4x2x3"),
        (gzip.compress(GOOD_IDX)[:-9], "could not be read"),
        (gzip.compress(GOOD_IDX)[:-8] + bytes(8), "could not be read .*CRC"),
        (gzip.compress(GOOD_IDX[:-2]), "is truncated"),
    ],
    ids=[
        *("truncated", "surplus byte", "header cut", "empty", "other type", "one axis", "other shape"),
        *("gzip cut", "gzip checksum", "gzip of truncated"),
    ],
)
def test_broken_idx_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"file .*{message}.*Get the file again"):
        idx.read_idx(path, (4, 2, 3))


def test_sound_idx_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(GOOD_IDX)
    assert idx.read_idx(tmp_path / "file", (4, 2, 3)).tolist() == np.arange(24).reshape(4, 2, 3).tolist()
