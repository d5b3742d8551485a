"""Fixtures of all tests: a toy dataset, a recipe that condenses it in a fraction of a second, and commands that run in
this process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

import mipset
from commands import Here, save_npz, sentence
from hugging_face_library import hugging_face  # noqa: F401 (a fixture)
from mipset import Artifact, cli
from mipset.data import Dataset, Split
from mipset.errors import NoCompilerError
from mipset.io.files import home
from mipset.nn.native import Kernels
from mipset.settings.recipe import Recipe
from noise_sets import server, set_path, whole  # noqa: F401 (fixtures)

settings.register_profile("mipset", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("mipset")
torch.set_num_threads(1)  # toy networks are faster with one thread

TOY = Recipe(
    ipc=3, width=4, depth=2, outer=2, inner=2, real_batch=6, train_images=8, train_batch=8, period=1, pixel_lr=0.05
)


def toy_split(per_class: int, seed: int, classes: int = 3, side: int = 12) -> Split:
    """Noisy stripes whose direction and colour tell the class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(per_class * classes) % classes
    images = rng.integers(0, 120, (len(labels), 3, side, side))
    for image, label in zip(images, labels, strict=True):
        stripes = image[label % 3] if label % 2 else image[label % 3].T
        stripes[:: label + 2] += 120
    return Split.of(images.astype(np.uint8), labels)


@pytest.fixture(autouse=True)
def impatient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP client does not pause between tries, and uses no proxy for the servers of tests."""
    monkeypatch.setattr("mipset.io.http.PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture(scope="session", autouse=True)
def own_cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder for the tests, which knows the datasets and kernels of the user's, but not the experts."""
    folder, users = tmp_path_factory.mktemp("home"), home()
    (users / "kernels").mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in users.iterdir():
        if path.name != "experts":
            (folder / path.name).symlink_to(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIPSET_HOME", str(folder))
        yield


@pytest.fixture(scope="session")
def toy() -> Dataset:
    """Three classes of 12 x 12 pixels, 20 training and 10 test images each."""
    return Dataset("toy", toy_split(20, 0), toy_split(10, 1), ("a", "b", "c"), (0.4, 0.4, 0.4), (0.3, 0.3, 0.3))


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    """The C++ kernels, compiled once into the cache folder."""
    try:
        return Kernels.compiled()
    except NoCompilerError as error:
        pytest.skip(str(error))


@pytest.fixture
def recipe() -> Recipe:
    """A run of a fraction of a second."""
    return TOY


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str]) -> Here:
    """A command run in this process, which saves the seconds that importing torch takes; gives what it printed."""

    def run_here(*arguments: object) -> str:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        shown = capfd.readouterr()
        assert ended.value.code == 0, shown.err
        return shown.out

    return run_here


@pytest.fixture
def refusal(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Here:
    """The same for a command that must be refused with one line, and must not write anything."""

    def refuse(*arguments: object) -> str:
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        shown = capfd.readouterr()
        assert ended.value.code == 2
        assert shown.out == ""
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        return sentence(shown.err)

    return refuse


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """A dataset of one's own: three classes of 8 x 8 grey pixels."""
    return save_npz(tmp_path / "pets.npz")


@pytest.fixture
def condensed(tmp_path: Path) -> Path:
    """A file that says it was condensed from fashion-mini, and need not be good."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 10, 1, 28, 28), dtype=np.uint8)
    data = mipset.load("fashion-mini")
    path = tmp_path / "set.safetensors"
    Artifact(
        images=pixels,
        factor=1,
        mean=data.mean,
        std=data.std,
        class_names=data.class_names,
        recipe={"network": "convnet", "width": 4, "depth": 2},
        provenance={"dataset": "fashion-mini", "sha256": data.sha256, "size": None, "split_seed": 0},
    ).write(path)
    return path


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test has started, none of which outlives it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
