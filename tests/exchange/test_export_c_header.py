"""Export to a C header, read back with a C program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export_sets import FEW_EXAMPLES, HOSTILE, any_names, small_set
from mipset import Artifact
from mipset.errors import ArtifactError
from mipset.exchange.exports import c_header, export
from mipset.exchange.exports.names import c_identifier
from mipset.file.decoding import decoded

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
    path = shutil.which("gcc")
    if path is None:
        pytest.skip("there is no gcc")
    return path


def compiled(compiler: str, folder: Path, artifact: Artifact, stem: str = "digits") -> list[list[float]]:
    """Compile a C program that prints all numbers of the header, and return them line by line."""
    export(artifact, "c", folder / f"{stem}.h", force=True)
    name = c_identifier(stem)
    defines = f"#define P(x) {name.upper()}_##x\n#define p(x) {name}_##x\n"
    (folder / "main.c").write_text(defines + PROGRAM % stem, "utf-8")
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *strict, "main.c", "-o", "main"], cwd=folder, check=True)
    printed = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    return [[float(number) for number in line.split()] for line in printed.splitlines()]


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("factor", [1, 2])
def test_c_program_reads_every_pixel_of_a_c_header(tmp_path: Path, compiler: str, channels: int, factor: int) -> None:
    artifact = small_set(channels, factor=factor)
    shape, sizes, scale, labels, pixels = compiled(compiler, tmp_path, artifact)
    assert shape == [3, 2, channels, 6, 8, factor]
    assert sizes == [6, channels * 48, 2 * channels * 48]
    assert scale == pytest.approx([value for pair in zip(artifact.mean, artifact.std, strict=True) for value in pair])
    assert labels == [0, 1, 0, 1, 0, 1]
    assert pixels == artifact.images.reshape(-1).tolist()


@FEW_EXAMPLES
@given(class_names=any_names, stem=st.sampled_from(["2 sets-of_x", "int", "ö"]))
def test_class_names_are_never_code_in_a_c_header(
    tmp_path: Path, compiler: str, class_names: list[str], stem: str
) -> None:
    artifact = small_set(1, tuple(class_names), size=(4, 4))
    assert compiled(compiler, tmp_path, artifact, stem)[-1] == artifact.images.reshape(-1).tolist()


def test_c_header_with_every_hostile_class_name_compiles(tmp_path: Path, compiler: str) -> None:
    artifact = small_set(1, tuple(HOSTILE), size=(2, 2))
    assert compiled(compiler, tmp_path, artifact)[-1] == artifact.images.reshape(-1).tolist()


def test_comment_of_a_c_header_tells_bytes_and_labels() -> None:
    text = c_header.file_content(small_set(), "digits").decode("ascii")
    assert "3 images for each of 2 classes, 3 x 6 x 8 pixels." in text
    assert "Flash: 864 bytes of pixels and 24 bytes for mean and std." in text
    assert '   0 "cat"\n   1 "d\\u00f6g"\n*/' in text
    assert "2 x 2 training images" in text
    assert "training images" not in c_header.file_content(decoded(small_set()), "digits").decode("ascii")
    assert "#ifndef DIGITS_H\n#define DIGITS_H\n" in text


@pytest.mark.parametrize("std", [1e-60, 1e60])
def test_c_header_refuses_a_std_that_is_no_c_float(std: float) -> None:
    artifact = Artifact(np.zeros((1, 1, 1, 2, 2), np.uint8), 1, (0.5,), (std,), ("x",))
    with pytest.raises(ArtifactError, match="must fit into a float of C, but they are 1e"):
        c_header.file_content(artifact, "x")
