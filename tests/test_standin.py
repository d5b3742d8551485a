"""The stand-in for torchvision: where it is not installed, and where it is and cannot be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
USE = """
from standin import stand_in_for_torchvision
stands_in = stand_in_for_torchvision()
import torchvision
from torchvision.transforms import Compose
print(stands_in, stand_in_for_torchvision(), Compose.__module__, type(torchvision.half).__name__)
"""
MISSING = "raise ModuleNotFoundError(name='torchvision')"
UNFIT = "half = 1\nimport torchvision.extension\nraise RuntimeError('operator torchvision::nms does not exist')"


@pytest.mark.parametrize(
    ("content", "printed"),
    [
        (MISSING, "True True torchvision.transforms AnyAttribute"),
        (UNFIT, "True True torchvision.transforms AnyAttribute"),
        ("half = 1", "False False torchvision.transforms int"),
    ],
)
def test_only_a_torchvision_that_cannot_be_imported_is_replaced(tmp_path: Path, content: str, printed: str) -> None:
    folder = tmp_path / "torchvision"
    folder.mkdir()
    (folder / "__init__.py").write_text(content, "utf-8")
    (folder / "extension.py").write_text("", "utf-8")
    (folder / "transforms.py").write_text("class Compose: pass", "utf-8")
    path = os.pathsep.join(map(str, (EXAMPLES, tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", USE], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == printed
