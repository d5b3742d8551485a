"""Training on a microcontroller, in C: a header holds the condensed images, and `examples/c/train.c` learns from them.

The script condenses, exports the C header, writes the test images to a flat file, compiles the C program with `cc -O2`
and runs it. The program decodes images when it needs them, trains a small convolutional network in float32 by SGD on
the first n images of each class, and tests it. It uses the C library only, and no heap.

Run:   python examples/c_training.py
Takes: some minutes on 2 cores, most of it to condense; `cc` must be installed. `--toy` takes some seconds.
Printed at the end (one condensation, one network for each size):

    RAM: 209568 bytes, flash for images: 78400 bytes
    n = 1: 69.5 %
    n = 2: 73.6 %
    n = 5: 76.4 %
    n = 10: 77.8 %
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from common import Setting, argument_parser

from mipset import Artifact
from mipset.data import Split
from mipset.exchange.exports import export

PROGRAM = Path(__file__).parent / "c" / "train.c"


def compiled(condensed: Artifact, folder: Path, compiler: str) -> Path:
    """The C program, compiled with the images of `condensed`."""
    export(condensed, "c", folder / "set.h")
    program = folder / "train"
    subprocess.run([compiler, "-O2", f"-I{folder}", str(PROGRAM), "-o", str(program), "-lm"], check=True)
    return program


def write_images(split: Split, path: Path) -> None:
    """A record for each image: a byte for its label, then its pixels."""
    pixels = split.images.reshape(len(split), -1)
    path.write_bytes(np.hstack([split.labels.astype(np.uint8)[:, None], pixels]).tobytes())


def main() -> None:
    parser = argument_parser(__doc__)
    setting = Setting(parser.parse_args().toy)
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("There is no C compiler: install one, so that `cc` is a command.")
    steps, sizes = (2, (1, 3)) if setting.toy else (600, (1, 2, 5, 10))
    with TemporaryDirectory() as folder:
        program = compiled(setting.condensed(setting.data), Path(folder), compiler)
        write_images(setting.data.test, Path(folder) / "test.bin")
        subprocess.run([program, Path(folder) / "test.bin", str(steps), *map(str, sizes)], check=True)


if __name__ == "__main__":
    main()
