"""Which folder may import which. docs/architecture.md describes the folders; these tables are checked against the code.

Both tables are compared for equality: a permission that no module uses must be removed from its table.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mipset

ROOT = Path(mipset.__file__).parent
STANDARD_LIBRARY = {*sys.stdlib_module_names, "__future__"}

# What each folder imports when it is imported, the lowest layer first. `__init__` is the version number.
MODULE_LEVEL: dict[str, set[str]] = {
    "errors": set(),
    "markup": {"errors"},
    "reporting": set(),
    "units": set(),
    "io": {"__init__", "errors", "units"},
    "settings": {"errors", "markup"},
    "file": {"errors", "io", "markup", "units", "numpy"},
    "device": {"errors", "file", "io", "markup", "reporting", "settings", "units", "numpy"},
    "data": {"errors", "file", "io", "markup", "reporting", "numpy"},
    "display": {"__init__", "device", "errors", "file", "io", "markup", "settings", "units", "numpy"},
    "nn": {"errors", "io", "settings", "units", "torch"},
    "condensing": {
        *("__init__", "data", "errors", "file", "io", "nn", "reporting", "settings", "units", "numpy", "torch"),
    },
    "exchange": {"__init__", "display", "errors", "file", "io", "settings", "units", "numpy"},
    "evaluation": {
        *("condensing", "data", "errors", "file", "io", "markup", "nn", "reporting", "settings", "numpy", "torch"),
    },
    "experiments": {
        *("__init__", "condensing", "data", "display", "errors", "evaluation", "file", "io", "nn", "reporting"),
        *("settings", "units", "numpy", "torch"),
    },
    "integrations": {"data", "device", "errors", "evaluation", "file", "nn", "torch", "avalanche", "ddranking"},
    "cli": {"__init__", "display", "errors", "nn", "reporting", "units"},
    "__init__": {"errors"},
    "__main__": set(),
}

# What functions import when they are called, beside what their folder imports at module level.
IN_FUNCTIONS: dict[str, set[str]] = {
    "io": {"cloudpickle", "distributed", "submitit"},
    "condensing": {"faiss"},
    "file": {"datasets", "torch"},
    "data": {"PIL", "datasets", "pillow_heif"},
    "display": {"PIL", "jinja2", "matplotlib", "tensorboardX", "tqdm"},
    "exchange": {"PIL", "pyarrow", "torch"},
    "integrations": {"optuna"},
    "cli": {
        *("condensing", "data", "device", "evaluation", "exchange", "experiments", "file", "io", "settings"),
        "torch",
    },
    "__main__": {"cli"},
}

AXES = {"objectives", "policies", "samplers", "learners", "optimisers", "synthetic"}


def source_files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def folder_of(path: Path) -> str:
    """`data` for `data/npz.py`, `errors` for `errors.py`."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_names(node: ast.AST) -> Iterator[str]:
    """A folder of mipset, or the first name of another package that is not in the standard library."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            assert not alias.name.startswith("mipset"), "write `from mipset... import ...`"
            yield from {alias.name.partition(".")[0]} - STANDARD_LIBRARY
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "write `from mipset... import ...`, not `from . import ...`"
        first, *rest = (node.module or "").split(".")
        if first != "mipset":  # mipset.io is no part of the standard library, which has an io as well
            yield from {first} - STANDARD_LIBRARY
        elif rest:
            yield rest[0]
        else:
            folders = {folder_of(path) for path in source_files()}
            yield from (alias.name if alias.name in folders else "__init__" for alias in node.names)


def imports_of(folder: str) -> tuple[set[str], set[str]]:
    """The imports of a folder at module level and in functions; those for the type checker alone do not count."""
    module_level: set[str] = set()
    in_functions: set[str] = set()

    def visit(node: ast.AST, names: set[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                continue
            names.update(imported_names(child))
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            visit(child, in_functions if is_function else names)

    for path in source_files():
        if folder_of(path) == folder:
            visit(ast.parse(path.read_text(encoding="utf-8")), module_level)
    return module_level - {folder}, in_functions - {folder} - module_level


def reachable(start: str) -> set[str]:
    """All that importing a folder brings, directly or not."""
    reached, waiting = set[str](), set(MODULE_LEVEL[start])
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= MODULE_LEVEL.get(name, set()) - reached
    return reached


def test_the_table_lists_every_folder() -> None:
    assert set(MODULE_LEVEL) == {folder_of(path) for path in source_files()}


@pytest.mark.parametrize("folder", MODULE_LEVEL)
def test_imports_equal_the_table(folder: str) -> None:
    module_level, in_functions = imports_of(folder)
    assert module_level == MODULE_LEVEL[folder]
    assert in_functions == IN_FUNCTIONS.get(folder, set())


@pytest.mark.parametrize("folder", MODULE_LEVEL)
def test_no_import_cycle(folder: str) -> None:
    assert folder not in reachable(folder)


@pytest.mark.parametrize("folder", ["settings", "file", "device", "data", "exchange", "display", "io"])
def test_importing_needs_no_torch(folder: str) -> None:
    assert "torch" not in reachable(folder)


def test_condensing_does_not_know_evaluation() -> None:
    assert not {"evaluation", "experiments", "cli"} & (reachable("condensing") | IN_FUNCTIONS.get("condensing", set()))


def imported_modules(path: Path) -> set[str]:
    """Full names of the modules of mipset that a file imports from."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("axis", sorted(AXES))
def test_axes_do_not_know_each_other(axis: str) -> None:
    others = tuple(f"mipset.condensing.{name}" for name in AXES - {axis})
    package, module = ROOT / "condensing" / axis, ROOT / "condensing" / f"{axis}.py"
    for path in sorted(package.glob("*.py")) if package.is_dir() else [module]:
        assert not {name for name in imported_modules(path) if name.startswith(others)}, path.name


def test_verbs_do_not_know_each_other() -> None:
    """The modules of verbs import the shared modules of the command line, and no other verb."""
    shared = {
        "parser": set[str](),
        "config": {"parser"},
        "stopping": set[str](),
        "wording": set[str](),
        "inputs": {"parser", "wording"},
        "machine": {"parser", "wording"},
        "repeating": {"parser"},
    }
    for path in (ROOT / "cli").glob("*.py"):
        if path.stem != "__init__":
            from_cli = {module for module in imported_modules(path) if module.startswith("mipset.cli")}
            allowed = shared.get(path.stem, set(shared))
            assert from_cli <= {f"mipset.cli.{name}" for name in allowed}, path.stem


FLAG = re.compile(r"(^|[\s`(])--[a-z]")
OPTIONS_OF_OTHER_PROGRAMS = {("nn/native/build.py", "--version"), ("data/sources.py", "--ignore-scripts")}  # g++, npm


def test_only_the_command_line_knows_flags() -> None:
    """No other string, docstrings included, holds a flag: errors name settings in backticks."""
    flags = {
        (path.relative_to(ROOT).as_posix(), node.value)
        for path in source_files()
        if folder_of(path) != "cli"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and FLAG.search(node.value)
    }
    assert flags == OPTIONS_OF_OTHER_PROGRAMS


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_house_rules(path: Path) -> None:
    """Only the command line prints; no hasattr; no star imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "hasattr", f"line {node.lineno}: ask for a type instead"
            if folder_of(path) != "cli":
                assert node.func.id != "print", f"line {node.lineno}: return or yield it"
        if isinstance(node, ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names), f"line {node.lineno}: name what you need"
