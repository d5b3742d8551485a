"""`pip install mipset` on a device: numpy, no torch, and files can be opened."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import web
from commands import SOFTMAX
from mipset import read
from mipset.file.header import header_bytes

REPO = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "data" / "golden.safetensors"

pytestmark = pytest.mark.xdist_group("installed")  # one process makes the environment, for all tests of this file


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands in a clean environment that has mipset without extras."""
    root = tmp_path_factory.mktemp("install")
    source = root / "source"  # a copy, because building leaves folders behind
    shutil.copytree(REPO / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", ".*", "*.egg-info"))
    shutil.copytree(REPO / "gallery", source / "gallery")
    for name in ("pyproject.toml", "setup.py", "LICENSE"):
        shutil.copy(REPO / name, source / name)
    readme = REPO / "README.md"
    (source / "README.md").write_text(readme.read_text("utf-8") if readme.exists() else "# mipset\n", "utf-8")
    venv.create(root / "venv", with_pip=True)
    commands = root / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    call(commands / "python", "-m", "pip", "install", "--quiet", "--no-input", source, cwd=root)
    return commands


def source_of(installed: Path) -> Path:
    """The folder that mipset was installed from."""
    return installed.parents[1] / "source"


def call(*command: object, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command that sees nothing of this environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    process = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=inherited, capture_output=True, text=True, check=False
    )
    assert process.returncode == code, process.stdout + process.stderr
    return process


def test_base_package_depends_on_numpy_only(installed: Path, tmp_path: Path) -> None:
    listed = call(installed / "python", "-m", "pip", "list", "--format", "freeze", cwd=tmp_path).stdout
    packages = {line.partition("==")[0].lower() for line in listed.splitlines()}
    assert packages - {"pip", "setuptools"} == {"mipset", "numpy"}


def test_base_package_opens_a_file(installed: Path, tmp_path: Path) -> None:
    code = f"import mipset; part = mipset.read({str(GOLDEN)!r}).prefix(2); print(part.images.shape, part.images.sum())"
    printed = call(installed / "python", "-W", "error", "-c", code, cwd=tmp_path).stdout.strip()
    part = read(GOLDEN).prefix(2)
    assert printed == f"{part.images.shape} {part.images.sum()}"


def test_package_has_types_and_embedded_dataset(installed: Path, tmp_path: Path) -> None:
    code = (
        "import mipset, pathlib; "
        "print((pathlib.Path(mipset.__file__).parent / 'py.typed').exists(), mipset.load('fashion-mini').classes)"
    )
    assert call(installed / "python", "-c", code, cwd=tmp_path).stdout.split() == ["True", "10"]


def test_classifier_is_trained_over_http_without_torch(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    rng = np.random.default_rng(0)
    whole = replace(read(GOLDEN), images=rng.integers(0, 256, (6, 2, 1, 8, 8), dtype=np.uint8), factor=1, accuracy=())
    with web.serving(whole.to_bytes()) as server:
        printed = call(installed / "python", "-W", "error", "-c", SOFTMAX, server.url, cwd=tmp_path).stdout
    assert printed.split("\n")[:2] == ["True", "[]"]
    assert server.sent == len(header_bytes(whole.description)) + 3 * 2 * 8 * 8


def test_installed_command_plans_and_fetches(installed: Path, tmp_path: Path) -> None:
    assert "3 of 3 images per class" in call(installed / "mipset", "plan", GOLDEN, cwd=tmp_path).stdout
    call(installed / "mipset", "fetch", GOLDEN, "--ipc", 2, "--out", "part.safetensors", cwd=tmp_path)
    assert (tmp_path / "part.safetensors").read_bytes() == read(GOLDEN).prefix(2).to_bytes()


def test_gallery_of_the_source_tree_is_not_installed(installed: Path, tmp_path: Path) -> None:
    (site,) = installed.parent.glob("**/site-packages")
    (record,) = site.glob("mipset-*/RECORD")
    assert not [
        line for line in record.read_text("utf-8").splitlines() if "safetensors" in line or "index.json" in line
    ]
    assert not (site / "gallery").exists()
    message = call(installed / "mipset", "gallery", cwd=tmp_path, code=2).stderr
    assert message.startswith("mipset: No gallery is known: set MIPSET_GALLERY to a folder")
    code = f"import os; os.environ['MIPSET_GALLERY'] = {str(source_of(installed) / 'gallery')!r}; import mipset; "
    code += "print(mipset.read('gallery:' + mipset.gallery()[0].name).ipc)"
    assert call(installed / "python", "-W", "error", "-c", code, cwd=tmp_path).stdout.strip() == "10"


def test_installed_command_shows_and_slices(installed: Path, tmp_path: Path) -> None:
    assert "3 per class, 2 classes" in call(installed / "mipset", "show", GOLDEN, cwd=tmp_path).stdout
    call(installed / "mipset", "slice", GOLDEN, 2, "--out", "part.safetensors", cwd=tmp_path)
    np.testing.assert_array_equal(read(tmp_path / "part.safetensors").images, read(GOLDEN).images[:2])
    call(installed / "mipset", "recipes", cwd=tmp_path)


def test_installed_command_exports_npz_and_c(installed: Path, tmp_path: Path) -> None:
    for to in ("npz", "c"):
        call(installed / "mipset", "export", GOLDEN, "--to", to, "--out", f"set.{to}", cwd=tmp_path)
    with np.load(tmp_path / "set.npz") as arrays:
        assert arrays["images"].shape == (24, 1, 4, 5)
    message = call(installed / "mipset", "export", GOLDEN, "--to", "png", "--out", "x", cwd=tmp_path, code=2).stderr
    assert f'needs Pillow, which is not installed: run pip install "{source_of(installed)}[pictures]".' in message
    assert not (tmp_path / "x").exists()


def test_installed_command_lists_the_datasets(installed: Path, tmp_path: Path) -> None:
    printed = call(installed / "mipset", "data", cwd=tmp_path).stdout
    assert "fashion-mini\n" in printed
    assert "not here: run `mipset data fetch cifar10`" in printed or "here: " in printed


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["condense", "fashion-mini", "--out", "x"], "condense"),
        (["evaluate", str(GOLDEN)], "condense"),
        (["show", str(GOLDEN), "--sheet", "x.png"], "pictures"),
    ],
    ids=["condense", "evaluate", "show"],
)
def test_installed_command_names_the_missing_extra(
    installed: Path, tmp_path: Path, arguments: list[str], extra: str
) -> None:
    process = call(installed / "mipset", *arguments, cwd=tmp_path, code=2)
    assert process.stdout == ""
    assert process.stderr.startswith("mipset: ")
    assert process.stderr.count("\n") == 1
    assert f'pip install "{source_of(installed)}[{extra}]"' in process.stderr
    assert list(tmp_path.iterdir()) == []


