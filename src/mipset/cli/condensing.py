"""Making condensed sets: `condense`, `grow`, and the `recipes` that both start from."""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mipset import __version__
from mipset.cli.machine import Engines, add_machine_flags, chosen_device, refuse_torchrun
from mipset.cli.shared import (
    Verbs,
    add_data_flags,
    add_recipe_flags,
    add_verb,
    count,
    dataset_of,
    given_settings,
    load,
    recipe_for,
    refuse_to_overwrite,
    size_of,
    titled,
)
from mipset.display.progress import Progress
from mipset.errors import SettingError, TeamError
from mipset.nn.distributed import Team
from mipset.units import duration

if TYPE_CHECKING:
    import torch

    from mipset.condensing.checkpoint import CheckpointedRun
    from mipset.condensing.condense import Step
    from mipset.condensing.costs import Cost
    from mipset.data import Dataset
    from mipset.file.artifact import Artifact
    from mipset.nn.engines import Engine
    from mipset.settings.recipe import Recipe


RESUME = "go on from {}.checkpoint, which an interrupted run left"


def add(verbs: Verbs) -> None:
    """The verbs of this module and their flags."""
    verb = add_verb(verbs, "condense", condense, "condense a dataset into one file")
    verb.add_argument("dataset", metavar="DATASET", help="a name that `mipset data` lists, folder:PATH or npz:PATH")
    verb.add_argument("--out", metavar="FILE", type=Path, help="the file to write")
    verb.add_argument(
        "--recipe", metavar="NAME", help="settings to start from (default: made for DATASET, else cifar10-cpu)"
    )
    add_recipe_flags(verb)
    verb.add_argument("--start", metavar="FILE", type=Path, help="a condensed set whose images to start from")
    add_data_flags(verb)
    add_machine_flags(verb)
    verb.add_argument("--resume", action="store_true", help=RESUME.format("FILE"))
    verb.add_argument("--dry-run", action="store_true", help="say what it would cost, and do nothing (needs no --out)")
    verb.add_argument("--force", action="store_true", help="overwrite FILE")

    verb = add_verb(verbs, "grow", grow, "more images or classes beside those of a file")
    verb.add_argument("file", metavar="FILE", type=Path, help="what `mipset condense` wrote")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    verb.add_argument("--data", metavar="DATASET", help="the real images (default: named in the file)")
    verb.add_argument("--recipe", metavar="NAME", help="settings to start from (default: those of FILE)")
    add_recipe_flags(verb)
    add_machine_flags(verb)
    verb.add_argument("--resume", action="store_true", help=RESUME.format("FILE2"))
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")

    verb = add_verb(verbs, "recipes", recipes, "named settings and what they promise")
    verb.add_argument("name", metavar="NAME", nargs="?", help="show every setting of this one")


def condense(chosen: argparse.Namespace) -> None:
    """Condense DATASET into one file, of which every prefix is a training set.

    Several processes share the work if torchrun starts them: torchrun --nproc-per-node 2 -m mipset condense ...
    """
    team: Team = chosen.team
    if chosen.out is None and not chosen.dry_run:
        raise SettingError("the following arguments are required: --out: see `mipset condense --help`.")
    if chosen.out is not None and team.leads:
        refuse_to_overwrite(chosen)
    if chosen.dry_run and chosen.resume:
        raise SettingError("--dry-run tells the cost of a whole run: leave out --resume.")
    if chosen.start is not None and chosen.init is not None:
        raise SettingError("--init and --start both say what to start from: leave one out.")
    recipe = _recipe(chosen)
    device = chosen_device(chosen)
    loaded_with = {"size": chosen.resolution, "split_seed": chosen.split_seed}
    real = load(chosen.dataset, chosen.resolution, chosen.split_seed)
    from mipset.condensing.assembly import assemble
    from mipset.condensing.checkpoint import CheckpointedRun
    from mipset.condensing.packing import pack
    from mipset.cli.parser import flag_of

    first, origin = _first_pixels(chosen.start, recipe, real)
    engine = Engines(chosen, device).for_work(lambda: _cost(recipe, real).run_flops)
    made_by = {**loaded_with, **origin, "engine": str(engine)}
    if chosen.dry_run:
        _tell_cost(recipe, real, device, engine, first, made_by)
        return
    parts = assemble(recipe, real, device, first, engine, team)
    sources = real.identity + origin.get("start", "")  # what a checkpoint must agree with, beside the recipe
    flags = {flag_of(name): str(value) for name, value in asdict(recipe).items()}
    team.agree(
        {"version": __version__, "data": sources, "engine": str(engine), **flags, "--resume": str(chosen.resume)}
    )
    kept = CheckpointedRun(_waiting(chosen), parts, recipe, sources, str(engine))
    packed = partial(pack, r=recipe, data=real, origin=made_by)
    _carry_out(chosen, f"condensing {real.name}", kept, packed, f"\nnext: mipset evaluate {chosen.out}")


