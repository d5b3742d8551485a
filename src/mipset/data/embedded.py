"""The small dataset that comes with mipset, so that no download is needed to try it."""

from __future__ import annotations

from pathlib import Path

from mipset.data import cache
from mipset.data.dataset import Dataset
from mipset.data.specs import FASHION_MINI

PATH = Path(__file__).parent / "assets" / "fashion-mini.npz"


def read() -> Dataset:
    """Read `fashion-mini`, which scripts/make_fashion_mini.py wrote."""
    train, test = cache.read_splits(PATH)
    return FASHION_MINI.verify(FASHION_MINI.name, train, test)
