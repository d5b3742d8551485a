"""Datasets of the form hf:NAME[:CONFIG]: those of Hugging Face, from the cache of its library or from a folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mipset.data.dataset import Dataset
from mipset.data.samples import from_hf
from mipset.errors import DataError, brief, missing
from mipset.reporting import Report

KIND = "hf"
COLUMNS = ("image", "label")  # what can be chosen after the name: `:label=fine_label`
PATH_BEGINS = ("/", ".", "~")  # no name of a dataset begins like this
SAVED = ("dataset_dict.json", "state.json")  # one of them is in a folder that `save_to_disk` wrote


def read(
    name: str,
    source: str,
    columns: Mapping[str, str],
    resolution: int | None,
    seed: int,
    report: Report,
    skip_bad: bool,
) -> Dataset:
    """Read the dataset `source` and call it `name`. Nothing is downloaded.

    `source` is a folder on this machine, or NAME or NAME:CONFIG of a dataset that is in the cache of Hugging Face's
    library. `columns` names the column of the images and that of the labels, if they are not clear.
    """
    is_folder = _is_folder(name, source)
    fetching = f"Run `mipset data fetch {KIND}:{source}`, or give a folder as {KIND}:PATH"
    with _library(online=False) as datasets:
        try:
            loaded = _from_folder(datasets, Path(source)) if is_folder else _from_hub(datasets, source)
        except Exception as error:  # the library raises all kinds of exceptions
            advice = "Check its files" if is_folder else fetching
            raise DataError(f"{brief(name, str)} could not be loaded ({_brief(error)}). {advice}.") from error
        try:
            return from_hf(
                loaded,
                image=columns.get("image"),
                label=columns.get("label"),
                resolution=resolution,
                name=name,
                seed=seed,
                skip_bad=skip_bad,
                report=report,
            )
        except DataError as error:  # which names arguments of Python
            raise DataError(
                error.naming(lambda each: f"{KIND}:{source}:{each}=COLUMN" if each in COLUMNS else None)
            ) from error


def fetch(name: str, source: str, report: Report) -> Path:
    """Download NAME or NAME:CONFIG into the cache of Hugging Face's library, and return the folder of that cache."""
    _is_folder(name, source)
    report(f"downloading {name}", 0, 0)
    with _library(online=True) as datasets:
        try:
            _from_hub(datasets, source)
        except Exception as error:
            raise DataError(
                f"{name} could not be fetched ({_brief(error)}). Load it with the library `datasets` on another "
                f"machine, write it with save_to_disk(), copy that folder and use {KIND}:PATH."
            ) from error
        return Path(datasets.config.HF_DATASETS_CACHE)


def _is_folder(name: str, source: str) -> bool:
    """Whether there is such a folder. What can only be a path, but is no folder, is refused."""
    found = os.path.isdir(os.path.expanduser(source))  # noqa: PTH111, PTH112 (unlike a Path, they take any text)
    if not found and source.startswith(PATH_BEGINS):
        raise DataError(
            f"{brief(name, str)}: there is no folder {brief(source, str)}. Correct the path, or give the name of a "
            f"dataset of Hugging Face, such as {KIND}:NAME."
        )
    return found


@contextmanager
def _library(*, online: bool) -> Iterator[Any]:
    """The library `datasets`, silent; unless `online`, it does not use the network."""
    try:
        import datasets
    except ImportError as error:
        raise missing("datasets", "Reading datasets of Hugging Face") from error
    offline, verbosity = datasets.config.HF_HUB_OFFLINE, datasets.logging.get_verbosity()
    hub = logging.getLogger("huggingface_hub")  # which downloads for the library, and warns at every try
    level = hub.level
    bars = datasets.utils.are_progress_bars_disabled()
    datasets.config.HF_HUB_OFFLINE = offline or not online
    datasets.logging.set_verbosity_error()
    hub.setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    try:
        yield datasets
    finally:
        datasets.config.HF_HUB_OFFLINE = offline
        datasets.logging.set_verbosity(verbosity)
        hub.setLevel(level)
        if not bars:
            datasets.enable_progress_bars()


def _from_folder(datasets: Any, path: Path) -> Any:
    if any((path / name).is_file() for name in SAVED):
        return datasets.load_from_disk(str(path))
    return datasets.load_dataset(str(path))


def _from_hub(datasets: Any, source: str) -> Any:
    hub_name, _, config = source.partition(":")
    return datasets.load_dataset(hub_name, config or None)


def _brief(error: Exception) -> str:
    return brief(" ".join(str(error).split()) or type(error).__name__, str).removesuffix(".")