def _waiting(chosen: argparse.Namespace) -> Path:
    """Where the checkpoints of a run are kept."""
    out: Path = chosen.out
    return out.with_name(out.name + ".checkpoint")


def _carry_out(
    chosen: argparse.Namespace, title: str, kept: CheckpointedRun, packed: Callable[[Step], Artifact], ending: str
) -> None:
    """Condense, or go on from a checkpoint, with a bar; write what the last step is packed as, and say so."""
    if chosen.resume:
        kept.resume()
    outer = kept.recipe.outer
    if kept.done == outer:
        raise SettingError(f"the checkpoint {kept.path} is complete: leave out --resume to start anew.")
    start, step = time.monotonic(), None
    with Progress(title, 1.0, kept.done / outer) as bar:
        try:
            for step in kept.steps():
                note = f"outer {step.t}/{outer}  loss {step.loss:.3g}  {kept.parts.policy.note()}"
                bar.advance(step.share - bar.done, note)
        except (KeyboardInterrupt, TeamError) as stop:
            how = f"add --resume to go on after outer iteration {kept.done}" if kept.done else "nothing was written"
            raise KeyboardInterrupt(f"{str(stop) or 'interrupted'}; {how}.") from stop
    assert step is not None
    if not kept.parts.team.leads:
        return
    artifact = packed(step)
    artifact.write(chosen.out)
    kept.path.unlink(missing_ok=True)
    print(
        f"{chosen.out}: {count(artifact.ipc, 'image')} for each of {len(artifact.class_names)} classes, "
        f"{size_of(chosen.out)}, in {duration(time.monotonic() - start)}{ending}"
    )


def _recipe(chosen: argparse.Namespace) -> Recipe:
    """The recipe asked for, or the first made for the dataset, with the flags given in place of its settings."""
    from mipset.settings.catalogue import recipe

    return recipe(chosen.recipe or recipe_for(chosen.dataset), **given_settings(chosen))


def _first_pixels(path: Path | None, recipe: Recipe, real: Dataset) -> tuple[Any, dict[str, str]]:
    """The images to start from and what to remember of them, if a file was given."""
    if path is None:
        return None, {}
    import torch

    from mipset.file.artifact import read

    given = read(path)
    if given.factor != recipe.factor:
        raise SettingError(f"{path} has --factor {given.factor}, not {recipe.factor}: use the same to start from it.")
    if given.class_names != real.class_names:
        raise SettingError(f"{path} has other classes than {real.name}: start from a set of the same classes.")
    return torch.from_numpy(given.images), {"start": _digest(given)}


def _digest(artifact: Artifact) -> str:
    """What tells the images of a file apart from all others."""
    return hashlib.sha256(artifact.images.tobytes()).hexdigest()


def _cost(recipe: Recipe, real: Dataset) -> Cost:
    from mipset.condensing.costs import cost

    return cost(recipe, real.shape, real.classes, len(real.train), len(real.test))


