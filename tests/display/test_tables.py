"""Tables and descriptions as text."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, cast

import numpy as np
import pytest

from mipset.display.tables import accuracy_table, description, gallery_table, in_columns
from mipset.file.artifact import Artifact
from mipset.file.description import Accuracy
from mipset.file.gallery_index import Entry
from mipset.settings.recipe import Recipe
from mipset.units import byte_count, flop_count


def point(size: int, mean: float, networks: int = 3, protocol: str = "quick, 100 epochs") -> Accuracy:
    return Accuracy(size, mean, 1.26, networks, "convnet-3, width 4", protocol, 0, "00" * 32)


def example() -> Artifact:
    return Artifact(
        images=np.zeros((2, 2, 3, 8, 8), np.uint8),
        factor=2,
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
        class_names=("cat", "dog"),
        recipe={"ipc": 2, "policy": "mdc"},
        provenance={"dataset": "npz:pets.npz", "size": None},
    )


def test_columns_line_up() -> None:
    assert in_columns([["name", "1", "10"], ["a long name", "22.5", ""]]) == "name            1  10\na long name  22.5"


def test_gallery_shows_what_the_longest_training_reaches() -> None:
    """Also if a shorter one was measured at more sizes; one of unknown length is the last choice."""
    quick = [replace(point(size, 30.0 + size), epochs=16) for size in (1, 2, 3)]
    paper = [replace(point(size, 50.0 + size, protocol="paper, 1000 epochs"), epochs=1000) for size in (3, 1)]
    unknown = [point(size, 90.0, protocol="own") for size in (1, 2, 3)]
    entry = Entry("pets", "a.safetensors", "0" * 64, "0" * 64, 5, "pets", 3, "r", "mit", "©", "c")
    for accuracy, shown in [
        ([*quick, *paper], "51.0 (1), 53.0 (3) paper mit"),
        ([*unknown, *quick], "31.0 (1), 32.0 (2), 33.0 (3) quick mit"),
        (unknown, "90.0 (1), 90.0 (2), 90.0 (3) own mit"),
        ([], "not measured mit"),
    ]:
        assert " ".join(gallery_table([replace(entry, accuracy=tuple(accuracy))]).split()).endswith(shown)


def test_accuracies_are_below_their_sizes() -> None:
    table = accuracy_table({"mdc": [point(1, 30.0), point(2, 41.26)], "none": [point(1, 9.96, 1), point(2, 50.0, 1)]})
    assert table.splitlines() == [
        "images per class          1          2   mean",
        "mdc               30.0 ±1.3  41.3 ±1.3  35.63",
        "none                   10.0       50.0  29.98",
    ]


def test_table_has_the_mean_over_a_fleet() -> None:
    curve = [point(1, 20.0), point(2, 40.0)]
    table = accuracy_table(
        {"a": curve, "b": curve, "c": curve}, {"a": {1: 0.75, 2: 0.25}, "b": {}, "c": {1: 0.5, 3: 0.5}}
    )
    assert [line.split()[-1] for line in table.splitlines()] == ["fleet", "25.00", "-", "-"]
    assert accuracy_table({"a": curve}, {"a": {}}) == accuracy_table({"a": curve})


def test_table_of_files_with_different_sizes_has_no_misleading_means() -> None:
    table = accuracy_table({"small": [point(1, 30.0, 1)], "large": [point(1, 20.0, 1), point(3, 40.0, 1)]})
    assert table.splitlines() == [
        "images per class     1     3   mean",
        "small             30.0     -      -",
        "large             20.0  40.0  30.00",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (30_720, "30.7 kB"),
        (3_072_000, "3.1 MB"),
        (1_017_000_000, "1.0 GB"),
    ],
)
def test_byte_counts(count: int, text: str) -> None:
    assert byte_count(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((0, "0 FLOP"), (999, "999 FLOP"), (1000, "1 kFLOP"), (1_456_000_000_000, "1.46 TFLOP")),
        *((999_999, "1 MFLOP"), (int(2.215e17), "222 PFLOP"), (10**24, "1e+03 ZFLOP")),
    ],
)
def test_flop_counts(count: int, text: str) -> None:
    assert flop_count(count) == text


def test_description_of_a_file() -> None:
    assert description(example()).splitlines() == [
        "images    2 per class, 2 classes, 3 x 8 x 8 pixels",
        "decoding  4 training images in each",
        "bytes     384 B for each image per class, 768 B in all",
        "classes   cat, dog",
        "from      dataset npz:pets.npz",
        "recipe    ipc 2, policy mdc",
        "",
        "accuracy  not measured yet",
    ]


def test_description_has_the_settings_that_were_used_and_the_longest_training_first() -> None:
    artifact = replace(example(), recipe=asdict(Recipe(ipc=2, policy="baseline-c"))).with_accuracy(
        [point(1, 40.0), replace(point(1, 50.0), protocol="paper, 1000 epochs", epochs=1000, least_steps=0, batch=64)]
    )
    text = description(artifact)
    (line,) = (line for line in text.splitlines() if line.startswith("recipe"))
    assert "policy baseline-c" in line
    assert "student_lr" not in line
    assert "period" not in line
    assert text.index("protocol paper") < text.index(f"protocol {point(1, 40.0).protocol}")


def test_description_leaves_out_empty_fields() -> None:
    bare = replace(example(), recipe={}, provenance={}, factor=1)
    titles = [line.split()[0] for line in description(bare).splitlines() if line]
    assert titles == ["images", "decoding", "bytes", "classes", "accuracy"]
    assert "none: a stored image is a training image" in description(bare)


def test_description_has_no_control_characters() -> None:
    odd = "\x1b]0;owned\x07\nsize"
    text = description(
        replace(example(), class_names=(odd, "dog"), recipe={odd: odd}, provenance=cast(Any, {odd: odd})).with_accuracy(
            [replace(point(1, 50.0), protocol=odd, network=odd, data=odd)]
        )
    )
    assert all(line.isprintable() for line in text.splitlines())
    assert "classes   ?]0;owned??size, dog" in text


def test_description_of_an_accuracy_of_one_network() -> None:
    alone = example().with_accuracy([replace(point(1, 50.0), networks=1, std=0.0)])
    assert description(alone).splitlines()[-1].endswith("  50.0 of one network")


def test_description_has_a_curve_for_each_protocol() -> None:
    measured = example().with_accuracy([point(1, 50.0), point(2, 100.0), point(1, 0.0, protocol="paper, 1000 epochs")])
    assert description(measured).splitlines()[6:] == [
        "",
        "accuracy in % (protocol paper, 1000 epochs; convnet-3, width 4; seed 0; tested with data 000000000000)",
        f"     1  {'':40}  0.0 ± 1.3 over 3 networks",
        "",
        "accuracy in % (protocol quick, 100 epochs; convnet-3, width 4; seed 0; tested with data 000000000000)",
        f"     1  {'█' * 20:40}  50.0 ± 1.3 over 3 networks",
        f"     2  {'█' * 40}  100.0 ± 1.3 over 3 networks",
    ]
