"""Real datasets as uint8 arrays: `load` one by name, `fetch` one that is missing, list what is `available`."""

from mipset.data.dataset import Dataset, Split
from mipset.data.fetching import fetch
from mipset.data.registry import DatasetEntry, available, load, spec_of
from mipset.io.files import home

__all__ = ["Dataset", "DatasetEntry", "Split", "available", "fetch", "home", "load", "spec_of"]
