"""Build what is published, and check it: sdist, wheel, wheel with compiled kernels. `make release-check` runs it.

The files are built in environments of their own, checked by twine, and each wheel is installed in an empty environment
in which no command can be found, so no compiler either. Needs `build` and `twine`, and a C++ compiler for the kernels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def run(*command: object, **environment: str) -> None:
    """Run a command, and stop if it fails."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env={**inherited, **environment})


def check_installed(wheel: Path, *options: str) -> None:
    """Install a wheel where there is nothing else, and use it."""
    folder = ROOT / "build" / f"empty-{wheel.stem}"
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    run(python, "-m", "pip", "install", "--quiet", wheel)
    run(python, "-W", "error", ROOT / "scripts" / "check_wheel.py", *options, PATH=str(python.parent), CXX="")


def main() -> None:
    for folder in (DIST, ROOT / "build"):  # where an earlier build left its files
        shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, MIPSET_KERNELS="0")  # the wheel is built from the sdist
    (pure,) = DIST.glob("*-py3-none-any.whl")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", DIST, MIPSET_KERNELS="1")
    (binary,) = set(DIST.glob("*.whl")) - {pure}
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    check_installed(pure)
    check_installed(binary, "--kernels")
    print("ready:", *(path.name for path in sorted(DIST.iterdir())), sep="\n  ")


if __name__ == "__main__":
    main()
