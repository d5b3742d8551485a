"""The small dataset that comes with mipset, so that everything can be tried without a download."""

from __future__ import annotations

from pathlib import Path

from mipset.data import store
from mipset.data.dataset import Dataset
from mipset.data.known import FASHION_MINI

PATH = Path(__file__).parent / "assets" / "fashion-mini.npz"


def read() -> Dataset:
    """`fashion-mini`, as scripts/make_fashion_mini.py made it."""
    train, test = store.read(PATH)
    return FASHION_MINI.dataset(FASHION_MINI.name, train, test)
