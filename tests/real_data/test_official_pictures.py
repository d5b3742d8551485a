"""ImageNet subsets, Tiny-ImageNet and EuroSAT: small sets in the official layouts, and what is refused."""

from __future__ import annotations

import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mipset.data import fetch, load, pictures
from mipset.data.class_names import EUROSAT, IMAGENET10, IMAGENETTE, TINY_IMAGENET
from mipset.data.official import OFFICIAL, OfficialDataset
from mipset.errors import DataError, SettingError
from official_files import md5_of, pattern, save, write_eurosat, write_imagenet, write_tiny_imagenet


def as_torchvision(path: Path, resolution: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Resize to 8/7 of the resolution and CenterCrop, as torchvision computes them."""
    picture = Image.open(path).convert("RGB")
    short, (width, height) = round(resolution * 8 / 7), picture.size
    size = (short, int(short * height / width)) if width <= height else (int(short * width / height), short)
    picture = picture.resize(size, Image.Resampling.BILINEAR)
    left, top = (round((side - resolution) / 2.0) for side in picture.size)
    return np.asarray(picture.crop((left, top, left + resolution, top + resolution))).transpose(2, 0, 1)


@pytest.mark.parametrize("size", [(40, 57), (83, 40), (256, 300), (500, 375), (224, 224), (33, 33)])
def test_photographs_are_scaled_and_cropped_as_by_torchvision(tmp_path: Path, size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, *size), dtype=np.uint8)
    save(noise, tmp_path / "x.JPEG")
    for resolution in (224, 32):
        ours = pictures.photograph(tmp_path / "x.JPEG", resolution).astype(int)
        assert ours.shape == (3, resolution, resolution)
        assert np.abs(ours - as_torchvision(tmp_path / "x.JPEG", resolution)).max() <= 1


def test_imagenet10_has_the_ten_classes_of_the_paper_in_their_order(tmp_path: Path) -> None:
    classes = tuple(IMAGENET10)
    assert classes[:3] == ("n02869837", "n01749939", "n02488291")
    write_imagenet(tmp_path / "imagenet", (*classes, "n99999999"), 2, 1)
    data = load("imagenet10", home=tmp_path)  # the folder of all of ImageNet has them too
    assert (data.name, data.shape, data.classes) == ("imagenet10", (3, 224, 224), 10)
    assert data.class_names[0] == "bonnet"
    assert data.train.labels.tolist() == [label for label in range(10) for _ in range(2)]
    first = tmp_path / "imagenet" / "train" / "n02869837" / "n02869837_1.JPEG"
    assert np.array_equal(data.train.images[1], pictures.photograph(first, 224))
    assert data.train.files[1] == str(first.relative_to(tmp_path / "imagenet"))
    small = load(f"imagenet10:{tmp_path / 'imagenet'}", resolution=32)
    assert small.shape == (3, 32, 32)


def test_imagenet10_takes_the_memory_of_its_bytes_once(tmp_path: Path) -> None:
    write_imagenet(tmp_path, tuple(IMAGENET10), 5, 1, height=8)
    load(f"imagenet10:{tmp_path}", resolution=8)  # whatever the first call imports
    tracemalloc.start()
    data = load(f"imagenet10:{tmp_path}")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    array = data.train.images.nbytes + data.test.images.nbytes
    assert array == 60 * 3 * 224 * 224
    assert peak < 1.25 * array
    assert data.train.images.base is data.test.images.base  # one array for both


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "no val",
            r"there is no folder val. Put ILSVRC2012_img_train.tar .* there, unpacked as train/nXXXXXXXX and val",
        ),
        ("flat val", r"\S*val holds no class folders. Get ILSVRC2012_img_train.tar .* again from http"),
        ("no class", r"the class folder n02488291 is not in \S*train. Get ILSVRC2012_img_train.tar"),
        ("empty class", r"the class folder \S*n02488291 holds no pictures. Get ILSVRC2012_img_train.tar"),
        (
            "truncated",
            r"1 of 30 pictures could not be read: \S*n02869837_0.JPEG \(.*\). Get ILSVRC2012.* again from http",
        ),
        (
            "text",
            r"1 of 30 pictures could not be read: \S*n02869837_0.JPEG \(not a PNG.*\). Get ILSVRC2012.* again from",
        ),
    ],
)
def test_imagenet10_of_the_wrong_layout_is_refused(tmp_path: Path, change: str, message: str) -> None:
    write_imagenet(tmp_path, tuple(IMAGENET10), 2, 1)
    third, picture = tmp_path / "train" / "n02488291", tmp_path / "train" / "n02869837" / "n02869837_0.JPEG"
    match change:
        case "no val":
            (tmp_path / "val").rename(tmp_path / "other")
        case "flat val":
            (tmp_path / "val").rename(tmp_path / "other")
            save(pattern(0, 9, 9), tmp_path / "val" / "ILSVRC2012_val_00000001.JPEG")
        case "no class":
            third.rename(tmp_path / "elsewhere")
        case "empty class":
            for path in third.iterdir():
                path.unlink()
        case "truncated":
            picture.write_bytes(picture.read_bytes()[:-200])
        case "text":
            picture.write_text("not found")
    with pytest.raises(DataError, match=rf"^(\S* does not hold )?imagenet10: {message}"):
        load(f"imagenet10:{tmp_path}")


def test_imagenet10_cannot_be_fetched_and_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^imagenet10 cannot be fetched by a program. Get ILSVRC2012_img_train.tar"):
        fetch("imagenet10", home=tmp_path)


def test_any_classes_of_imagenet_are_loaded_by_their_folders(tmp_path: Path) -> None:
    write_imagenet(tmp_path, ("n01", "n02", "n03"), 3, 2)
    (tmp_path / "test").mkdir()  # the official test pictures have no labels
    whole = load(f"imagenet:{tmp_path}", resolution=16)
    assert (whole.class_names, len(whole.train), len(whole.test)) == (("n01", "n02", "n03"), 9, 6)
    two = load(f"imagenet:{tmp_path}:classes=n03,n01", resolution=16)
    assert two.class_names == ("n03", "n01")
    assert np.array_equal(two.train.images[0], whole.train.images[6])
    assert load(two.name, resolution=16).sha256 == two.sha256
    assert two.mean == (0.485, 0.456, 0.406)
    with pytest.raises(DataError, match=r"the class folder n04 is not in \S*train"):
        load(f"imagenet:{tmp_path}:classes=n03,n04")
    (tmp_path / "train" / "n01" / "n01_0.JPEG").write_bytes(b"")
    with pytest.raises(DataError, match=r"1 of 15 pictures could not be read: .*`skip_bad`"):
        load(f"imagenet:{tmp_path}", resolution=16)
    fewer = load(f"imagenet:{tmp_path}", resolution=16, skip_bad=True)
    assert len(fewer.train) == 8
    assert "1 of 15 pictures could not be read and was left out" in fewer.notes[0]


def small_imagenette(folder: Path) -> OfficialDataset:
    write_imagenet(folder / "imagenette2", tuple(IMAGENETTE), 3, 1)
    official = OFFICIAL["imagenette"]
    return replace(official, spec=replace(official.spec, train_count=30, test_count=10))


def test_imagenette_is_read_and_an_incomplete_one_refused(tmp_path: Path) -> None:
    official = small_imagenette(tmp_path)
    data = official.open("imagenette", tmp_path)
    assert (data.shape, data.class_names[0], len(data.test)) == ((3, 224, 224), "tench", 10)
    (tmp_path / "imagenette2" / "train" / "n03888257" / "n03888257_1.JPEG").unlink()
    with pytest.raises(
        DataError, match=r"29 training images, but imagenette has 30. Get imagenette2.tgz again from http"
    ):
        official.open("imagenette", tmp_path)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("imagenette", "imagenette2.tgz from https://github.com/fastai/imagenette there, packed or unpacked."),
        (
            "imagenet10",
            "ILSVRC2012.* from https://image-net.org/download.php there, unpacked as train/nX+ and val/nX+.",
        ),
    ],
)
def test_folder_without_photographs_says_what_to_put_there(tmp_path: Path, name: str, advice: str) -> None:
    with pytest.raises(
        DataError, match=rf"^{tmp_path} does not hold {name}: there is no folder train or val. Put {advice}$"
    ):
        load(f"{name}:{tmp_path}")


def test_stored_imagenette_has_one_resolution(tmp_path: Path) -> None:
    from mipset.data import cache

    official = small_imagenette(tmp_path / "files")
    data = official.open("imagenette", tmp_path / "files", 32)
    cache.write_splits(tmp_path / "imagenette.npz", data.train, data.test)
    with pytest.raises(SettingError, match=r"`resolution` is 64, but .*imagenette.npz holds images of 32x32"):
        official.open("imagenette", tmp_path, 64)


def small_tiny_imagenet(folder: Path) -> tuple[OfficialDataset, list[str]]:
    classes = TINY_IMAGENET[:4]
    official = OFFICIAL["tiny-imagenet"]
    spec = replace(official.spec, class_names=classes, train_count=12, test_count=8)
    return replace(official, spec=spec), write_tiny_imagenet(folder / "tiny-imagenet-200", classes, 3, 2)


def test_tiny_imagenet_is_read_with_its_list_of_validation_pictures(tmp_path: Path) -> None:
    assert (len(TINY_IMAGENET), TINY_IMAGENET[0], TINY_IMAGENET[-1]) == (200, "n01443537", "n12267677")
    official, order = small_tiny_imagenet(tmp_path)
    data = official.open("tiny-imagenet", tmp_path)
    assert (data.shape, len(data.train), len(data.test)) == ((3, 64, 64), 12, 8)
    assert np.bincount(data.test.labels).tolist() == [2] * 4
    for label, file, image in zip(data.test.labels, data.test.files, data.test.images, strict=True):
        number = int(Path(file).stem.removeprefix("val_"))
        assert order[number] == data.class_names[label]
        expected = Image.open(tmp_path / "tiny-imagenet-200" / file)
        assert np.array_equal(image, np.asarray(expected).transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "no list",
            "hold tiny-imagenet: there is no val/val_annotations.txt. Put tiny-imagenet-200.zip from http",
        ),
        ("bad list", r"val_annotations.txt is damaged: line 2 is .* instead of a picture and one of the 4 classes"),
        ("escape", r"val_annotations.txt is damaged: line 1 is "),
        ("no picture", r"is incomplete: val_3.JPEG is in \S*, but not in "),
        ("no class", r"is incomplete: there are no pictures in \S*n01443537"),
        ("fewer", "there are 11 training images, but tiny-imagenet has 12"),
        ("size", r"_1.JPEG .it has 32x64 pixels instead of 64x64.. Get tiny-imagenet-200.zip again from http"),
    ],
)
def test_tiny_imagenet_of_the_wrong_layout_is_refused(tmp_path: Path, change: str, message: str) -> None:
    official, _ = small_tiny_imagenet(tmp_path)
    root = tmp_path / "tiny-imagenet-200"
    annotations, images = root / "val" / "val_annotations.txt", root / "train" / "n01443537" / "images"
    lines = annotations.read_text().splitlines()
    match change:
        case "no list":
            annotations.unlink()
        case "bad list":
            annotations.write_text("\n".join([lines[0], "val_1.JPEG n01443537", *lines[2:]]))
        case "escape":
            annotations.write_text("\n".join([f"../{lines[0]}", *lines[1:]]))
        case "no picture":
            (root / "val" / "images" / "val_3.JPEG").unlink()
        case "no class":
            images.rename(root / "elsewhere")
        case "fewer":
            (images / "n01443537_1.JPEG").unlink()
        case "size":
            save(pattern(0, 32, 64), images / "n01443537_1.JPEG")
    with pytest.raises(DataError, match=message):
        official.open("tiny-imagenet", tmp_path)


def small_eurosat(folder: Path) -> OfficialDataset:
    write_eurosat(folder / "2750", 5)
    official = OFFICIAL["eurosat"]
    return replace(official, spec=replace(official.spec, train_count=40, test_count=10))


def test_eurosat_has_a_test_split_that_is_always_the_same(tmp_path: Path) -> None:
    official = small_eurosat(tmp_path)
    data = official.open("eurosat", tmp_path)
    assert (data.shape, data.class_names) == ((3, 64, 64), EUROSAT)
    assert np.bincount(data.test.labels).tolist() == [1] * 10
    assert not {*data.train.files} & {*data.test.files}
    assert official.open("eurosat", tmp_path / "2750").test.files == data.test.files
    (tmp_path / "2750" / "River" / "River_2.jpg").unlink()
    with pytest.raises(DataError, match=r"there are 39 training images, but eurosat has 40"):
        official.open("eurosat", tmp_path)
    (tmp_path / "2750" / "River").rename(tmp_path / "River")
    with pytest.raises(
        DataError, match=r"not hold eurosat: it needs the class folders AnnualCrop, .* Put EuroSAT.zip from http"
    ):
        official.open("eurosat", tmp_path)


def test_zip_archive_of_pictures_is_read_and_its_digest_checked(tmp_path: Path) -> None:
    official = small_eurosat(tmp_path / "files")
    home = tmp_path / "home" / "eurosat"
    home.mkdir(parents=True)
    archive = home / "EuroSAT.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in sorted((tmp_path / "files").rglob("*.jpg")):
            zipped.write(path, path.relative_to(tmp_path / "files"))
    packed = replace(official, archives=(replace(official.archives[0], md5=md5_of(archive)),))
    assert packed.find(tmp_path / "home") == home
    assert packed.open("eurosat", home).sha256 == official.open("eurosat", tmp_path / "files").sha256
    archive.write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"EuroSAT.zip is not the official file"):
        packed.open("eurosat", home)
