"""The C program of examples/c trains from the header of a condensed set."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from export_sets import small_set
from mipset import Artifact
from mipset.data import Split
from mipset.file.decoding import decode

EXAMPLES = Path(__file__).parent.parent / "examples"
SOURCE = EXAMPLES / "c" / "train.c"
COMPILER = shutil.which("cc")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc)")


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("c_training")


def stripes(count: int, rng: np.random.Generator) -> Split:
    """Noise with rows (class 0), columns (class 1) or nothing (class 2)."""
    labels = np.arange(count) % 3
    images = rng.integers(0, 100, (count, 1, 12, 12))
    images[labels == 0, :, ::4] += 120
    images[labels == 1, :, :, ::4] += 120
    return Split(images.astype(np.uint8), labels)


@pytest.mark.parametrize(("factor", "size"), [(1, (4, 5)), (2, (7, 5)), (3, (10, 8))])
@pytest.mark.parametrize("channels", [1, 3])
def test_program_decodes_as_python_does(
    tmp_path: Path, example: ModuleType, channels: int, factor: int, size: tuple[int, int]
) -> None:
    condensed = small_set(channels, factor=factor, size=size)
    program = example.compiled(condensed, tmp_path, COMPILER)
    written = subprocess.run([program, "--images", "2"], capture_output=True, check=True).stdout
    values = decode(condensed.images[:2].reshape(-1, channels, *size), factor)
    mean, std = (np.array(each).reshape(-1, 1, 1) for each in (condensed.mean, condensed.std))
    expected = (values - mean) / std
    images = np.frombuffer(written, np.float32).reshape(expected.shape)
    np.testing.assert_allclose(images, expected, rtol=1e-4, atol=1e-4)


def test_program_learns_at_every_size(tmp_path: Path, example: ModuleType) -> None:
    rng = np.random.default_rng(0)
    images = np.stack([stripes(3, rng).images for _ in range(4)])
    condensed = Artifact(images, 1, (0.3,), (0.3,), ("rows", "columns", "noise"))
    example.write_images(stripes(90, rng), tmp_path / "test.bin")
    program = example.compiled(condensed, tmp_path, COMPILER)
    run = [program, tmp_path / "test.bin", "60", "1", "4"]
    memory, *lines = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    assert memory.startswith("RAM: ")
    assert memory.endswith(f" bytes, flash for images: {4 * 3 * 144} bytes")
    assert [line.split(":")[0] for line in lines] == ["n = 1", "n = 4"]
    assert all(float(line.split()[-2]) > 90 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "usage: train TEST STEPS N"),
        (["test.bin", "1", "9"], "a size must be from 1 to SET_RANKS"),
        (["nowhere", "1", "1"], "the test images cannot be read"),
        (["cut.bin", "1", "1"], "the test images cannot be read, or are of another size"),
    ],
)
def test_program_refuses_wrong_arguments(
    tmp_path: Path, example: ModuleType, arguments: list[str], reason: str
) -> None:
    condensed = small_set(1, factor=1, size=(4, 4))
    program = example.compiled(condensed, tmp_path, COMPILER)
    (tmp_path / "cut.bin").write_bytes(b"\0" * 30)  # a record has 17 bytes
    done = subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(reason)


def test_program_is_valid_c99_without_warnings(tmp_path: Path, example: ModuleType) -> None:
    example.compiled(small_set(), tmp_path, COMPILER)  # which writes set.h
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run([str(COMPILER), *strict, f"-I{tmp_path}", str(SOURCE)], check=True)
