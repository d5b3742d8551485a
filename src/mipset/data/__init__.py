"""Real datasets as uint8 arrays: `load` one by name, make one `from_arrays`, `fetch` one, list what is `available`."""

from mipset.data.arrays import from_arrays
from mipset.data.dataset import Dataset, Split
from mipset.data.fetching import fetch
from mipset.data.registry import DatasetEntry, available, is_from_memory, load, spec_of
from mipset.data.samples import from_hf, from_torch
from mipset.io.files import home

__all__ = [
    "Dataset",
    "DatasetEntry",
    "Split",
    "available",
    "fetch",
    "from_arrays",
    "from_hf",
    "from_torch",
    "home",
    "is_from_memory",
    "load",
    "spec_of",
]
