"""What is published: the metadata, the source distribution, and a wheel with compiled kernels."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import mipset
from mipset.file.gallery import entries_of
from mipset.file.gallery_index import INDEX
from mipset.nn.native.levels import levels_of

REPO = Path(__file__).parents[1]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))


def test_version_is_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "mipset.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", mipset.__version__)


def test_changelog_and_citation_name_the_version() -> None:
    assert f"\nversion: {mipset.__version__}\n" in (REPO / "CITATION.cff").read_text("utf-8")
    changelog = (REPO / "CHANGELOG.md").read_text("utf-8")
    assert f"Version {mipset.__version__} has not been released yet" in changelog or (
        f"## [{mipset.__version__}] - " in changelog
    )


def test_binary_wheels_are_built_by_the_rules_of_cibuildwheel() -> None:
    rules = PROJECT["tool"]["cibuildwheel"]
    assert rules["environment"] == {"MIPSET_KERNELS": "1"}
    assert rules["build"] == "cp311-manylinux_*"
    assert all(levels_of(machine) for machine in rules["archs"])
    script = rules["test-command"].split()[1].replace("{project}", str(REPO))
    assert Path(script).is_file()


def built(to: Path, kernels: str) -> Path:
    """A wheel of this source tree, built with what is installed here."""
    source = to / "source"  # a copy, because building leaves folders behind
    shutil.copytree(REPO / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(REPO / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    environment = {**os.environ, "MIPSET_KERNELS": kernels}
    environment.pop("PYTHONPATH", None)
    subprocess.run([*command, "--wheel-dir", str(to), str(source)], check=True, env=environment)
    (wheel,) = to.glob("*.whl")
    return wheel


def test_pure_wheel_has_the_metadata_and_no_library(tmp_path: Path) -> None:
    wheel = built(tmp_path, kernels="0")
    assert wheel.name == f"mipset-{mipset.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        metadata = Parser().parsestr(files.read(f"mipset-{mipset.__version__}.dist-info/METADATA").decode())
    assert metadata["Version"] == mipset.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line] == ["numpy>=1.26"]
    assert str(metadata.get_payload()).startswith("# mipset")
    assert {"mipset/py.typed", "mipset/nn/native/kernels.cpp", "mipset/data/assets/fashion-mini.npz"} <= set(names)
    assert not [name for name in names if name.endswith(".so") or name.startswith(("tests", "gallery"))]


NOT_PUBLISHED = ("__pycache__", "*.pyc", ".[!g]*", ".git", "*.egg-info", "out", "build", "dist")


@pytest.mark.slow
def test_source_distribution_has_what_its_tests_and_its_gallery_need(tmp_path: Path) -> None:
    """Unpacked, it is the source tree: every file is there, `mipset gallery` lists its sets, and a test runs."""
    source, out = tmp_path / "source", tmp_path / "out"
    shutil.copytree(REPO, source, ignore=shutil.ignore_patterns(*NOT_PUBLISHED))
    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(out)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (archive,) = out.iterdir()
    with tarfile.open(archive) as packed:
        packed.extractall(out, filter="data")
    tree = out / f"mipset-{mipset.__version__}"
    assert archive.name == f"{tree.name}.tar.gz"
    assert not files - {str(path.relative_to(tree)) for path in tree.rglob("*")}
    assert {"tests/commands.py", "tests/cli/test_cli.py", "gallery/index.json", "examples/c/train.c"} <= files

    def run_there(*module: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "MIPSET_GALLERY": ""}
        command = [sys.executable, "-m", *module]
        return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True).stdout

    listed = json.loads(run_there("mipset", "gallery", "--json"))
    assert [entry["name"] for entry in listed] == [entry.name for entry in entries_of(REPO / "gallery" / INDEX)]
    assert " passed" in run_there("pytest", "-q", "-p", "no:cacheprovider", "tests/settings/test_protocol.py")


KERNELS = """
import torch
from torch import nn
from mipset.nn.engines import Engine, native
from mipset.nn.native import library

print(library())
torch.manual_seed(0)
images, layer = torch.randn(2, 3, 8, 8), nn.Conv2d(3, 4, 3, padding=1)
torch.testing.assert_close(native().convolve(images, layer), Engine().convolve(images, layer), atol=1e-4, rtol=1e-4)
print(native())
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_wheel_with_kernels_needs_no_compiler(tmp_path: Path) -> None:
    """Installed in an environment of its own, which sees torch, and in which no command can be found."""
    wheel = built(tmp_path, kernels="1")
    platform_tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"mipset-{mipset.__version__}-py3-none-{platform_tag}.whl"
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    (site,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (site / "torch.pth").write_text(sysconfig.get_path("purelib"))
    done = subprocess.run(
        [python, "-W", "error", "-c", KERNELS],
        cwd=tmp_path,
        env={"PATH": "", "MIPSET_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    path, engine = done.stdout.splitlines()
    assert Path(path).is_relative_to(site / "mipset")
    assert engine == "compiled kernels"
    assert not (tmp_path / "home").exists()
