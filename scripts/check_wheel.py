"""Check the mipset that is installed in the environment of this Python: numpy is enough, no torch and no compiler.

`make release-check` and cibuildwheel run it in an environment that has nothing but the wheel. With `--kernels`, the
package must have compiled kernels, and one that every processor runs must load.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import mipset

FOR_EVERY_PROCESSOR = ("sse2", "neon")


def check_command(folder: Path) -> None:
    """The command prints its help and fetches a prefix, which is read."""
    command = str(Path(sysconfig.get_path("scripts")) / "mipset")
    shown = subprocess.run([command, "--help"], check=True, capture_output=True, text=True).stdout
    assert "fetch" in shown
    images = np.arange(3 * 2 * 16, dtype=np.uint8).reshape(3, 2, 1, 4, 4)
    mipset.Artifact(images, 1, (0.5,), (0.25,), ("a", "b")).write(folder / "set")
    subprocess.run([command, "fetch", folder / "set", "--ipc", "2", "--out", folder / "part"], check=True)
    assert (mipset.read(folder / "part").images == images[:2]).all()


def check_kernels() -> list[str]:
    """The names of the libraries in the package; the one for every processor is opened."""
    found = sorted((Path(mipset.__file__).parent / "nn" / "native").glob("kernels-*.so"))
    for path in found:
        if path.name.split("-")[1] in FOR_EVERY_PROCESSOR:
            assert ctypes.CDLL(str(path)).convolve
            return [path.name for path in found]
    raise SystemExit(f"There are no kernels for every processor in the package, only {found}.")


def main() -> None:
    assert version("mipset") == mipset.__version__
    assert mipset.load("fashion-mini").classes == 10
    with tempfile.TemporaryDirectory() as folder:
        check_command(Path(folder))
    kernels = check_kernels() if "--kernels" in sys.argv[1:] else []
    print(f"mipset {mipset.__version__} works here", *kernels, sep="\n  with ")


if __name__ == "__main__":
    main()
