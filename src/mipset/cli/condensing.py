"""The verbs that make condensed sets: `condense`, `grow`, and `recipes`, the settings that both start from."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mipset import __version__
from mipset.cli.inputs import check_output, dataset_of_file, load_with_progress, recipe_name_for
from mipset.cli.machine import Engines, add_machine_flags, add_memory_flag, check_memory, device_of, refuse_torchrun
from mipset.cli.parser import Verbs, add_data_flags, add_recipe_flags, add_verb, flag_of, given_settings, with_flags
from mipset.cli.wording import bytes_of, counted, print_message, titled_lines
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
    from mipset.file.provenance import Provenance
    from mipset.nn.engines import Engine
    from mipset.settings.recipe import Recipe


RESUME = "continue from {}.checkpoint, which an interrupted run left"


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    verb = add_verb(
        verbs, "condense", run_condense, "condense a dataset into one file", "DATASET --out FILE [FLAG ...]"
    )
    verb.add_argument("dataset", metavar="DATASET", help="a name that `mipset data` lists, folder:PATH or npz:PATH")
    verb.add_argument("--out", metavar="FILE", type=Path, help="the file to write")
    verb.add_argument(
        "--recipe", metavar="NAME", help="settings to start from (default: the recipe for DATASET, else own-cpu)"
    )
    verb.add_argument(
        "--budget",
        metavar="TIME",
        help="processor time for everything, such as 3min or 2h: chooses experts and iterations by itself",
    )
    add_recipe_flags(verb)
    verb.add_argument("--start", metavar="FILE", type=Path, help="start from the images of this condensed set")
    add_data_flags(verb)
    add_machine_flags(verb)
    add_memory_flag(verb)
    verb.add_argument("--resume", action="store_true", help=RESUME.format("FILE"))
    verb.add_argument(
        "--dry-run", action="store_true", help="print what the run would cost, and do nothing (needs no --out)"
    )
    verb.add_argument("--force", action="store_true", help="overwrite FILE")

    verb = add_verb(verbs, "grow", run_grow, "add images or classes to a file", "FILE --out FILE2 [FLAG ...]")
    verb.add_argument("file", metavar="FILE", type=Path, help="a file that `mipset condense` wrote")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    verb.add_argument("--data", metavar="DATASET", help="the real images (default: the dataset that FILE names)")
    verb.add_argument("--recipe", metavar="NAME", help="settings to start from (default: those in FILE)")
    add_recipe_flags(verb)
    add_machine_flags(verb)
    add_memory_flag(verb)
    verb.add_argument("--resume", action="store_true", help=RESUME.format("FILE2"))
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")

    verb = add_verb(verbs, "recipes", run_recipes, "list the named recipes")
    verb.add_argument("name", metavar="NAME", nargs="?", help="show every setting of this recipe")


def run_condense(arguments: argparse.Namespace) -> None:
    """Condense DATASET into one file. Every prefix of the file is a training set.

    To share the work between processes, start them with torchrun:
    torchrun --nproc-per-node 2 -m mipset condense ...
    """
    team: Team = arguments.team
    if arguments.out is None and not arguments.dry_run:
        raise SettingError("The argument --out is required. See `mipset condense --help`.")
    if arguments.out is not None and team.leads:
        check_output(arguments)
    if arguments.dry_run and arguments.resume:
        raise SettingError("`dry_run` prints the cost of a whole run. Leave out `resume`.")
    if arguments.start is not None and arguments.init is not None:
        raise SettingError("`init` and `start` both choose the first images. Leave one of them out.")
    recipe = recipe_of(arguments)
    device = device_of(arguments)
    loaded_with: Provenance = {"size": arguments.resolution, "split_seed": arguments.split_seed}
    data = load_with_progress(arguments.dataset, arguments.resolution, arguments.split_seed)
    from mipset.condensing.assembly import assemble, work
    from mipset.condensing.checkpoint import CheckpointedRun
    from mipset.condensing.checks import check_fit
    from mipset.condensing.packing import pack

    engines = Engines(arguments, device)
    if arguments.budget is not None:
        recipe = _within_budget(arguments, recipe, data, device, engines.for_long_work())
    first, start_origin = _first_images(arguments.start, recipe, data)
    engine = engines.for_work(lambda: work(recipe, data.shape, data.classes))
    origin: Provenance = {**loaded_with, **start_origin, "engine": str(engine)}
    if arguments.dry_run:
        _print_cost(recipe, data, device, engine, first, origin)
        return
    check_fit(recipe if first is None else recipe.replace(init="noise"), data)
    check_memory(arguments, device, lambda: _cost(recipe, data).max_memory)
    sources = data.identity + start_origin.get("start", "")  # a checkpoint must agree with these and with the recipe
    flags = {flag_of(name): str(value) for name, value in asdict(recipe).items()}
    team.agree(
        {"version": __version__, "data": sources, "engine": str(engine), **flags, "--resume": str(arguments.resume)}
    )
    with Progress() as bar:
        try:
            parts = assemble(recipe, data, device, first, engine, team, report=bar.report)
        except KeyboardInterrupt as stop:
            advice = "The same command continues" if recipe.learner == "experts" else "Nothing was written"
            raise KeyboardInterrupt(f"{str(stop).rstrip('.') or 'Interrupted'}. {advice}.") from stop
    run = CheckpointedRun(_checkpoint_path(arguments), parts, recipe, sources, str(engine))
    pack_step = partial(pack, r=recipe, data=data, origin=origin)
    _carry_out(arguments, f"condensing {data.name}", run, pack_step, f"\nnext: mipset evaluate {arguments.out}")


def _checkpoint_path(arguments: argparse.Namespace) -> Path:
    out: Path = arguments.out
    return out.with_name(out.name + ".checkpoint")


def _carry_out(
    arguments: argparse.Namespace, title: str, run: CheckpointedRun, pack_step: Callable[[Step], Artifact], ending: str
) -> None:
    """Condense, or resume from a checkpoint, with a progress bar; write the last step and print what was written."""
    if arguments.resume:
        run.resume()
    outer = run.recipe.outer
    if run.done == outer:
        raise SettingError(f"The checkpoint {run.path} is complete. Leave out `resume` to start again.")
    start, step = time.monotonic(), None
    with Progress(title, 1.0, run.done / outer) as bar:
        try:
            for step in run.steps():
                note = f"outer {step.t}/{outer}  loss {step.loss:.3g}  {run.parts.policy.note()}"
                bar.advance(step.share - bar.done, note)
        except (KeyboardInterrupt, TeamError) as stop:
            reason = str(stop).rstrip(".") or "Interrupted"
            advice = f"Add --resume to continue after outer iteration {run.done}" if run.done else "Nothing was written"
            raise KeyboardInterrupt(f"{reason}. {advice}.") from stop
    assert step is not None
    if not run.parts.team.leads:
        return
    artifact = pack_step(step)
    artifact.write(arguments.out)
    run.path.unlink(missing_ok=True)
    print(
        f"{arguments.out}: {counted(artifact.ipc, 'image')} for each of {len(artifact.class_names)} classes, "
        f"{bytes_of(arguments.out)}, in {duration(time.monotonic() - start)}{ending}"
    )


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """The recipe that `--recipe` names, or the first one for the dataset, with the settings that the user typed."""
    from mipset.settings.catalogue import recipe

    return recipe(arguments.recipe or recipe_name_for(arguments.dataset), **given_settings(arguments))


def _within_budget(
    arguments: argparse.Namespace, recipe: Recipe, data: Dataset, device: torch.device, engine: Engine
) -> Recipe:
    """The recipe with what `--budget` chooses. A run that is resumed keeps what was chosen when it began."""
    from mipset.condensing.budget import CHOSEN, FITTED, chosen, parse_budget, recipe_within
    from mipset.condensing.checkpoint import recipe_in

    team: Team = arguments.team

    def chosen_by_leader() -> bytes:
        parse_budget(arguments.budget)
        if arguments.resume:
            begun, typed = recipe_in(_checkpoint_path(arguments)), given_settings(arguments)
            return json.dumps({name: begun[name] for name in (*CHOSEN, *FITTED) if name not in typed}).encode()
        within = recipe_within(recipe, data, arguments.budget, device, engine, given_settings(arguments))
        listed = ", ".join(f"{flag_of(name)} {value}" for name, value in chosen(recipe, within).items())
        print_message(f"A budget of {arguments.budget} of processor time gives {listed}.")
        return json.dumps(asdict(within)).encode()

    return recipe.replace(**json.loads(team.first(chosen_by_leader)))


def _first_images(path: Path | None, recipe: Recipe, data: Dataset) -> tuple[Any, Provenance]:
    """The images of the file that `--start` names, and what the new file remembers of them."""
    if path is None:
        return None, {}
    import torch

    from mipset.file.artifact import read

    start = read(path)
    if start.factor != recipe.factor:
        raise SettingError(f"{path} has `factor` {start.factor}, not {recipe.factor}. Choose the factor of the file.")
    if start.class_names != data.class_names:
        raise SettingError(f"{path} has other classes than {data.name}. Start from a set of the same classes.")
    return torch.from_numpy(start.images), {"start": _digest(start)}


def _digest(artifact: Artifact) -> str:
    """A hash of the images in a file."""
    return hashlib.sha256(artifact.images.tobytes()).hexdigest()


def _cost(recipe: Recipe, data: Dataset) -> Cost:
    from mipset.condensing.costs import cost

    return cost(recipe, data.shape, data.classes, len(data.train), len(data.test))


def _print_cost(
    recipe: Recipe,
    data: Dataset,
    device: torch.device,
    engine: Engine,
    first: torch.Tensor | None,
    origin: Provenance,
) -> None:
    """Check that `condense` could run, and print what it would cost."""
    import torch

    from mipset.condensing.assembly import given_pixels
    from mipset.condensing.checks import check_fit
    from mipset.condensing.costs import timed
    from mipset.condensing.packing import packed_bytes
    from mipset.units import byte_count, flop_count

    check_fit(recipe, data)
    if first is not None:
        given_pixels(first, (recipe.ipc, data.classes, *data.shape))
    cost = _cost(recipe, data)
    match, step = timed(recipe, data.shape, data.classes, device, engine)
    threads = counted(torch.get_num_threads(), "thread")
    machine = f"{device}, {threads}, {engine}" if device.type == "cpu" else str(device)
    shape = " x ".join(map(str, data.shape))
    rows = {
        "data": f"{data.name}: {len(data.train):,} training images of {shape} pixels, {data.classes} classes",
        "recipe": f"{counted(recipe.ipc, 'image')} per class, policy {recipe.policy}, objective {recipe.objective}, "
        f"{recipe.network}-{recipe.depth} of width {recipe.width}, {recipe.outer:,} x {recipe.inner:,} iterations",
        "work": f"{flop_count(cost.run_flops)}: {cost.matches:,} matches of {flop_count(cost.match_flops)}, "
        f"{cost.training_steps:,} training steps of {flop_count(cost.step_flops)}",
        "time": f"about {duration(cost.seconds(match, step))} on this machine ({machine}): "
        f"a match takes {match:.3g} s, a training step {step:.3g} s",
        "memory": f"about {byte_count(cost.max_memory)}",
        "file": byte_count(packed_bytes(recipe, data, origin)),
    }
    print(titled_lines(rows))
    print("nothing was condensed or written: leave out --dry-run and add --out FILE to do it")


def run_grow(arguments: argparse.Namespace) -> None:
    """Add condensed images to those of FILE: more per class (--ipc), or new classes of DATASET.

    The images of FILE stay as they are, byte for byte. A device that has them downloads only the new images per class.
    New classes are part of every rank: after adding one, a device downloads the file again.
    """
    refuse_torchrun("grow")
    from mipset.file.artifact import read

    check_output(arguments)
    artifact = read(arguments.file)
    device = device_of(arguments)
    from mipset.condensing.assembly import work
    from mipset.condensing.checkpoint import CheckpointedRun
    from mipset.condensing.growing import grown, in_order_of, pack_grown, recipe_of

    dataset = dataset_of_file(arguments, arguments.file, artifact)
    data = in_order_of(artifact, dataset)
    recipe = recipe_of(artifact, arguments.recipe, **given_settings(arguments))
    engine = Engines(arguments, device).for_work(lambda: work(recipe, data.shape, data.classes))
    check_memory(arguments, device, lambda: _cost(recipe, data).max_memory)
    with Progress() as bar:
        parts = grown(artifact, data, recipe, device, engine, bar.report)
    run = CheckpointedRun(_checkpoint_path(arguments), parts, recipe, data.identity + _digest(artifact), str(engine))
    # The provenance names the dataset as it is stored, not with its classes in the order of the file.
    origin: Provenance = {"sha256": dataset.sha256, "engine": str(engine)}
    pack_step = partial(pack_grown, artifact, r=recipe, data=data, origin=origin)
    ending = f"; those of {arguments.file} are unchanged"
    _carry_out(arguments, f"growing {arguments.file.stem}", run, pack_step, ending)


def run_recipes(arguments: argparse.Namespace) -> None:
    """List the named recipes, with the dataset and the expected accuracy of each, or every setting of one recipe."""
    from mipset.settings.catalogue import RECIPES, recipe

    if arguments.name is None:
        for name, named in RECIPES.items():
            print(f"{name}\n    {named.dataset}: {named.promise}")
        return
    settings = recipe(arguments.name)
    for f in fields(settings):
        setting = f"{flag_of(f.name)} {getattr(settings, f.name)}"
        print(f"{setting:<36}  {with_flags(f.metadata['help'])}")
