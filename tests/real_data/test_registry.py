"""Datasets by name: load, available, home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mipset.data import available, cifar, home, load
from mipset.data.specs import CIFAR10, MNIST
from mipset.errors import DataError, MissingExtraError, SettingError
from tiny_data import (
    load_npz,
    npz_arrays,
    shrink,
    write_idx,
    write_pictures,
    write_sheets,
)


def test_unknown_dataset_name_gets_the_list_and_a_suggestion() -> None:
    with pytest.raises(
        DataError, match=r"no dataset 'cifar', only fashion-mini, .*npz:PATH, .*\. Did you mean cifar10\?"
    ):
        load("cifar")
    with pytest.raises(DataError, match="Choose one of these"):
        load("qqqqqq")


def test_path_without_a_prefix_gets_the_prefix_as_advice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"Write folder:{tmp_path}"):
        load(str(tmp_path))
    (tmp_path / "x.npz").touch()
    with pytest.raises(DataError, match="Write npz:"):
        load(str(tmp_path / "x.npz"))


@pytest.mark.parametrize("name", ["folder", "npz", "folder:", "npz:", "cifar10:", "mnist:"])
def test_dataset_name_without_its_path_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=f"{name!r} has no path. Write {name.rstrip(':')}:PATH"):
        load(name)


def test_embedded_dataset_takes_no_path() -> None:
    with pytest.raises(DataError, match="takes no path"):
        load("fashion-mini:somewhere")


def test_resolution_other_than_that_of_the_dataset_is_refused(tmp_path: Path) -> None:
    assert load("fashion-mini", resolution=28).shape == (1, 28, 28)
    with pytest.raises(SettingError, match=r"`resolution` is 32, .* fashion-mini are 28x28"):
        load("fashion-mini", resolution=32)
    with pytest.raises(SettingError, match="cifar10 are 32x32"):
        load("cifar10", resolution=64, home=tmp_path)
    load_npz(tmp_path, npz_arrays())
    with pytest.raises(SettingError, match="are 4x5"):
        load(f"npz:{tmp_path / 'own.npz'}", resolution=4)


def test_relative_path_in_a_dataset_name_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path / "photos", 3)
    monkeypatch.chdir(tmp_path)
    first = load("folder:photos")
    monkeypatch.chdir("/")
    assert load(first.name).sha256 == first.sha256


def test_unknown_home_folder_in_a_dataset_name_is_refused() -> None:
    with pytest.raises(DataError, match="home folder that is not on this machine"):
        load("folder:~nobody-of-that-name/pets")


def test_missing_dataset_error_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"mnist is not in .*mnist. Run `mipset data fetch mnist`, or .* mnist:PATH"):
        load("mnist", home=tmp_path)


def test_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "here"))
    assert home() == tmp_path / "here"
    monkeypatch.delenv("MIPSET_HOME")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert home() == tmp_path / ".cache" / "mipset"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert home() == tmp_path / "other" / "mipset"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert home() == tmp_path / "Library" / "Caches" / "mipset"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert home() == tmp_path / "local" / "mipset" / "mipset" / "Cache"


def test_reading_pictures_without_pillow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path, 3)
    spec, train, test = shrink(CIFAR10, 50, 20)
    write_sheets(tmp_path, train, test)
    monkeypatch.setitem(sys.modules, "PIL", None)
    for read in (lambda: load(f"folder:{tmp_path}"), lambda: cifar.read(tmp_path, spec)):
        with pytest.raises(MissingExtraError, match=r"needs Pillow.*pip install .*\[pictures\]"):
            read()


def test_available_lists_datasets_and_whether_they_are_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path))
    _, train, test = shrink(MNIST, 40, 20)
    (tmp_path / "mnist").mkdir()
    write_idx(tmp_path / "mnist", train, test, zipped=True)
    entries = {entry.name: entry for entry in available()}
    assert list(entries) == [
        *("fashion-mini", "cifar10", "cifar100", "svhn", "fashion-mnist", "mnist", "stl10", "eurosat"),
        *("tiny-imagenet", "imagenette", "imagenet10", "folder:PATH", "npz:PATH"),
        *("imagenet:PATH[:classes=WNID,WNID,...]", "hf:NAME[:CONFIG][:image=COLUMN][:label=COLUMN]"),
    ]
    assert entries["fashion-mini"].present
    assert entries["mnist"].path == tmp_path / "mnist"
    assert not entries["cifar10"].present
    assert "mipset data fetch cifar10" in entries["cifar10"].how_to_get
    assert all(entry.description for entry in entries.values())


def test_importing_mipset_data_imports_nothing_heavy() -> None:
    heavy = "torch", "PIL", "urllib.request", "subprocess"
    program = (
        "import numpy, sys; before = set(sys.modules); import mipset.data; "
        f"print([name for name in {heavy} if name in set(sys.modules) - before])"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
