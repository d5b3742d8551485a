"""Exports, each read back with the library that its users have."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import mipset
from commands import GOLDEN, WITHOUT_TORCH, Here, done, run
from mipset import Artifact, read
from mipset.cli import files
from mipset.errors import ArtifactError, MissingExtraError, SettingError
from mipset.exchange.exports import FORMATS, export, header, npz, parquet, png, tensors, webdataset
from mipset.exchange.exports.names import CLASSES, LONGEST, distinct, folder_names, identifier
from mipset.file.decoding import decoded

FILES = [name for name in FORMATS if name != "png"]

HOSTILE = [
    *("../../x", "/etc/passwd", "..", ".", "", " ", "~", "-", "CON", "nul.png", "a/b\\c", "x\0", "\0", "\x1b[2J"),
    *("two\nlines", "cat", "Cat", "CAT ", "*/ #error", "/* x", "??/", 'say "no"', "\\", "%s{name}", "\ud800", "猫"),
    *("ﬁ", "é" * 300, "long " * 5000, "classes.json", "sheet.png", "0", "ÀÉ", "$(reboot)", "<b>", "__mipset__"),
]
any_name = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=12))
any_names = st.lists(any_name, min_size=1, max_size=6)
some = settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])


def example(
    channels: int = 3, class_names: tuple[str, ...] = ("cat", "dög"), factor: int = 2, size: tuple[int, int] = (6, 8)
) -> Artifact:
    """Three images of noise in each class."""
    rng = np.random.default_rng(channels)
    return Artifact(
        images=rng.integers(0, 256, (3, len(class_names), channels, *size), dtype=np.uint8),
        factor=factor,
        mean=(0.4914, 0.25, 1e-5, 0.5)[:channels],
        std=(0.2023, 1.0, 0.125, 0.5)[:channels],
        class_names=class_names,
    )


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def pixels_of(picture: Image.Image) -> np.ndarray[Any, Any]:
    """[ch, h, w] of what Pillow opened."""
    found = np.asarray(picture)
    return found[None] if found.ndim == 2 else np.moveaxis(found, -1, 0)


def row_by_row(artifact: Artifact) -> np.ndarray[Any, Any]:
    return artifact.images.reshape(-1, *artifact.images.shape[2:])


class TestNames:
    @given(any_names)
    def test_of_folders_are_harmless(self, class_names: list[str]) -> None:
        folders = folder_names(class_names)
        assert len({folder.lower() for folder in folders}) == len(class_names)
        assert sorted(folders) == folders  # whoever sorts them finds our labels
        for label, folder in enumerate(folders):
            assert re.fullmatch(r"\d+(-[A-Za-z0-9-]*[A-Za-z0-9])?", folder)
            assert int(folder.partition("-")[0]) == label
            assert len(folder) <= LONGEST + 3

    @pytest.mark.parametrize(
        ("name", "folder"),
        [
            ("T-shirt/top", "0-T-shirt-top"),
            ("dög", "0-dog"),
            ("../../x", "0-x"),
            ("CON", "0-CON"),
            ("", "0"),
            ("猫", "0"),
        ],
    )
    def test_of_folders_are_readable(self, name: str, folder: str) -> None:
        assert folder_names([name]) == [folder]

    def test_of_many_folders_are_in_order(self) -> None:
        assert folder_names(["x"] * 11)[::5] == ["00-x", "05-x", "10-x"]

    @given(any_names)
    def test_made_distinct(self, class_names: list[str]) -> None:
        found = distinct(class_names)
        assert len(set(found)) == len(class_names)
        "".join(found).encode("utf-8")
        for before, after in zip(class_names, found, strict=True):
            if class_names.count(before) == 1 and after != before:
                assert after.startswith(before.encode("utf-8", "replace").decode("utf-8"))

    def test_that_repeat_are_counted(self) -> None:
        assert distinct(["a", "a", "a (2)", "a"]) == ["a", "a (2)", "a (2) (2)", "a (3)"]

    def test_that_all_repeat_are_counted_in_a_moment(self) -> None:
        names = ["x"] * 5000
        start = time.process_time()
        assert distinct(names)[-2:] == ["x (4999)", "x (5000)"]
        assert time.process_time() - start < 2

    @given(any_name)
    def test_for_c(self, stem: str) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", identifier(stem))

    @pytest.mark.parametrize(
        ("stem", "name"),
        [("digits", "digits"), ("My set-2", "my_set_2"), ("2nd", "set_2nd"), ("_x_", "x"), ("猫", "mipset")],
    )
    def test_for_c_are_close_to_the_files(self, stem: str, name: str) -> None:
        assert identifier(stem) == name


class TestPng:
    @pytest.mark.parametrize("channels", [1, 3])
    def test_pillow_opens_every_image(self, tmp_path: Path, channels: int) -> None:
        given, out = example(channels), tmp_path / "out"
        export(given, "png", out)
        pictures = {f"{folder}/000{rank}.png" for folder in ("0-cat", "1-dog") for rank in range(3)}
        assert names(out) == {"0-cat", "1-dog", "classes.json", "sheet.png", *pictures}
        for rank in range(3):
            for c, folder in enumerate(("0-cat", "1-dog")):
                with Image.open(out / folder / f"000{rank}.png") as picture:
                    assert picture.format == "PNG"
                    np.testing.assert_array_equal(pixels_of(picture), given.images[rank, c])
        with Image.open(out / "sheet.png") as sheet:
            assert sheet.mode == "RGB"
        assert json.loads((out / "classes.json").read_text("utf-8")) == {
            "classes": [
                {"label": 0, "name": "cat", "folder": "0-cat"},
                {"label": 1, "name": "dög", "folder": "1-dog"},
            ],
            "factor": 2,
            "mean": list(given.mean),
            "std": list(given.std),
        }
        assert names(tmp_path) == {"out", *(f"out/{name}" for name in names(out))}

    @some
    @given(class_names=any_names, channels=st.sampled_from([1, 3]), height=st.integers(2, 9), width=st.integers(2, 9))
    def test_no_class_name_leads_out_of_the_folder(
        self, tmp_path_factory: pytest.TempPathFactory, class_names: list[str], channels: int, height: int, width: int
    ) -> None:
        root = tmp_path_factory.mktemp("names")
        export(example(channels, tuple(class_names), 1, (height, width)), "png", root / "out")
        assert {entry.name for entry in root.iterdir()} == {"out"}
        listed = json.loads((root / "out" / "classes.json").read_text("utf-8"))["classes"]
        assert [entry["name"] for entry in listed] == class_names
        assert [entry["label"] for entry in listed] == list(range(len(class_names)))
        folders = {entry["folder"] for entry in listed}
        assert {entry.name for entry in (root / "out").iterdir()} == {*folders, "classes.json", "sheet.png"}
        assert all(len(list((root / "out" / folder).iterdir())) == 3 for folder in folders)

    def test_a_prefix_is_the_first_pictures(self, tmp_path: Path) -> None:
        given = example()
        export(given, "png", tmp_path / "whole")
        export(given.prefix(2), "png", tmp_path / "part")
        for path in (tmp_path / "part").glob("*/*.png"):
            whole = tmp_path / "whole" / path.relative_to(tmp_path / "part")
            assert path.read_bytes() == whole.read_bytes()

    def test_an_empty_folder_is_filled(self, tmp_path: Path) -> None:
        export(example(), "png", tmp_path)
        assert (tmp_path / "sheet.png").exists()

    def test_other_folders_are_left_alone(self, tmp_path: Path) -> None:
        """With force, too: a folder is replaced only if all that is in it was exported."""
        out = tmp_path / "out"
        export(example(), "png", out)
        with pytest.raises(ArtifactError, match="exists already: choose another --out, or add --force"):
            export(example(), "png", out)
        export(example().prefix(1), "png", out, force=True)
        assert not (out / "0-cat" / "0001.png").exists()
        for place in ("thesis.tex", "0-cat/notes.txt", "2-bird/0000.png", "0-cat/0/x", "0-cat/cat.png"):
            mine = out / place
            mine.parent.mkdir(exist_ok=True, parents=True)
            mine.touch()
            with pytest.raises(ArtifactError, match="holds more than an export"):
                export(example(), "png", out, force=True)
            assert mine.exists()
            mine.unlink()
            if not any(mine.parent.iterdir()):
                mine.parent.rmdir()
        export(example(), "png", out, force=True)
        for damaged in ("", "[]", '{"classes": [1]}', '{"classes": [{"folder": []}]}', "\ufffe"):
            (out / CLASSES).write_text(damaged, "utf-8")
            assert not png.is_export(out)
        (out / CLASSES).unlink()
        assert not png.is_export(out)

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("mine")
        with pytest.raises(ArtifactError, match="exists already"):
            export(example(), "png", tmp_path / "out")
        with pytest.raises(ArtifactError, match="is a file: name a folder"):
            export(example(), "png", tmp_path / "out", force=True)
        with pytest.raises(ArtifactError, match="there is no folder"):
            export(example(), "png", tmp_path / "nowhere" / "out")

    @pytest.mark.parametrize("there", [False, True])
    def test_is_whole_or_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
        out = tmp_path / "out"
        if there:
            export(example().prefix(1), "png", out)
        before = {path: path.read_bytes() for path in out.rglob("*.*")}
        whole, left = Path.write_bytes, [3]

        def full(path: Path, content: Any) -> int:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return whole(path, content)

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(ArtifactError, match="out cannot be written: No space left on device"):
            export(example(), "png", out, force=True)
        monkeypatch.undo()
        assert {path: path.read_bytes() for path in out.rglob("*.*")} == before
        assert names(tmp_path) == ({"out", *(f"out/{name}" for name in names(out))} if there else set())

    def test_a_folder_comes_back_if_it_cannot_be_replaced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "out"
        export(example().prefix(1), "png", out)
        before = names(out)
        rename = Path.rename

        def never(path: Path, target: Path) -> Path:
            if path.suffix == ".part":
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", never)
        with pytest.raises(ArtifactError, match="cannot be written: Permission denied"):
            export(example(), "png", out, force=True)
        assert names(out) == before
        assert {entry.name for entry in tmp_path.iterdir()} == {"out"}

    def test_it_may_be_read_by_whoever_may_read_files(self, tmp_path: Path) -> None:
        (tmp_path / "usual").mkdir()
        export(example(), "png", tmp_path / "out")
        assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode

    def test_a_link_stays_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "place").mkdir()
        (tmp_path / "out").symlink_to(tmp_path / "place")
        for force in (False, True):
            export(example(), "png", tmp_path / "out", force=force)
        assert (tmp_path / "out").is_symlink()
        assert (tmp_path / "place" / "sheet.png").exists()


class TestNpz:
    @pytest.mark.parametrize("channels", [1, 2, 3, 4])
    def test_numpy_opens_it(self, tmp_path: Path, channels: int) -> None:
        given = example(channels)
        export(given, "npz", tmp_path / "set.npz")
        with np.load(tmp_path / "set.npz", allow_pickle=False) as arrays:
            assert set(arrays) == {"images", "labels", "class_names", "mean", "std", "factor"}
            assert arrays["images"].dtype == np.uint8
            np.testing.assert_array_equal(arrays["images"], row_by_row(given))
            assert arrays["labels"].tolist() == [0, 1, 0, 1, 0, 1]
            assert arrays["class_names"].tolist() == ["cat", "dög"]
            assert tuple(arrays["mean"]) == given.mean
            assert tuple(arrays["std"]) == given.std
            assert arrays["factor"] == 2

    @given(any_names)
    def test_class_names_survive(self, class_names: list[str]) -> None:
        with np.load(io.BytesIO(npz.content(example(1, tuple(class_names)))), allow_pickle=False) as arrays:
            assert arrays["class_names"].tolist() == [name.replace("\0", "\ufffd") for name in class_names]

    def test_one_long_name_does_not_make_all_names_long(self) -> None:
        """Of numpy's strings each has room for the longest: here that would be 400 MB."""
        long = example(1, ("x" * 100_000, *map(str, range(999))), 1, (2, 2))
        with pytest.raises(ArtifactError, match=r"^a class name of 100,000 letters is too long for npz"):
            npz.content(long)

    def test_it_is_a_dataset_for_mipset_itself(self, tmp_path: Path) -> None:
        given = decoded(example())
        export(given, "npz", tmp_path / "set.npz")
        data = mipset.load(f"npz:{tmp_path / 'set.npz'}")
        assert data.class_names == given.class_names
        assert data.mean == given.mean
        assert len(data.train) + len(data.test) == given.ipc * 2


