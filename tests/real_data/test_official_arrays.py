"""CIFAR-100, SVHN and STL-10: small sets in the official layouts, and what is refused."""

from __future__ import annotations

import struct
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mipset.data import cifar, load, matlab, stl10, svhn
from mipset.data.archives import OfficialArchive
from mipset.data.official import OFFICIAL, OfficialDataset
from mipset.data.specs import CIFAR100, STL10, SVHN, DatasetSpec
from mipset.errors import DataError
from official_files import (
    mat_array,
    mat_element,
    mat_file,
    md5_of,
    svhn_arrays,
    write_cifar100,
    write_stl10,
    write_svhn,
)
from tiny_data import equal_splits, shrink

Write = Callable[[Path, Any, Any], None]
FORMS: dict[str, tuple[DatasetSpec, str, Write, tuple[str, ...]]] = {  # spec, sub-folder, writer, files
    "cifar100 python": (CIFAR100, "cifar-100-python", partial(write_cifar100, form="python"), ("train", "test")),
    "cifar100 binary": (CIFAR100, "cifar-100-binary", partial(write_cifar100, form="bin"), ("train.bin", "test.bin")),
    "svhn": (SVHN, "", write_svhn, ("train_32x32.mat", "test_32x32.mat")),
    "svhn plain": (SVHN, "", partial(write_svhn, compressed=False), ("train_32x32.mat", "test_32x32.mat")),
    "stl10": (STL10, "stl10_binary", write_stl10, ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")),
}
SMALL = {"cifar100": (200, 100), "svhn": (40, 20), "stl10": (20, 10)}


def small(form: str, folder: Path) -> tuple[OfficialDataset, Any, Any, list[Path]]:
    """A small dataset with published digests, its splits, and its official files in the folder."""
    spec, inner, write, names = FORMS[form]
    spec, train, test = shrink(spec, *SMALL[spec.name])
    place = folder / inner
    place.mkdir(parents=True, exist_ok=True)
    write(place, train, test)
    files = [place / name for name in names]
    digests = {path.name: md5_of(path) for path in files}
    return replace(OFFICIAL[spec.name], spec=replace(spec, sha256="", md5=digests)), train, test, files


@pytest.mark.parametrize("form", FORMS)
def test_official_files_are_read(tmp_path: Path, form: str) -> None:
    official, train, test, files = small(form, tmp_path)
    for path in (tmp_path, files[0].parent):
        assert official.is_in(path)
        data = official.open("x", path)
        assert equal_splits(data.train, train)
        assert equal_splits(data.test, test)
    assert data.class_names == official.spec.class_names
    assert data.flips == (official.spec.name != "svhn")


@pytest.mark.parametrize("form", FORMS)
def test_official_files_with_one_wrong_byte_are_refused(tmp_path: Path, form: str) -> None:
    official, _, _, files = small(form, tmp_path)
    for path in files:
        content = path.read_bytes()
        wrong = bytearray(content)
        wrong[len(wrong) // 2] ^= 1
        path.write_bytes(wrong)
        message = rf"^\S*{path.name} is not the official file: .* MD5 digest \w+ instead of \w+. Get it again from http"
        with pytest.raises(DataError, match=message):
            official.open("x", tmp_path)
        path.write_bytes(content)
    official.open("x", tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_missing_and_truncated_official_files_are_refused(tmp_path: Path, form: str) -> None:
    official, _, _, files = small(form, tmp_path)
    unknown = replace(official, spec=replace(official.spec, md5={}))  # so that the content itself must tell
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content[:-3])
        with pytest.raises(DataError, match=rf"{path.name} (has \d+ bytes|was refused|could not be read)"):
            unknown.open("x", tmp_path)
        path.unlink()
        with pytest.raises(DataError, match=r"(does not hold|is incomplete).*(Put|Get|Unpack)"):
            official.open("x", tmp_path)
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("spec", "constants"),
    [
        (CIFAR100, ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), 100, 50_000, 10_000, True)),
        (SVHN, ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970), 10, 73_257, 26_032, False)),
        (OFFICIAL["imagenet10"].spec, ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 10, 0, 0, True)),
    ],
)
def test_constants_of_the_paper(spec: DatasetSpec, constants: tuple[Any, ...]) -> None:
    found = spec.mean, spec.std, len(spec.class_names), spec.train_count, spec.test_count, spec.flips
    assert found == constants


def test_cifar100_takes_the_fine_labels_and_refuses_others(tmp_path: Path) -> None:
    spec, train, test = shrink(CIFAR100, 200, 100)
    write_cifar100(tmp_path, train, test, "bin")
    content = bytearray((tmp_path / "train.bin").read_bytes())
    content[1] = 100  # the fine label of the first image
    (tmp_path / "train.bin").write_bytes(content)
    with pytest.raises(DataError, match=r"train.bin has labels that are not from 0 to 99"):
        cifar.read(tmp_path, spec)


