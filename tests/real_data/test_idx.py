"""IDX files of MNIST and Fashion-MNIST, sound and broken."""

from __future__ import annotations

import gzip
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from mipset.data import Split, idx
from mipset.data.cache import write_splits
from mipset.data.contents import Content
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


def test_missing_idx_files_are_named_with_where_to_get_them(tmp_path: Path) -> None:
    spec, train, test = shrink(MNIST, 40, 20)
    write_idx(tmp_path, train, test, zipped=True)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    assert not idx.is_in(tmp_path)
    there = f"from {MNIST.page} and put"
    one = rf"does not hold all of mnist: there is no t10k-labels-idx1-ubyte.gz. Get it {there} it there"
    with pytest.raises(DataError, match=rf"^{tmp_path} {one}"):
        idx.read(tmp_path, spec)
    (tmp_path / "train-images-idx3-ubyte.gz").unlink()
    two = rf"no train-images-idx3-ubyte.gz or t10k-labels-idx1-ubyte.gz. Get them {there} them there"
    with pytest.raises(DataError, match=two):
        idx.read(tmp_path, spec)


def test_idx_file_with_a_wrong_byte_is_named(tmp_path: Path) -> None:
    spec, train, test = shrink(MNIST, 40, 20)
    write_idx(tmp_path, train, test, zipped=True)
    spec = replace(spec, contents=contents_of(train, test))
    official = OfficialDataset(spec, idx.is_in, at_once(idx.read))
    official.open("mnist", tmp_path)
    test.images[3, 0, 4, 5] ^= 1
    write_idx(tmp_path, train, test, zipped=True)
    which = r"the content of t10k-images-idx3-ubyte differs: sha256 \w+ instead of \w+"
    with pytest.raises(DataError, match=rf"not those of mnist \({which}\). Get .* again from {MNIST.page}"):
        official.open("mnist", tmp_path)
    write_splits(tmp_path / "mnist.npz", train, test)
    with pytest.raises(DataError, match=rf"differs: .* Delete {tmp_path}/mnist.npz and run `mipset data fetch mnist`"):
        official.open("mnist", tmp_path)


def contents_of(train: Split, test: Split) -> tuple[Content, ...]:
    """The four files of these splits."""
    parts = [part for split in (train, test) for part in (split.images.tobytes(), split.labels.astype("u1").tobytes())]
    pairs = zip(MNIST.contents, parts, strict=True)
    return tuple(replace(each, sha256=sha256(part).hexdigest()) for each, part in pairs)


GOOD_IDX = idx_bytes(np.arange(24).reshape(4, 2, 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD_IDX[:-1], "is truncated: it holds 23 of 24 bytes"),
        (GOOD_IDX + b"x", "has more bytes than the 24 that its header says"),
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
    length = "It has [0-9]+ bytes, but the official file has 1,000. "
    with pytest.raises(DataError, match=rf"file .*{message}.*{length}Get it again from {MNIST.page}"):
        idx.read_idx(path, (4, 2, 3), replace(MNIST, lengths={"file": 1000}))


def test_sound_idx_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(GOOD_IDX)
    assert idx.read_idx(tmp_path / "file", (4, 2, 3), MNIST).tolist() == np.arange(24).reshape(4, 2, 3).tolist()
