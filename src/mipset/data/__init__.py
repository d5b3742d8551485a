"""Real datasets as uint8 arrays: `load` one by name, `fetch` one that is missing, see what is `available`."""

from mipset.data.dataset import Dataset, Split
from mipset.data.fetch import fetch
from mipset.data.registry import Entry, available, facts, load
from mipset.io.files import home

__all__ = ["Dataset", "Entry", "Split", "available", "facts", "fetch", "home", "load"]