def archive_of(official: OfficialDataset, folder: Path, home: Path) -> OfficialDataset:
    """The dataset in an archive of its official name below the cache folder `home`, which is its only form."""
    place = home / official.spec.name
    place.mkdir(parents=True)
    published = official.archives[0]
    with tarfile.open(place / published.name, "w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder), recursive=False)
    return replace(official, archives=(replace(published, md5=md5_of(place / published.name), length=0),))


@pytest.mark.parametrize("form", ["cifar100 python", "stl10"])
def test_official_archive_in_the_cache_folder_is_read_and_its_digest_checked(tmp_path: Path, form: str) -> None:
    official, train, _, _ = small(form, tmp_path / "files")
    packed = archive_of(official, tmp_path / "files", tmp_path / "home")
    found = packed.find(tmp_path / "home")
    assert found is not None
    assert equal_splits(packed.open("x", found).train, train)
    archive = found / packed.archives[0].name
    assert equal_splits(packed.open("x", archive).train, train)
    archive.write_bytes(archive.read_bytes()[:-1] + b"\1")
    with pytest.raises(DataError, match=f"{archive.name} is not the official file"):
        packed.open("x", found)


def test_archive_with_a_path_outside_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as tar:
        tar.add(__file__, "in/../../escaped")
    with pytest.raises(DataError, match=r"not a plain file"):
        OfficialArchive("x.tar.gz", ("in/",)).unpack(tmp_path / "x.tar.gz", tmp_path / "a" / "b", lambda *_: None)
    assert not list(tmp_path.rglob("escaped"))


def test_svhn_of_the_wrong_layout_is_refused(tmp_path: Path) -> None:
    spec, train, test = shrink(SVHN, 40, 20)
    images, labels = svhn_arrays(train)
    nine = mat_array("y", np.zeros((40, 1), dtype=np.uint8))
    channels_first = mat_array("X", train.images.transpose(1, 2, 3, 0))
    for content, message in (
        (b"\x89HDF\r\n\x1a\n" + bytes(200), "does not begin like a file of MATLAB 5"),
        (mat_file(images), "holds X instead of X and y"),
        (mat_file(channels_first, labels), "holds 40x32x32x3 values of uint8 and 40 labels instead of 40x3x32x32"),
        (mat_file(images, nine), "has labels that are not from 1 to 10"),
        (mat_file(*svhn_arrays(test)), "holds 20x3x32x32 values"),
        (mat_file(*svhn_arrays(train.at(np.arange(40).repeat(2)))), "larger than it may be"),
    ):
        write_svhn(tmp_path, train, test)
        (tmp_path / "train_32x32.mat").write_bytes(content)
        with pytest.raises(DataError, match=rf"train_32x32.mat .*{message}.* Get it again from http"):
            svhn.read(tmp_path, spec)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (mat_file(mat_array("s", np.zeros((2, 2), np.uint8), array_class=1)), "something else than arrays"),
        (mat_file(mat_array("s", np.zeros((2, 2), np.uint8), kind=99)), "unknown type 99"),
        (mat_file(mat_element(14, b"\0" * 16), compressed=False), "flags, dimensions, name and values"),
        (mat_file(mat_element(2, b"12345678"), compressed=False), "element of type 2, which is no array"),
        (mat_file(struct.pack("<II", 15, 4) + b"junk", compressed=False), "compressed element is damaged"),
        (mat_file(b"1234", compressed=False), "ends within the tag"),
        (mat_file(struct.pack("<II", 14, 400) + bytes(8), compressed=False), "is truncated: an element of 400 bytes"),
        (mat_file(mat_array("s", np.zeros((3, 2), np.uint8))[:-8] + bytes(8), compressed=False), None),
    ],
)
def test_broken_files_of_matlab_are_refused(content: bytes, message: str | None) -> None:
    if message is None:
        assert matlab.read_arrays(content, 100)["s"].shape == (2, 3)
        return
    with pytest.raises(ValueError, match=message):
        matlab.read_arrays(content, 100)


def test_values_of_matlab_keep_their_axes_and_types() -> None:
    numbers = np.arange(6, dtype="<f8").reshape(2, 3)
    array = matlab.read_arrays(mat_file(mat_array("d", numbers, 9, 6)), 100)["d"]
    assert array.dtype == np.float64
    assert np.array_equal(array, numbers.T)


def test_stl10_labels_outside_of_the_classes_are_refused(tmp_path: Path) -> None:
    spec, train, test = shrink(STL10, 20, 10)
    write_stl10(tmp_path, train, test)
    (tmp_path / "test_y.bin").write_bytes(bytes(range(10)))
    with pytest.raises(DataError, match=r"test_y.bin has labels from 0 to 9, but they must lie in 1 to 10"):
        stl10.read(tmp_path, spec)


@pytest.mark.parametrize("name", [name for name in OFFICIAL if name not in ("fashion-mnist",)])
def test_absent_dataset_names_the_file_where_to_get_it_and_where_to_put_it(tmp_path: Path, name: str) -> None:
    spec = OFFICIAL[name].spec
    with pytest.raises(DataError) as caught:
        load(name, home=tmp_path)
    message = str(caught.value)
    for part in (spec.files, spec.page, str(tmp_path / name), f"{name}:PATH"):
        assert part in message
    assert "\n" not in message
