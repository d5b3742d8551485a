"""What verbs read and write: real datasets, and checks of paths before any work is done."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mipset.cli.parser import check_at_least
from mipset.display.progress import Progress
from mipset.errors import ArtifactError, MipsetError, SettingError

if TYPE_CHECKING:
    from mipset.data import Dataset
    from mipset.file.artifact import Artifact


DEFAULT_RECIPE = "own-cpu"  # for the user's own data; it takes minutes on two cores


def recipe_name_for(dataset: str) -> str:
    """The name of the first recipe made for a dataset, or of the default recipe."""
    from mipset.settings.catalogue import RECIPES

    fitting = [name for name, named in RECIPES.items() if named.dataset == dataset]
    return fitting[0] if fitting else DEFAULT_RECIPE


def load_with_progress(name: str, resolution: int | None, split_seed: int) -> Dataset:
    """Load a real dataset. A progress bar appears if that takes long."""
    from mipset.data import load

    check_at_least(0, split_seed=split_seed)
    with Progress() as bar:
        return load(name, resolution=resolution, seed=split_seed, report=bar.report)


def dataset_of_file(arguments: argparse.Namespace, path: Path, artifact: Artifact) -> Dataset:
    """The dataset that a file was condensed from, or the one that `--data` names instead."""
    provenance: Mapping[str, Any] = artifact.provenance
    name = arguments.data or provenance.get("dataset")
    if not isinstance(name, str):
        raise SettingError(f"{path} does not name its dataset: add --data DATASET.")
    resolution, split_seed = provenance.get("size"), provenance.get("split_seed", 0)
    if not isinstance(resolution, int | None) or not isinstance(split_seed, int):
        raise ArtifactError(
            f"{path} is damaged: its provenance has size {resolution!r} and split_seed {split_seed!r}. Get it again."
        )
    try:
        data = load_with_progress(name, resolution, split_seed)
    except MipsetError as error:
        if arguments.data or ":" not in name:
            raise
        kind = name.partition(":")[0]
        raise SettingError(
            f"{path} was condensed from {name}, which cannot be read: add --data {kind}:PATH."
        ) from error
    if not arguments.data and data.sha256 != provenance.get("sha256"):
        raise SettingError(
            f"{path} was condensed from another version of {name}: add --data {name} to use the present one."
        )
    return data


def check_output(arguments: argparse.Namespace, name: str = "out") -> None:
    """Refuse a path that cannot be written, or that exists while `--force` is missing, before any work is done.

    `name` is the argument that holds the path. The input file of the verb is never overwritten.
    """
    from mipset.io.files import refuse_to_overwrite

    out = getattr(arguments, name)
    if "file" in arguments:
        check_not_input(out, Path(arguments.file), name)
    refuse_to_overwrite(out, arguments.force, name)


def check_not_input(out: Path, source: Path, name: str = "out") -> None:
    """Refuse to overwrite the file that is read, even with `--force`."""
    if out.exists() and source.exists() and out.samefile(source):
        raise SettingError(f"`{name}` {out} would overwrite the file itself. Choose another name.")
