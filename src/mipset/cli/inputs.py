"""What verbs read and write: real datasets, and checks of paths before any work is done."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mipset.cli.parser import check_at_least, flag_of
from mipset.cli.wording import print_message
from mipset.display.progress import Progress
from mipset.errors import ArtifactError, SettingError, brief

if TYPE_CHECKING:
    from mipset.data import Dataset
    from mipset.file.artifact import Artifact
    from mipset.file.provenance import Provenance
    from mipset.settings.recipe import Recipe


def loading_of(arguments: argparse.Namespace) -> Provenance:
    """How the flags for pictures say that a dataset is to be loaded."""
    check_at_least(0, split_seed=arguments.split_seed)
    loading: Provenance = {"size": arguments.resolution, "split_seed": arguments.split_seed}
    return {**loading, "skip_bad": True} if arguments.skip_bad else loading


def load_with_progress(name: str, loading: Provenance) -> Dataset:
    """Load a real dataset, and say what was left out. A progress bar appears if that takes long."""
    from mipset.data import load

    with Progress() as bar:
        data = load(
            name,
            resolution=loading.get("size"),
            seed=loading.get("split_seed", 0),
            skip_bad=loading.get("skip_bad", False),
            report=bar.report,
        )
    for note in data.notes:
        print_message(f"{name}: {note}")
    return data


def fitted_with_note(recipe: Recipe, data: Dataset, given: Collection[str]) -> Recipe:
    """The recipe with settings for which the data suffice; those that the user typed stay. Says what was changed."""
    from mipset.condensing.checks import fitted_to_data

    fitted = fitted_to_data(recipe, data, given)
    print_fitting([(recipe, fitted)], data)
    return fitted


def print_fitting(recipes: Iterable[tuple[Recipe, Recipe]], data: Dataset) -> None:
    """Say how recipes were fitted to the data: pairs of the wanted recipe and the fitted one. The same is said once."""
    from mipset.condensing.checks import AUGMENTATIONS, FITTED_TO_NUMBER

    name, fewest = data.smallest_class
    few = f"Class {name!r} has {fewest} of {len(data.train)} training images"
    mirrored = f"A mirrored image of {data.name} can be of another class"
    pairs = list(recipes)
    for reason, settings in ((few, FITTED_TO_NUMBER), (mirrored, AUGMENTATIONS)):
        changes = ["; ".join(_changes(wanted, fitted, settings)) for wanted, fitted in pairs]
        for change in filter(None, dict.fromkeys(changes)):
            print_message(f"{reason}, which gives {change}.")


def _changes(wanted: Recipe, fitted: Recipe, settings: Iterable[str]) -> list[str]:
    """The settings that differ, with both values; those that a run does not read are not worth a word."""
    return [
        f"{flag_of(setting)} {getattr(fitted, setting)}, not {getattr(wanted, setting)}"
        for setting in settings
        if getattr(fitted, setting) != getattr(wanted, setting) and wanted.reads(setting)
    ]


def how_to_evaluate(out: Path, dataset: str) -> str:
    """The command that evaluates a new file. It names the data if they are not found by their name alone."""
    from mipset.data import spec_of

    data = "" if spec_of(dataset) else f" --data {shlex.quote(dataset)}"
    return f"mipset evaluate {out}{data}"


def dataset_of_file(arguments: argparse.Namespace, path: Path, artifact: Artifact) -> Dataset:
    """The dataset that a file was condensed from, or the one that `--data` names instead.

    A file from elsewhere may name any path: without `--data`, only a published dataset is loaded, by its name.
    """
    provenance: Mapping[str, Any] = artifact.provenance
    size, split_seed, skip_bad = (provenance.get(key, 0) for key in ("size", "split_seed", "skip_bad"))
    if not isinstance(size, int | None) or not isinstance(split_seed, int) or not isinstance(skip_bad, int):
        raise ArtifactError(
            f"{path} is damaged: its provenance has size {brief(size)}, split_seed {brief(split_seed)} and skip_bad "
            f"{brief(skip_bad)}. Get it again."
        )
    name = arguments.data or _named_by(path, provenance)
    loading: Provenance = {"size": size or None, "split_seed": split_seed}
    data = load_with_progress(name, {**loading, "skip_bad": bool(skip_bad or arguments.skip_bad)})
    if data.sha256 != provenance.get("sha256"):
        if not arguments.data:
            raise SettingError(
                f"{path} was condensed from another version of {name}: add --data {name} to use the present one."
            )
        if data.shape == artifact.images.shape[2:] and {*artifact.class_names} <= {*data.class_names}:  # else refused
            print_message(f"{name} is not the dataset that {path} was condensed from: images, labels or splits differ.")
    return data


def _named_by(path: Path, provenance: Mapping[str, Any]) -> str:
    """The published dataset that a file says it was condensed from."""
    from mipset.data import is_from_memory, spec_of

    name = provenance.get("dataset")
    if not isinstance(name, str):
        raise SettingError(f"{path} does not name its dataset: add --data DATASET.")
    kind = name.partition(":")[0]
    if spec_of(kind) is not None:
        return kind
    if is_from_memory(name):
        raise SettingError(
            f"{path} was condensed from {brief(name)}, which mipset cannot load, such as data in memory in Python: add "
            "--data DATASET if `mipset data` lists the same data, or evaluate it in Python."
        )
    wanted = {"folder": "folder:PATH", "npz": "npz:PATH", "imagenet": "imagenet:PATH", "hf": "hf:NAME"}.get(kind)
    raise SettingError(
        f"{path} was condensed from {brief(name, str)}, and data that are named in a file are not opened by "
        f"themselves: add --data {wanted or 'DATASET'}."
    )


def short_names(paths: list[Path]) -> dict[Path, str]:
    """The names of files in a table or report: their stems, or their paths where stems repeat."""
    stems = [path.stem for path in paths]
    return {path: path.stem if stems.count(path.stem) == 1 else str(path) for path in paths}


def refuse_to_save(path: Path) -> None:
    """Refuse to write something into a set of the gallery, or beside it: its index has the digest of its file."""
    from mipset.file.gallery import is_listed

    if is_listed(path):
        raise SettingError(
            f"`save` cannot change {path}, whose index has the digest of the file. Get a file of your own with "
            f"`mipset fetch {path} --out FILE`."
        )


def check_output(arguments: argparse.Namespace, name: str = "out") -> None:
    """Refuse a path that cannot be written, or that exists while `--force` is missing, before any work is done.

    `name` is the argument that holds the path. The input file of the verb is never overwritten.
    """
    from mipset.io.files import refuse_to_overwrite

    out = getattr(arguments, name)
    if "file" in arguments:
        check_not_input(out, Path(arguments.file), name)
    refuse_to_overwrite(out, arguments.force, name)


def check_not_input(out: Path, given: Path, name: str = "out") -> None:
    """Refuse to overwrite the file that is read, even with `--force`."""
    from mipset.file.gallery import local_file

    source = local_file(given)
    if out.exists() and source.exists() and out.samefile(source):
        raise SettingError(f"`{name}` {out} would overwrite the file itself. Choose another name.")
