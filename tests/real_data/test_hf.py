"""Datasets of Hugging Face by name: from its cache and from folders, without a network."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import BRIEF, TINY, Here
from mipset import read
from mipset.data import fetch, load
from mipset.errors import DataError, MissingExtraError
from tiny_data import make_split, write_pictures

datasets = pytest.importorskip("datasets")

SPLIT = make_split(30, (3, 4, 5), 3)
NAMES = ["ant", "bee", "cow"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")


def small() -> Any:
    """Thirty images with two columns of labels."""
    from PIL import Image

    rows = {
        "img": [Image.fromarray(image.transpose(1, 2, 0)) for image in SPLIT.images],
        "fine": SPLIT.labels.tolist(),
        "coarse": (SPLIT.labels // 2).tolist(),
    }
    features = {
        "img": datasets.Image(),
        "fine": datasets.ClassLabel(names=NAMES),
        "coarse": datasets.ClassLabel(names=["x", "y"]),
    }
    return datasets.Dataset.from_dict(rows, datasets.Features(features))


def cached(tmp_path: Path, hub_name: str, config: str = "default") -> None:
    """Put the dataset into the cache, where the library keeps those that it has downloaded."""
    (tmp_path / "files").mkdir(exist_ok=True)
    small().remove_columns("coarse").to_parquet(tmp_path / "files" / "train.parquet")
    built = datasets.load_dataset(str(tmp_path / "files"))["train"].cache_files[0]["filename"]
    folder = hub_name.replace("/", "___")
    place = tmp_path / "hf-cache" / folder / config / "0.0.0" / "abc"
    shutil.copytree(Path(built).parent, place)
    short = hub_name.rpartition("/")[2]
    Path(place / Path(built).name).rename(place / f"{short}-train.arrow")
    info = json.loads((place / "dataset_info.json").read_text())
    (place / "dataset_info.json").write_text(json.dumps({**info, "config_name": config, "dataset_name": short}))


def test_folder_of_save_to_disk_is_loaded(tmp_path: Path) -> None:
    whole = small()
    whole.save_to_disk(tmp_path / "one")
    data = load(f"hf:{tmp_path / 'one'}:label=fine", seed=3)
    assert (data.name, data.class_names) == (f"hf:{tmp_path / 'one'}:label=fine", tuple(NAMES))
    assert (len(data.train), len(data.test)) == (24, 6)
    assert load(data.name, seed=3).sha256 == data.sha256
    datasets.DatasetDict({"train": whole, "validation": whole.select(range(3))}).save_to_disk(tmp_path / "two")
    both = load(f"hf:{tmp_path / 'two'}:image=img:label=fine", resolution=2)
    assert (len(both.train), len(both.test), both.shape) == (30, 3, (3, 2, 2))
    assert np.array_equal(both.test.labels, [0, 1, 2])


def test_unclear_or_absent_column_is_refused_with_how_to_write_it(tmp_path: Path) -> None:
    small().save_to_disk(tmp_path / "one")
    with pytest.raises(DataError, match=r"Choose the column of the labels with hf:\S*:label=COLUMN: fine or coarse"):
        load(f"hf:{tmp_path / 'one'}")
    with pytest.raises(DataError, match="There is no column 'x', only img, fine, coarse"):
        load(f"hf:{tmp_path / 'one'}:label=x")
    for name in (f"hf:{'x' * 5000}", "hf:a\0b"):
        with pytest.raises(DataError, match="could not be loaded"):
            load(name)


@pytest.mark.parametrize("path", ["/nope", "./nope", "../nope", "~nobody-of-that-name/x"])
def test_path_without_a_folder_is_not_taken_for_a_name(path: str) -> None:
    for function in (load, fetch):
        with pytest.raises(DataError, match=rf"^hf:{path}: there is no folder {path}\. Correct the path, or give"):
            function(f"hf:{path}")


def test_fetch_without_a_network_prints_nothing_but_our_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Libraries warn at every try. Their usual level comes back afterwards."""
    from huggingface_hub.utils import logging as hub_logging

    def fails(*_: object) -> None:
        for title in ("huggingface_hub.utils._http", "datasets.load"):
            library = hub_logging if title.startswith("hugging") else datasets.logging
            library.get_logger(title).warning("Retrying in 1s")
        raise ConnectionError("no network")

    monkeypatch.setattr("mipset.data.hf._from_hub", fails)
    levels = hub_logging.get_verbosity(), datasets.logging.get_verbosity()
    with pytest.raises(DataError, match=r"hf:me/none could not be fetched \(no network\)"):
        fetch("hf:me/none")
    assert "Retrying" not in "".join(capfd.readouterr())
    assert (hub_logging.get_verbosity(), datasets.logging.get_verbosity()) == levels


def test_folder_of_pictures_or_parquet_files_is_loaded(tmp_path: Path) -> None:
    write_pictures(tmp_path / "pets" / "train", 4)
    write_pictures(tmp_path / "pets" / "test", 2)
    data = load(f"hf:{tmp_path / 'pets'}")
    assert (data.class_names, len(data.train), len(data.test)) == (("cat", "dog"), 8, 4)


def test_cached_dataset_is_loaded_by_its_name_without_a_network(tmp_path: Path) -> None:
    cached(tmp_path, "me/pets")
    data = load("hf:me/pets")
    assert (data.name, data.class_names, len(data.train)) == ("hf:me/pets", tuple(NAMES), 24)
    cached(tmp_path, "me/pets", "large")
    assert load("hf:me/pets:large").sha256 == data.sha256
    with pytest.raises(DataError, match=r"^hf:me/pets could not be loaded \(.*default, large|large, default") as caught:
        load("hf:me/pets")
    assert "\n" not in str(caught.value)
    assert not datasets.config.HF_HUB_OFFLINE


def test_absent_dataset_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"^hf:me/none could not be loaded \(.*\). Run `mipset data fetch hf:me/none`"):
        load("hf:me/none")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)  # as without a network
    with pytest.raises(DataError, match=r"^hf:me/none could not be fetched .*save_to_disk.*and use hf:PATH"):
        fetch("hf:me/none")


def test_dataset_is_condensed_by_the_command_line(tmp_path: Path, here: Here, refusal: Here) -> None:
    small().save_to_disk(tmp_path / "one")
    name, out = f"hf:{tmp_path / 'one'}:label=fine", tmp_path / "set"
    printed = here("condense", name, "--resolution", 8, "--out", out, *TINY)
    assert f"mipset evaluate {out} --data {name}" in printed
    assert read(out).provenance["dataset"] == "hf:one:label=fine"  # without the folders of this machine
    assert "are not opened by themselves: add --data hf:NAME." in refusal("evaluate", out, *BRIEF)


def test_damaged_folder_is_refused(tmp_path: Path) -> None:
    small().save_to_disk(tmp_path / "one")
    for path in (tmp_path / "one").glob("*.arrow"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=r"could not be loaded \(.*\). Check its files"):
        load(f"hf:{tmp_path / 'one'}:label=fine")


def test_library_that_is_absent_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"needs datasets.*pip install .*\[hf\]"):
        load("hf:mnist")
