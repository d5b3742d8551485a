"""Hugging Face `datasets` and plain torch: a set is one Parquet file, and its first rows are every smaller set.

`mipset export --to parquet` writes the training images ordered by rank, so S_[n] is the first rows of the file, and
`select` cuts it. `load_dataset` opens the file without mipset. A network of plain torch learns from the rows of each
size, as in `torch_training.py`: with the augmentation of evaluations and CutMix. The second row of the table is the
same for real images of the same bytes: the first n of each class.

Run:   python examples/hf_training.py (needs `pip install ".[condense,export,hf]"`)
Takes: a minute of processor time, most of it to condense. `--toy` takes some seconds.
Printed at the end (one condensation, one network for each cell):

    test accuracy in %       n = 1  n = 2  n = 5  n = 10
    condensed                 68.2   69.3   68.8    73.4
    real images, same bytes   45.4   52.3   69.3    74.8
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["HF_HUB_OFFLINE"] = "1"  # the file is here; this is read at import
import torch
from common import Setting, argument_parser, first_of_each_class
from datasets import Dataset, disable_progress_bars, load_dataset
from torch.utils.data import TensorDataset
from torch_training import ROWS, accuracy, trained

from mipset import Artifact
from mipset.display.tables import in_columns
from mipset.exchange.exports import export


def opened(path: Path, cache: Path) -> Dataset:
    """The rows of a Parquet file, as tensors."""
    rows = load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(cache))
    return rows.with_format("torch")


def as_dataset(rows: Dataset, condensed: Artifact) -> TensorDataset:
    """All of these rows, decoded and normalised: there are few."""
    columns = rows[:]
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (condensed.mean, condensed.std))
    return TensorDataset((columns["image"].float() / 255 - mean) / std, columns["label"])


def main() -> None:
    parser = argument_parser(__doc__)
    setting = Setting(parser.parse_args().toy)
    disable_progress_bars()
    sizes, steps = ((1, 2, 3), 2) if setting.toy else ((1, 2, 5, 10), 300)
    data, condensed = setting.data, setting.condensed(setting.data)
    with TemporaryDirectory() as folder:
        export(condensed, "parquet", Path(folder) / "set.parquet")
        rows = opened(Path(folder) / "set.parquet", Path(folder) / "cache")
        one = len(rows) // condensed.ipc  # rows of one image per class
        sets = {
            "condensed": [as_dataset(rows.select(range(n * one)), condensed) for n in sizes],
            "real images, same bytes": [setting.dataset_of(first_of_each_class(data.train, n)) for n in sizes],
        }
    test = setting.dataset_of(data.test)
    table = [["test accuracy in %", *(f"n = {n}" for n in sizes)]]
    for title, given in sets.items():
        networks = (trained(ROWS[-1], images, data.shape, data.classes, steps) for images in given)
        table.append([title, *(f"{accuracy(theta, test):.1f}" for theta in networks)])
    print(in_columns(table))


if __name__ == "__main__":
    main()