def _tell_cost(
    recipe: Recipe,
    real: Dataset,
    device: torch.device,
    engine: Engine,
    first: torch.Tensor | None,
    origin: dict[str, Any],
) -> None:
    """What `condense` would do, once it is known that it could."""
    import torch

    from mipset.condensing.assembly import given_pixels
    from mipset.condensing.checks import check_fit
    from mipset.condensing.costs import timed
    from mipset.condensing.packing import packed_bytes
    from mipset.units import byte_count, flop_count

    check_fit(recipe, real)
    if first is not None:
        given_pixels(first, (recipe.ipc, real.classes, *real.shape))
    found = _cost(recipe, real)
    match, step = timed(recipe, real.shape, real.classes, device, engine)
    where = f"{device}, {count(torch.get_num_threads(), 'thread')}, {engine}" if device.type == "cpu" else str(device)
    size = " x ".join(map(str, real.shape))
    rows = {
        "data": f"{real.name}: {len(real.train):,} training images of {size} pixels, {real.classes} classes",
        "recipe": f"{count(recipe.ipc, 'image')} per class, policy {recipe.policy}, "
        f"{recipe.network}-{recipe.depth} of width {recipe.width}, {recipe.outer:,} x {recipe.inner:,} iterations",
        "work": f"{flop_count(found.run_flops)}: {found.matches:,} matches of {flop_count(found.match_flops)}, "
        f"{found.training_steps:,} training steps of {flop_count(found.step_flops)}",
        "time": f"about {duration(found.seconds(match, step))} on this machine ({where}): "
        f"a match takes {match:.3g} s, a training step {step:.3g} s",
        "max_memory": f"about {byte_count(found.max_memory)}",
        "file": byte_count(packed_bytes(recipe, real, origin)),
    }
    print(titled(rows))
    print("nothing was condensed or written: leave out --dry-run and add --out FILE to do it")


def grow(chosen: argparse.Namespace) -> None:
    """Condense more images per class (--ipc), or classes that DATASET has and FILE has not, beside those of FILE.

    The images of FILE stay as they are, to the bit. A device that has them needs only the new ones, unless classes were
    added: these lie within every rank, so that it reads the file anew.
    """
    refuse_torchrun("grow")
    from mipset.file.artifact import read

    refuse_to_overwrite(chosen)
    artifact = read(chosen.file)
    device = chosen_device(chosen)
    from mipset.condensing.checkpoint import CheckpointedRun
    from mipset.condensing.growing import grown, in_order_of, pack_grown, recipe_of

    loaded = dataset_of(chosen, chosen.file, artifact)
    real = in_order_of(artifact, loaded)
    recipe = recipe_of(artifact, chosen.recipe, **given_settings(chosen))
    engine = Engines(chosen, device).for_work(lambda: _cost(recipe, real).run_flops)
    parts = grown(artifact, real, recipe, device, engine)
    kept = CheckpointedRun(_waiting(chosen), parts, recipe, real.identity + _digest(artifact), str(engine))
    origin = {"sha256": loaded.sha256, "engine": str(engine)}  # of the data as they are, not in the order of the file
    packed = partial(pack_grown, artifact, r=recipe, data=real, origin=origin)
    _carry_out(chosen, f"growing {chosen.file.stem}", kept, packed, f"; those of {chosen.file} are unchanged")


def recipes(chosen: argparse.Namespace) -> None:
    """List the named recipes with their dataset and what they promise, or every setting of one."""
    from mipset.settings.catalogue import RECIPES, recipe
    from mipset.cli.parser import flag_of

    if chosen.name is None:
        for name, named in RECIPES.items():
            print(f"{name}\n    {named.dataset}: {named.promise}")
        return
    settings = recipe(chosen.name)
    for f in fields(settings):
        setting = f"{flag_of(f.name)} {getattr(settings, f.name)}"
        print(f"{setting:<36}  {f.metadata['help']}")
