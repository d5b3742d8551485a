"""The names of `import mipset`, with and without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mipset

GOLDEN = Path(__file__).parent / "data" / "golden.safetensors"

NAMES = {
    "Accuracy",
    "Artifact",
    "ArtifactError",
    "BudgetError",
    "ChangedError",
    "DataError",
    "Dataset",
    "DivergedError",
    "Evaluation",
    "LogFile",
    "MipsetError",
    "MissingExtraError",
    "Progress",
    "Recipe",
    "RemoteError",
    "Score",
    "SettingError",
    "from_arrays",
    "from_hf",
    "from_torch",
    "gallery",
    "load",
    "logged",
    "pack",
    "protocol",
    "read",
    "assemble",
    "augmentation",
    "condense",
    "cutmix",
    "recipe",
    "recipe_for",
}


def without_torch(code: str) -> str:
    """The output of code in a new process without torch."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import sys\nsys.modules['torch'] = None\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_public_names_are_complete_and_sorted() -> None:
    assert set(mipset.__all__) == NAMES
    assert mipset.__all__ == sorted(mipset.__all__)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_public_name_has_a_docstring_and_its_own_name(name: str) -> None:
    value = getattr(mipset, name)
    assert value.__name__ == name
    assert value.__doc__
    assert value.__module__.startswith("mipset.")


def test_dir_lists_the_public_names() -> None:
    assert set(dir(mipset)) == NAMES | {"__version__", "device"}


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from mipset import *", names)
    assert set(names) - {"__builtins__"} == NAMES


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'mipset' has no attribute 'condenze'$"):
        mipset.condenze  # noqa: B018


def test_every_error_is_a_mipset_error() -> None:
    for name in NAMES:
        if name.endswith("Error"):
            assert issubclass(getattr(mipset, name), mipset.MipsetError)


def test_import_and_read_need_no_torch() -> None:
    assert without_torch(f"import mipset; print(mipset.read({str(GOLDEN)!r}).prefix(2).ipc)") == "2"


def test_device_is_imported_when_it_is_used_and_needs_no_torch() -> None:
    code = f"""
import mipset
print(sum(name.startswith("mipset.") for name in sys.modules if name != "mipset.errors"), "numpy" in sys.modules)
print(mipset.device.open({str(GOLDEN)!r}).prefix(2).sizes[0])
"""
    assert without_torch(code) == "0 False\n2"


def test_recipes_and_data_need_no_torch() -> None:
    code = "import mipset; print(mipset.recipe('demo', ipc=3).ipc, mipset.load('fashion-mini').classes)"
    assert without_torch(code) == "3 10"


@pytest.mark.parametrize("name", ["Evaluation", "assemble", "pack"])
def test_name_that_needs_torch_tells_what_to_install(name: str) -> None:
    code = f"""
import mipset
try:
    mipset.{name}(mipset.recipe("demo"), mipset.load("fashion-mini"))
except mipset.MissingExtraError as error:
    print(error)
"""
    message = without_torch(code)
    tree = Path(mipset.__file__).parents[2]
    assert message == f'mipset.{name} needs torch, which is not installed: run pip install -e "{tree}[condense]".'
