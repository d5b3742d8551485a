"""Make the embedded dataset: the first images of each class of Fashion-MNIST, in dataset order.

    python scripts/make_fashion_mini.py

The source is the folder of Debian's package dataset-fashion-mnist, or any folder with the four official
files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mipset.data import cache, embedded
from mipset.data.dataset import Dataset, Split
from mipset.data.official import OFFICIAL
from mipset.data.specs import FASHION_MINI


def first_of_each_class(split: Split, count: int, classes: int) -> Split:
    """The first `count` images of every class, in the order of the split."""
    rows = [np.flatnonzero(split.labels == label)[:count] for label in range(classes)]
    return split.at(np.sort(np.concatenate(rows)))


def main() -> None:
    """Write the file, print its digest, and compare it with the expected one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--output", type=Path, default=embedded.PATH)
    arguments = parser.parse_args()

    whole = OFFICIAL["fashion-mnist"].open("fashion-mnist", arguments.source)
    spec = FASHION_MINI
    train = first_of_each_class(whole.train, spec.train_count // whole.classes, whole.classes)
    test = first_of_each_class(whole.test, spec.test_count // whole.classes, whole.classes)
    mini = Dataset(spec.name, train, test, spec.class_names, spec.mean, spec.std)
    cache.write_splits(arguments.output, train, test, compressed=True)
    print(f"{arguments.output}: {arguments.output.stat().st_size} bytes, {len(train)} + {len(test)} images")
    print(f"sha256 {mini.sha256}")
    if mini.sha256 != spec.sha256:
        raise SystemExit(f"specs.py expects {spec.sha256 or 'nothing yet'}. Correct one of them.")


if __name__ == "__main__":
    main()