def test_hint_names_a_folder_that_pip_can_install_from(installed: Path, tmp_path: Path) -> None:
    message = call(installed / "mipset", "show", GOLDEN, "--sheet", "x.png", cwd=tmp_path, code=2).stderr
    *command, what = shlex.split(message.rpartition(": run ")[2].strip().removesuffix("."))
    folder, _, extra = what.removesuffix("]").partition("[")
    project = tomllib.loads((Path(folder) / "pyproject.toml").read_text("utf-8"))["project"]
    assert (command, project["name"]) == (["pip", "install"], "mipset")
    assert [line.partition(">")[0] for line in project["optional-dependencies"][extra]] == ["pillow"]


@pytest.mark.parametrize(
    ("origin", "hint"),
    [
        (None, 'pip install "mipset[charts]"'),
        (
            {"url": "https://example.org/m.whl", "archive_info": {}},
            'pip install "mipset[charts] @ https://example.org/m.whl"',
        ),
        (
            {"url": "https://example.org/m.git", "vcs_info": {"vcs": "git", "commit_id": "00"}},
            'pip install "mipset[charts] @ git+https://example.org/m.git"',
        ),
        ({"url": "file:///nowhere/mipset", "dir_info": {}}, 'pip install "matplotlib>=3.8"'),
    ],
    ids=["index", "address", "repository", "folder that is gone"],
)
def test_hint_follows_the_origin_of_the_package(
    installed: Path, tmp_path: Path, origin: dict[str, object] | None, hint: str
) -> None:
    """What pip writes for each origin, in a copy of the package."""
    (site,) = installed.parent.glob("**/site-packages")
    for entry in site.glob("mipset*"):
        shutil.copytree(entry, tmp_path / entry.name)
    (record,) = tmp_path.glob("mipset-*/direct_url.json")
    record.unlink()
    if origin is not None:
        record.write_text(json.dumps(origin), "utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from mipset import errors; "
    code += "print(errors.how_to_install('charts'))"
    assert call(installed / "python", "-c", code, cwd=tmp_path).stdout.strip() == hint
