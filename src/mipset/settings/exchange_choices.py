"""What `mipset export` and `mipset import` can be asked for: every name, listed once, with one line that explains it.

The command line shows these tables in its help, and mipset.exchange checks its arguments against them.
"""

from __future__ import annotations

from collections.abc import Mapping

EXPORT_FORMATS: Mapping[str, str] = {
    "png": "a folder with one sub-folder of PNG files per class, and a contact sheet",
    "npz": "arrays for numpy",
    "parquet": "a table that Hugging Face datasets opens",
    "webdataset": "a tar file for WebDataset",
    "pt": "tensors for torch",
    "c": "a header for microcontrollers",
}
IMPORT_KINDS: Mapping[str, str] = {
    "mdc": "from MDC, IDC or DREAM, values in [0, 1]",
    "dc": "from DC, DSA, DM or MTT, normalised values",
}
IMPORT_ORDERS: Mapping[str, str] = {
    "tiles": "keeps the sizes that the authors measured",
    "images": "keeps stored images whole",
}
