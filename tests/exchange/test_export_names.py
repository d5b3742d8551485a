"""Names of folders, C identifiers and Parquet classes, from any class names."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given

from export_sets import any_name, any_names
from mipset.exchange.exports.names import MAX_LETTERS, c_identifier, folder_names
from mipset.file.hugging_face import distinct_names


@given(any_names)
def test_folder_names_are_harmless_distinct_and_sorted(class_names: list[str]) -> None:
    folders = folder_names(class_names)
    assert len({folder.lower() for folder in folders}) == len(class_names)
    assert sorted(folders) == folders  # so that programs which sort folders find our labels
    for label, folder in enumerate(folders):
        assert re.fullmatch(r"\d+(-[A-Za-z0-9-]*[A-Za-z0-9])?", folder)
        assert int(folder.partition("-")[0]) == label
        assert len(folder) <= MAX_LETTERS + 3


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
def test_folder_names_resemble_the_class_names(name: str, folder: str) -> None:
    assert folder_names([name]) == [folder]


def test_folder_names_of_many_classes_are_padded_with_zeros() -> None:
    assert folder_names(["x"] * 11)[::5] == ["00-x", "05-x", "10-x"]


@given(any_names)
def test_distinct_names_are_distinct_and_valid_unicode(class_names: list[str]) -> None:
    distinct = distinct_names(class_names)
    assert len(set(distinct)) == len(class_names)
    "".join(distinct).encode("utf-8")
    for before, after in zip(class_names, distinct, strict=True):
        if class_names.count(before) == 1 and after != before:
            assert after.startswith(before.encode("utf-8", "replace").decode("utf-8"))


def test_repeated_names_are_numbered() -> None:
    assert distinct_names(["a", "a", "a (2)", "a"]) == ["a", "a (2)", "a (2) (2)", "a (3)"]


def test_thousands_of_equal_names_are_numbered_quickly() -> None:
    names = ["x"] * 5000
    start = time.process_time()
    assert distinct_names(names)[-2:] == ["x (4999)", "x (5000)"]
    assert time.process_time() - start < 2


@given(any_name)
def test_c_identifier_is_valid(stem: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", c_identifier(stem))


@pytest.mark.parametrize(
    ("stem", "name"),
    [("digits", "digits"), ("My set-2", "my_set_2"), ("2nd", "set_2nd"), ("_x_", "x"), ("猫", "mipset")],
)
def test_c_identifier_resembles_the_file_name(stem: str, name: str) -> None:
    assert c_identifier(stem) == name
