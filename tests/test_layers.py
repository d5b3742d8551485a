"""Who may import whom. The tables are the design; a module that is not in them fails too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mipset

ROOT = Path(mipset.__file__).parent
TORCH = {"torch"}
ARRAYS = {"numpy"}

# Every module of mipset, below before above: what it imports when it is imported itself. Beside the standard library,
# that is all. A package is one entry: what its modules import from outside of it.
AT_ONCE: dict[str, set[str]] = {
    # no torch: what a device needs to open a file
    "errors": set(),
    "extras": {"errors"},
    "distributed": {"errors"},
    "files": {"errors", "extras"},
    "progress": set(),
    "memory": set(),
    "artifact": {"errors", "files", "numpy"},
    "charts": set(),
    "tables": {"artifact", "errors"},
    "pictures": {"artifact", "errors", "extras", "files", "numpy"},
    "decoding": {"artifact", "numpy"},
    "exports": {"__init__", "artifact", "errors", "extras", "files", "numpy", "pictures"},
    "device": {"__init__", "artifact", "decoding", "errors", "extras", "files", "numpy", "tables"},
    "data": {"errors", "extras", "files", "numpy"},
    # torch: the parts that all others are made of
    "randomness": TORCH,
    "native": {"errors", "files", *TORCH},
    "engines": {"native", *TORCH},
    "networks": {"engines", "errors", *TORCH},
    "augment": {"errors", "randomness", *TORCH},
    "training": {"augment", "distributed", "errors", "networks", "randomness", *TORCH},
    # the axes, which never import each other
    "synthetic": {"errors", "randomness", "training", *TORCH},
    "matching": {"errors", "networks", *TORCH},
    "subsets": {"errors", *TORCH},
    "sampling": {"errors", "networks", "randomness", "training", *TORCH},
    "learners": {"distributed", "errors", "networks", "randomness", "training", *TORCH},
    # what a policy chooses by
    "metrics": {"networks", "randomness", "subsets", "synthetic", "training", *TORCH},
    # where they meet
    "condense": {
        *(
            "augment",
            "distributed",
            "errors",
            "learners",
            "matching",
            "metrics",
            "networks",
            "randomness",
            "sampling",
            "subsets",
            "synthetic",
        ),
        *TORCH,
    },
    "recipes": {"distributed", "errors"},
    "costs": {"engines", "matching", "metrics", "networks", "recipes", "synthetic", "training", *TORCH},
    "checkpoint": {"condense", "errors", "files", "recipes", *TORCH},
    "evaluate": {
        *("artifact", "costs", "data", "engines", "errors", "memory", "networks", "randomness", "recipes", "synthetic"),
        "training",
        *TORCH,
    },
    "selection": {
        *(
            "artifact",
            "data",
            "engines",
            "errors",
            "evaluate",
            "metrics",
            "networks",
            "randomness",
            "recipes",
            "synthetic",
        ),
        "training",
        *TORCH,
    },
    "audit": {"artifact", "data", "randomness", "synthetic", *ARRAYS, *TORCH},
    "growing": {"artifact", "condense", "data", "engines", "errors", "recipes", *TORCH},
    "imports": {"__init__", "artifact", "errors", "recipes", "synthetic", *TORCH},
    # experiments
    "results": {"artifact", "charts", "errors", "progress", "tables"},
    "methods": {"errors", "recipes"},
    "experiments": {
        *("__init__", "artifact", "checkpoint", "costs", "data", "engines", "errors", "evaluate", "files"),
        *("methods", "metrics", "recipes", "results"),
        *TORCH,
    },
    # the doors
    "cli": {"__init__", "distributed", "errors", "extras", "progress"},
    "__init__": {"errors", "extras"},
    "__main__": {"cli"},
}

# What functions import when they are called, beside what their module has imported at once.
LATER: dict[str, set[str]] = {
    "distributed": TORCH,
    "device": TORCH,
    "pictures": {"PIL"},
    "exports": {"PIL", "pyarrow", *TORCH},
    "data": {"PIL"},
    "files": {"platformdirs"},
    "recipes": {
        *(
            "__init__",
            "artifact",
            "augment",
            "condense",
            "learners",
            "matching",
            "metrics",
            "networks",
            "sampling",
            "subsets",
        ),
        *("synthetic", "training"),
        *ARRAYS,
        *TORCH,
    },
    "methods": {"evaluate", "metrics", "selection", "synthetic", *ARRAYS, *TORCH},
    "cli": {
        *("artifact", "audit", "checkpoint", "condense", "costs", "data", "decoding", "device", "engines", "evaluate"),
        *("experiments", "exports", "files", "growing", "imports", "memory", "methods", "pictures", "recipes"),
        *("results", "selection", "tables"),
        *TORCH,
    },
}

# No import of these, however indirect, may bring torch.
WITHOUT_TORCH = [
    "errors",
    "extras",
    "distributed",
    "files",
    "progress",
    "charts",
    "memory",
    "artifact",
    "tables",
    "pictures",
    "decoding",
    "exports",
    "device",
    "data",
    "recipes",
    "results",
    "methods",
    "cli",
    "__init__",
]

STANDARD = {*sys.stdlib_module_names, "__future__"}


def sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def module_of(path: Path) -> str:
    """`data/npz.py` is part of `data`."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(node: ast.AST) -> Iterator[str]:
    """What one import statement asks for: a module of mipset, or the first name of a package."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            assert not alias.name.startswith("mipset"), "write `from mipset... import ...`"
            yield alias.name.partition(".")[0]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "write `from mipset... import ...`, not `from . import ...`"
        first, *rest = (node.module or "").split(".")
        if first != "mipset":
            yield first
        elif rest:
            yield rest[0]
        else:
            modules = {module_of(path) for path in sources()}
            yield from (alias.name if alias.name in modules else "__init__" for alias in node.names)


def imports(path: Path) -> tuple[set[str], set[str]]:
    """What a file imports at once, and what in functions. Imports for the type checker alone are no imports."""
    at_once: set[str] = set()
    later: set[str] = set()

    def visit(node: ast.AST, names: set[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                continue
            names.update(imported(child))
            visit(
                child,
                later if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else names,
            )

    visit(ast.parse(path.read_text(encoding="utf-8")), at_once)
    own = {module_of(path)} | STANDARD
    return at_once - own, later - own


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_what_its_layer_may(path: Path) -> None:
    module = module_of(path)
    assert module in AT_ONCE, f"{module} has no layer yet: put it into the table"
    at_once, later = imports(path)
    assert at_once <= AT_ONCE[module], f"{module} may not import {sorted(at_once - AT_ONCE[module])}"
    lazily = AT_ONCE[module] | LATER.get(module, set())
    assert later <= lazily, f"functions of {module} may not import {sorted(later - lazily)}"


def test_the_tables_speak_of_modules_that_exist() -> None:
    assert set(AT_ONCE) == {module_of(path) for path in sources()}
    assert set(LATER) <= set(AT_ONCE)


def test_layers_have_no_circles() -> None:
    """Above is above: following the imports of a module never leads back to it."""
    for start in AT_ONCE:
        reached, waiting = set[str](), set(AT_ONCE[start])
        while waiting:
            module = waiting.pop()
            reached.add(module)
            waiting |= AT_ONCE.get(module, set()) - reached
        assert start not in reached


def test_verbs_do_not_know_each_other() -> None:
    """The door of the command line knows all its modules, and those of verbs only what verbs share."""
    shared: dict[str, set[str]] = {"shared": set(), "machine": {"mipset.cli.shared"}}
    for path in (ROOT / "cli").glob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        asked = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
        if path.stem != "__init__":
            known = {module for module in asked if module.startswith("mipset.cli")}
            assert known <= shared.get(path.stem, {f"mipset.cli.{name}" for name in shared}), path.stem


def test_the_axes_do_not_know_each_other() -> None:
    axes = {"synthetic", "matching", "sampling", "subsets", "learners"}
    for axis in axes:
        assert not AT_ONCE[axis] & axes


@pytest.mark.parametrize("start", WITHOUT_TORCH)
def test_no_torch_is_needed_by(start: str) -> None:
    reached, waiting = set[str](), {start}
    while waiting:
        module = waiting.pop()
        reached.add(module)
        waiting |= AT_ONCE.get(module, set()) - reached
    assert not reached & TORCH


def test_data_have_nothing_to_do_with_torch() -> None:
    """Not even in a function."""
    assert not (AT_ONCE["data"] | LATER["data"]) & TORCH


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_house_rules(path: Path) -> None:
    """Only the command line prints, no hasattr, no star imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "hasattr", f"line {node.lineno}: ask for a type instead"
            if module_of(path) != "cli":
                assert node.func.id != "print", f"line {node.lineno}: return or yield it"
        if isinstance(node, ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names), f"line {node.lineno}: name what you need"