@pytest.fixture(scope="module")
def hugging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Hugging Face `datasets`, kept from the network and from the user's own cache."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HF_HUB_OFFLINE", "1")
        environment.setenv("HF_HOME", str(tmp_path_factory.mktemp("hugging")))
        datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
        datasets.disable_progress_bars()
        yield datasets


class TestParquet:
    @pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
    def test_datasets_opens_it(self, tmp_path: Path, hugging: Any, channels: int, mode: str) -> None:
        given, out = example(channels), tmp_path / "set.parquet"
        export(given, "parquet", out)
        rows = hugging.load_dataset("parquet", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache"))
        assert rows.features == hugging.Features(
            {"image": hugging.Image(), "label": hugging.ClassLabel(names=["cat", "dög"])}
        )
        assert rows["label"][:] == [0, 1, 0, 1, 0, 1]
        for row, expected in zip(rows, row_by_row(given), strict=True):
            assert row["image"].mode == mode
            np.testing.assert_array_equal(pixels_of(row["image"]), expected)

    @some
    @given(class_names=any_names)
    def test_datasets_accepts_any_class_names(self, hugging: Any, class_names: list[str]) -> None:
        pq = pytest.importorskip("pyarrow.parquet")
        table = pq.read_table(io.BytesIO(parquet.content(example(1, tuple(class_names)))))
        features = hugging.Features.from_arrow_schema(table.schema)
        assert features["label"].names == distinct(class_names)
        kept = json.loads(table.schema.metadata[b"mipset"])
        assert [entry["name"] for entry in kept["classes"]] == class_names
        assert kept["factor"] == 2

    def test_pyarrow_opens_it(self) -> None:
        pq = pytest.importorskip("pyarrow.parquet")
        given = example()
        table = pq.read_table(io.BytesIO(parquet.content(given)))
        assert table.column("label").to_pylist() == [0, 1, 0, 1, 0, 1]
        rows = table.column("image").to_pylist()
        assert [row["path"] for row in rows][:3] == ["0-cat/0000.png", "1-dog/0000.png", "0-cat/0001.png"]
        with Image.open(io.BytesIO(rows[1]["bytes"])) as picture:
            np.testing.assert_array_equal(pixels_of(picture), given.images[0, 1])

    def test_pyarrow_is_named_where_it_is_missing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(MissingExtraError, match=r'needs pyarrow, .* run pip install "mipset\[export\]"\.$'):
            export(example(), "parquet", tmp_path / "set.parquet")
        assert names(tmp_path) == set()


class TestWebDataset:
    @pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.parametrize("channels", [1, 3])
    def test_webdataset_opens_it(self, tmp_path: Path, channels: int) -> None:
        library = pytest.importorskip("webdataset", reason="the webdataset package is not installed")
        given, out = example(channels), tmp_path / "set.tar"
        export(given, "webdataset", out)
        samples = list(library.WebDataset(str(out), shardshuffle=False).decode("pil"))
        assert [sample["__key__"] for sample in samples] == [f"{i:06d}" for i in range(6)]
        assert [sample["cls"] for sample in samples] == [0, 1, 0, 1, 0, 1]
        for sample, expected in zip(samples, row_by_row(given), strict=True):
            np.testing.assert_array_equal(  # the library makes all pictures RGB
                pixels_of(sample["png"]), np.broadcast_to(expected, (3, *expected.shape[1:]))
            )

    @given(any_names)
    def test_tar_lists_the_names_we_chose(self, class_names: list[str]) -> None:
        content = webdataset.content(example(1, tuple(class_names), size=(4, 4)))
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            expected = [f"{i:06d}.{kind}" for i in range(3 * len(class_names)) for kind in ("png", "cls")]
            assert tar.getnames() == ["__mipset__/classes.json", *expected]
            aside = tar.extractfile("__mipset__/classes.json")
            assert aside is not None
            assert [entry["name"] for entry in json.load(aside)["classes"]] == class_names


class TestTensors:
    @pytest.mark.parametrize("channels", [1, 2, 3])
    def test_torch_opens_it(self, tmp_path: Path, channels: int) -> None:
        given = example(channels)
        export(given, "pt", tmp_path / "set.pt")
        found = torch.load(tmp_path / "set.pt", weights_only=True)
        assert set(found) == {"images", "labels", "class_names", "mean", "std", "factor"}
        np.testing.assert_array_equal(found["images"].numpy(), row_by_row(given))
        assert found["images"].dtype == torch.uint8
        assert found["labels"].tolist() == [0, 1, 0, 1, 0, 1]
        assert found["labels"].dtype == torch.int64
        assert found["class_names"] == ["cat", "dög"]
        assert found["mean"] == list(given.mean)
        assert found["std"] == list(given.std)
        assert found["factor"] == 2

    @given(any_names)
    def test_class_names_survive(self, class_names: list[str]) -> None:
        content = io.BytesIO(tensors.content(example(1, tuple(class_names), size=(4, 4))))
        assert torch.load(content, weights_only=True)["class_names"] == class_names

    def test_torch_is_named_where_it_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(MissingExtraError, match=r'pip install "mipset\[condense\]"'):
            tensors.content(example())


PROGRAM = """
#include "%s.h"
#include <stdio.h>
int main(void) {
    int i;
    printf("%%d %%d %%d %%d %%d %%d\\n", P(RANKS), P(CLASSES), P(CHANNELS), P(HEIGHT), P(WIDTH), P(FACTOR));
    printf("%%d %%d %%d\\n", P(IMAGES), P(IMAGE_BYTES), P(RANK_BYTES));
    for (i = 0; i < P(CHANNELS); i++) printf("%%.9g %%.9g ", p(mean)[i], p(std)[i]);
    printf("\\n");
    for (i = 0; i < P(IMAGES); i++) printf("%%d ", P(LABEL)(i));
    printf("\\n");
    for (i = 0; i < (int)sizeof p(images); i++) printf("%%d ", p(images)[i]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("gcc")
    if found is None:
        pytest.skip("there is no gcc")
    return found


def compiled(compiler: str, folder: Path, artifact: Artifact, stem: str = "digits") -> list[list[float]]:
    """What a C program finds in the header: all its numbers, line by line."""
    export(artifact, "c", folder / f"{stem}.h", force=True)
    name = identifier(stem)
    defines = f"#define P(x) {name.upper()}_##x\n#define p(x) {name}_##x\n"
    (folder / "main.c").write_text(defines + PROGRAM % stem, "utf-8")
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *strict, "main.c", "-o", "main"], cwd=folder, check=True)
    printed = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    return [[float(number) for number in line.split()] for line in printed.splitlines()]


class TestHeader:
    @pytest.mark.parametrize("channels", [1, 2, 3])
    @pytest.mark.parametrize("factor", [1, 2])
    def test_a_program_finds_every_pixel(self, tmp_path: Path, compiler: str, channels: int, factor: int) -> None:
        given = example(channels, factor=factor)
        shape, sizes, scale, labels, pixels = compiled(compiler, tmp_path, given)
        assert shape == [3, 2, channels, 6, 8, factor]
        assert sizes == [6, channels * 48, 2 * channels * 48]
        assert scale == pytest.approx([value for pair in zip(given.mean, given.std, strict=True) for value in pair])
        assert labels == [0, 1, 0, 1, 0, 1]
        assert pixels == given.images.reshape(-1).tolist()

    @some
    @given(class_names=any_names, stem=st.sampled_from(["2 sets-of_x", "int", "ö"]))
    def test_nothing_in_a_name_is_code(self, tmp_path: Path, compiler: str, class_names: list[str], stem: str) -> None:
        given = example(1, tuple(class_names), size=(4, 4))
        assert compiled(compiler, tmp_path, given, stem)[-1] == given.images.reshape(-1).tolist()

    def test_every_hostile_name_at_once(self, tmp_path: Path, compiler: str) -> None:
        given = example(1, tuple(HOSTILE), size=(2, 2))
        assert compiled(compiler, tmp_path, given)[-1] == given.images.reshape(-1).tolist()

    def test_a_comment_tells_sizes_and_labels(self) -> None:
        text = header.content(example(), "digits").decode("ascii")
        assert "3 images for each of 2 classes, 3 x 6 x 8 pixels." in text
        assert "Flash: 864 bytes of pixels and 24 bytes for mean and std." in text
        assert '   0 "cat"\n   1 "d\\u00f6g"\n*/' in text
        assert "2 x 2 training images" in text
        assert "training images" not in header.content(decoded(example()), "digits").decode("ascii")
        assert "#ifndef DIGITS_H\n#define DIGITS_H\n" in text

    @pytest.mark.parametrize("std", [1e-60, 1e60])
    def test_a_scale_that_is_no_float(self, std: float) -> None:
        given = Artifact(np.zeros((1, 1, 1, 2, 2), np.uint8), 1, (0.5,), (std,), ("x",))
        with pytest.raises(ArtifactError, match="must fit into a float of C, but are 1e"):
            header.content(given, "x")


class TestAll:
    @pytest.mark.parametrize("to", FORMATS)
    def test_the_same_set_gives_the_same_bytes(self, tmp_path: Path, to: str) -> None:
        found = []
        for folder in (tmp_path / "a", tmp_path / "b"):
            folder.mkdir()
            export(example(), to, folder / "set")
            written = (path for path in folder.rglob("*") if path.is_file())
            found.append({path.relative_to(folder): path.read_bytes() for path in written})
        assert found[0] == found[1]

    @pytest.mark.parametrize("to", FILES)
    def test_files_are_not_overwritten(self, tmp_path: Path, to: str) -> None:
        out = tmp_path / "out"
        out.write_bytes(b"precious")
        with pytest.raises(ArtifactError, match="exists already"):
            export(example(), to, out)
        assert out.read_bytes() == b"precious"
        export(example(), to, out, force=True)
        assert out.read_bytes() != b"precious"
        with pytest.raises(ArtifactError, match="is a folder"):
            export(example(), to, tmp_path, force=True)
        with pytest.raises(ArtifactError, match="there is no folder"):
            export(example(), to, tmp_path / "nowhere" / "out")

    @pytest.mark.parametrize("to", FILES)
    def test_files_are_whole_or_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ArtifactError, match="out cannot be written: No space left on device"):
            export(example(), to, tmp_path / "out")
        assert names(tmp_path) == set()

    @pytest.mark.parametrize("to", ["png", "parquet", "webdataset"])
    def test_pictures_have_one_or_three_channels(self, tmp_path: Path, to: str) -> None:
        with pytest.raises(ArtifactError, match="images of 2 channels cannot be PNG files"):
            export(example(2), to, tmp_path / "out")
        assert names(tmp_path) == set()

    @pytest.mark.parametrize("to", ["png", "parquet", "webdataset"])
    def test_pillow_is_named_where_it_is_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
    ) -> None:
        monkeypatch.setitem(sys.modules, "PIL", None)
        with pytest.raises(MissingExtraError, match=r'needs Pillow, .* run pip install "mipset\[export\]"\.$'):
            export(example(), to, tmp_path / "out")
        assert names(tmp_path) == set()

    def test_other_formats_are_unknown(self, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match="'gif' to export to: choose png, npz, parquet, webdataset, pt or c"):
            export(example(), "gif", tmp_path / "out")

    @pytest.mark.parametrize("to", ["png", "npz", "c"])
    def test_some_need_no_torch(self, tmp_path: Path, to: str) -> None:
        done(run("export", GOLDEN, "--to", to, "--out", "out", "--decoded", code=WITHOUT_TORCH, cwd=tmp_path))
        assert (tmp_path / "out").exists()


class TestCommand:
    def test_knows_the_formats(self) -> None:
        assert files.EXPORTS == FORMATS

    @pytest.mark.parametrize("to", FORMATS)
    def test_writes_every_format(self, tmp_path: Path, here: Here, to: str) -> None:
        said = here("export", GOLDEN, "--to", to, "--out", tmp_path / "out")
        assert re.fullmatch(rf"{tmp_path / 'out'}: 3 images for each of 2 classes, [\d.]+ k?B\n", said)

    def test_sizes_and_decoding(self, tmp_path: Path, here: Here) -> None:
        out = tmp_path / "out.npz"
        here("export", GOLDEN, "--to", "npz", "--out", out, "--ipc", 1)
        whole = read(GOLDEN)
        with np.load(out) as arrays:
            np.testing.assert_array_equal(arrays["images"], whole.images[0])
        here("export", GOLDEN, "--to", "npz", "--out", out, "--ipc", 2, "--decoded", "--force")
        with np.load(out) as arrays:
            np.testing.assert_array_equal(arrays["images"], row_by_row(decoded(whole.prefix(2))))
            assert arrays["labels"].tolist() == [0, 1] * 8
            assert arrays["factor"] == 1

    def test_refusals_are_one_sentence(self, tmp_path: Path, refusal: Here) -> None:
        own = tmp_path / "own.safetensors"
        shutil.copy(GOLDEN, own)
        taken = tmp_path / "taken"
        taken.touch()
        new = tmp_path / "new"
        for arguments, reason in (
            ((own, "--to", "npz", "--out", own, "--force"), "would overwrite the file itself"),
            ((own, "--to", "npz", "--out", taken), "exists already"),
            ((own, "--to", "gif", "--out", new), "invalid choice: 'gif'"),
            ((own, "--to", "npz", "--out", new, "--ipc", 4), "choose from 1 to 3"),
            ((own, "--to", "npz", "--out", new, "--ipc", 0), "choose from 1 to 3"),
            ((tmp_path / "none", "--to", "npz", "--out", new), "there is no file"),
            ((own, "--to", "npz"), "required: --out"),
            ((own, "--out", new), "required: --to"),
        ):
            assert reason in refusal("export", *arguments)
        assert names(tmp_path) == {"own.safetensors", "taken"}
        assert own.read_bytes() == GOLDEN.read_bytes()
