"""The verbs that make condensed sets: `condense` and `grow`."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mipset import __version__
from mipset.cli.inputs import (
    check_output,
    dataset_of_file,
    fitted_with_note,
    how_to_evaluate,
    load_with_progress,
    loading_of,
)
from mipset.cli.machine import (
    Engines,
    add_machine_flags,
    add_memory_flag,
    check_memory,
    device_of,
    refuse_torchrun,
    tell_disk,
)
from mipset.cli.parser import (
    Parser,
    Verbs,
    add_config_flag,
    add_data_flags,
    add_json_flag,
    add_recipe_flags,
    add_source_flags,
    add_verb,
    flag_of,
    given_once,
    given_settings,
)
from mipset.cli.stopping import Stopping
from mipset.cli.wording import (
    bytes_of,
    counted,
    file_facts,
    print_message,
    print_result,
    time_of_run,
    titled_lines,
)
from mipset.display.progress import Progress
from mipset.errors import ArtifactError, MipsetError, SettingError, TeamError
from mipset.nn.distributed import Team
from mipset.units import duration

if TYPE_CHECKING:
    import torch

    from mipset.condensing.checkpoint import CheckpointedRun, Found, Identity
    from mipset.condensing.costs import Cost
    from mipset.condensing.parts import Step
    from mipset.condensing.run_logging import Callback
    from mipset.data import Dataset
    from mipset.file.artifact import Artifact
    from mipset.file.provenance import Provenance
    from mipset.file.run_log import Entry
    from mipset.nn.engines import Engine
    from mipset.reporting import Report
    from mipset.settings.recipe import Recipe


MOST_SHOWN = 12  # sizes whose cost is printed one by one


def _add_run_flags(verb: Parser, out: str) -> None:
    """Add the flags about stopping a run and continuing it."""
    verb.add_argument(
        "--max-time",
        metavar="TIME",
        help="stop after this time, such as 90s or 2h, and keep a checkpoint: the same command continues (default: no "
        "limit)",
    )
    verb.add_argument("--fresh", action="store_true", help=f"start again, and forget {out}.checkpoint")
    verb.add_argument("--resume", action="store_true", help=f"refuse to start if there is no {out}.checkpoint")
    verb.add_argument(
        "--log",
        metavar="PATH",
        help=f"log of the run: loss, distances, selections, time, memory; none for no log (default: {out}.log.jsonl)",
    )
    verb.add_argument(
        "--tensorboard",
        metavar="DIR",
        type=Path,
        help="write loss, distances and images for TensorBoard (default: none)",
    )


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    verb = add_verb(
        verbs, "condense", run_condense, "condense a dataset into one file", "DATASET --out FILE [FLAG ...]"
    )
    add_json_flag(verb)
    add_config_flag(verb)
    verb.add_argument(
        "dataset",
        metavar="DATASET",
        nargs="?",
        help="a name that `mipset data` lists, such as cifar10, folder:PATH or hf:NAME",
    )
    verb.add_argument("--data", metavar="DATASET", help="the same, with a flag (default: DATASET)")
    verb.add_argument("--out", metavar="FILE", type=Path, help="the file to write (needed, except with --dry-run)")
    verb.add_argument(
        "--recipe", metavar="NAME", help="settings to start from (default: the recipe for DATASET, else own-cpu)"
    )
    verb.add_argument(
        "--budget",
        metavar="TIME",
        help="processor time for everything, such as 3min or 2h: chooses experts, iterations and precision by itself "
        "(default: those of the recipe)",
    )
    add_recipe_flags(verb)
    verb.add_argument(
        "--start", metavar="FILE", type=Path, help="start from the images of this condensed set (default: --init)"
    )
    add_data_flags(verb)
    add_machine_flags(verb)
    add_memory_flag(verb)
    _add_run_flags(verb, "FILE")
    verb.add_argument(
        "--dry-run", action="store_true", help="print what the run would cost, and do nothing (needs no --out)"
    )
    verb.add_argument("--force", action="store_true", help="overwrite FILE")

    verb = add_verb(verbs, "grow", run_grow, "add images or classes to a file", "FILE --out FILE2 [FLAG ...]")
    add_json_flag(verb)
    add_config_flag(verb)
    verb.add_argument("file", metavar="FILE", type=Path, help="a file that `mipset condense` wrote")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    add_source_flags(verb, "the real images")
    verb.add_argument("--recipe", metavar="NAME", help="settings to start from (default: those in FILE)")
    add_recipe_flags(verb, default="default: that of FILE or of --recipe")
    add_machine_flags(verb)
    add_memory_flag(verb)
    _add_run_flags(verb, "FILE2")
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")


def run_condense(arguments: argparse.Namespace) -> None:
    """Condense DATASET into one file. Every prefix of the file is a training set.

    To share the work between processes, start them with torchrun:
    torchrun --nproc-per-node 2 -m mipset condense ...
    """
    team: Team = arguments.team
    arguments.dataset = given_once(arguments, "dataset", "data")
    if arguments.out is None and not arguments.dry_run:
        raise SettingError("The argument --out is required. See `mipset condense --help`.")
    if arguments.out is not None and team.leads:
        check_output(arguments)
    if arguments.dry_run and (arguments.resume or arguments.fresh):
        raise SettingError("`dry_run` prints the cost of a whole run. Leave out `resume` and `fresh`.")
    if arguments.start is not None and arguments.init is not None:
        raise SettingError("`init` and `start` both choose the first images. Leave one of them out.")
    with _as_only_writer(arguments):
        _condense(arguments)


def _condense(arguments: argparse.Namespace) -> None:
    team: Team = arguments.team
    recipe = recipe_of(arguments)
    device = device_of(arguments)
    loaded_with = loading_of(arguments)
    data = load_with_progress(arguments.dataset, loaded_with)
    from mipset.condensing.assembly import assemble, work
    from mipset.condensing.checkpoint import CheckpointedRun, Identity
    from mipset.condensing.checks import check_fit
    from mipset.condensing.packing import pack, packed_bytes

    engines = Engines(arguments, device)
    found = None if arguments.dry_run else _found_checkpoint(arguments)
    if arguments.budget is not None:
        recipe = _within_budget(arguments, recipe, data, device, engines.for_long_work(), found)
    else:
        chosen = {*given_settings(arguments), *(() if arguments.start is None else ("init",))}
        recipe = fitted_with_note(recipe, data, chosen)
    first, start_origin = _first_images(arguments.start, recipe, data)
    engine = engines.for_work(lambda: work(recipe, data.shape, data.classes))
    origin: Provenance = {**loaded_with, **start_origin, "engine": str(engine)}
    if arguments.dry_run:
        _print_cost(arguments, recipe, data, device, engine, first, origin)
        return
    check_fit(recipe if first is None else recipe.replace(init="noise"), data)
    check_memory(arguments, device, lambda: _cost(recipe, data).max_memory)
    sources = data.identity + start_origin.get("start", "")  # a checkpoint must agree with these and with the recipe
    flags = {flag_of(name): str(value) for name, value in asdict(recipe).items()}
    team.agree({"data": sources, "engine": str(engine), **flags})
    identity = Identity(recipe, sources, str(engine), arguments.budget or "")
    _begin(arguments, identity, found, packed_bytes(recipe, data, origin))
    tell_disk(arguments, [recipe], data, device, engine)
    with _assembling(arguments, found, arguments.budget is not None or recipe.reads("experts")) as report:
        parts = assemble(recipe, data, device, first, engine, team, report=report)
    run = CheckpointedRun(_checkpoint_path(arguments), parts, identity)
    pack_step = partial(pack, r=recipe, data=data, origin=origin)
    ending = f"\nnext: {how_to_evaluate(arguments.out, arguments.dataset)}"
    _carry_out(arguments, f"condensing {data.name}", run, found, pack_step, ending)


@contextmanager
def _as_only_writer(arguments: argparse.Namespace) -> Iterator[None]:
    """Check the flags about runs, and let no other process write `--out` meanwhile."""
    from mipset.file.run_log import refuse_other_file
    from mipset.io.files import check_writable
    from mipset.io.locks import only_writer

    team: Team = arguments.team
    arguments.stopping.after(arguments.max_time)
    if arguments.fresh and arguments.resume:
        raise SettingError("`fresh` starts again, and `resume` continues. Leave one of them out.")
    names = ("fresh", "resume", "budget", "max_time") if "budget" in arguments else ("fresh", "resume", "max_time")
    team.agree({"version": __version__, **{flag_of(name): str(getattr(arguments, name)) for name in names}})
    if arguments.out is None or not team.leads or getattr(arguments, "dry_run", False):
        yield
        return
    check_writable(_checkpoint_path(arguments))
    log = _log_path(arguments)
    if log is not None:
        if arguments.log is not None:  # the name beside the output is the run's own
            refuse_other_file(log)
        check_writable(log, "log")
    with only_writer(arguments.out):
        yield


def _found_checkpoint(arguments: argparse.Namespace) -> Found | None:
    """The checkpoint that the run continues from."""
    from mipset.condensing.checkpoint import find

    path = _checkpoint_path(arguments)
    found = None if arguments.fresh else find(path, arguments.team)
    if arguments.resume and found is None:
        raise ArtifactError(f"There is no checkpoint {path}. Leave out `resume` to start the run.")
    return found


def _begin(arguments: argparse.Namespace, identity: Identity, found: Found | None, file_bytes: int) -> None:
    """Refuse a checkpoint of another run, or a disk that is too full. A new run forgets the checkpoints before it."""
    from mipset.condensing.checkpoint import needed_bytes, remove, save_choice
    from mipset.io.files import check_space

    team: Team = arguments.team
    if found is not None:
        found.check_fits(identity)
    elif team.leads:
        check_space(arguments.out, needed_bytes(file_bytes))
        remove(_checkpoint_path(arguments))
        if identity.budget:
            save_choice(_checkpoint_path(arguments), identity)


@contextmanager
def _assembling(arguments: argparse.Namespace, found: Found | None, continues: bool) -> Iterator[Report]:
    """Around the work before the first iteration: a progress bar, and how to continue after an interrupt."""
    from mipset.condensing.checkpoint import remove

    try:
        with Progress() as bar:
            yield arguments.stopping.asking(bar.report)
    except KeyboardInterrupt as stop:
        advice = "The same command continues" if continues or found is not None else "Nothing was written"
        raise KeyboardInterrupt(f"{str(stop).rstrip('.') or 'Interrupted'}. {advice}.") from stop
    except MipsetError:
        if found is None and arguments.team.leads:
            remove(_checkpoint_path(arguments))  # the choice of a budget that cannot be carried out
        raise


def _checkpoint_path(arguments: argparse.Namespace) -> Path:
    out: Path = arguments.out
    return out.with_name(out.name + ".checkpoint")


def _carry_out(
    arguments: argparse.Namespace,
    title: str,
    run: CheckpointedRun,
    found: Found | None,
    pack_step: Callable[[Step], Artifact],
    ending: str,
) -> None:
    """Run, or continue from a checkpoint, with a progress bar; write the last step and print what was written."""
    stopping: Stopping = arguments.stopping
    if found is not None:
        run.resume(found)
        damaged = f"{run.path} is damaged or missing. " if found.path != run.path else ""
        print_message(f"{damaged}Continuing from {found.path}, {_progress(run)}. Use --fresh to start again.")
    with stopping.waiting(), _observers(arguments, run, pack_step) as observers:  # until the result is written
        _take_steps(arguments, title, run, observers)
        if not run.parts.team.leads:
            return
        assert run.last is not None
        artifact = pack_step(run.last)
        _write_or_keep(artifact, arguments.out, run)
    spent = time_of_run(run.seconds, run.parts.learner.preparing_seconds)
    print_result(
        arguments,
        file_facts(arguments.out, artifact.ipc, artifact.class_names, seconds=run.seconds, loss=run.last.loss),
        f"{arguments.out}: {counted(artifact.ipc, 'image')} for each of {len(artifact.class_names)} classes, "
        f"{bytes_of(arguments.out)}, in {spent}{ending}",
    )


@contextmanager
def _observers(
    arguments: argparse.Namespace, run: CheckpointedRun, pack_step: Callable[[Step], Artifact]
) -> Iterator[list[Callback]]:
    """What follows the outer iterations: the log, and TensorBoard if it is asked for."""
    from mipset.condensing.run_logging import LogFile

    log, folder = _log_path(arguments), arguments.tensorboard
    observers: list[Callback] = []
    with ExitStack() as stack:
        if log is not None and run.parts.team.leads:
            file = LogFile(log, pack_step, run.place.t, force=arguments.log is None)
            observers.append(file)
        if folder is not None and run.parts.team.leads:
            from mipset.display.tensorboard import TensorBoard

            board = stack.enter_context(TensorBoard(folder, run.parts.T, run.place.t))
            observers.append(lambda entry, step: board.add(entry, lambda: pack_step(step)))
        yield observers
    for observer in observers:
        if isinstance(observer, LogFile) and observer.failure:
            print_message(observer.failure)


def _log_path(arguments: argparse.Namespace) -> Path | None:
    from mipset.file.run_log import SUFFIX

    if arguments.log == "none":
        return None
    out: Path = arguments.out
    return out.with_name(out.name + SUFFIX) if arguments.log is None else Path(arguments.log)


def _take_steps(arguments: argparse.Namespace, title: str, run: CheckpointedRun, observers: Sequence[Callback]) -> None:
    """Take all steps that are left, unless the command is stopped."""
    from mipset.condensing.run_logging import logged

    stopping: Stopping = arguments.stopping

    def tell(entry: Entry, step: Step) -> None:
        for observer in observers:
            observer(entry, step)

    with Progress(title, 1.0, run.share) as bar:
        try:
            for step in logged(run.steps(lambda: stopping.asked), tell, lambda: run.spent):
                bar.show(step)
        except TeamError as error:
            raise TeamError(f"{error}. {_how_to_continue(arguments, run)}") from error
    if not run.complete:
        raise KeyboardInterrupt(f"{stopping.reason}. {_how_to_continue(arguments, run)}")


def _progress(run: CheckpointedRun) -> str:
    """How far the checkpoint of a run is."""
    inner = f" and {run.place.e} of {run.parts.E} inner iterations of the next" if run.place.e else ""
    return f"after outer iteration {run.place.t} of {run.parts.T}{inner}"


def _how_to_continue(arguments: argparse.Namespace, run: CheckpointedRun) -> str:
    if not run.share:
        return "Nothing was written."
    command = "The same command without --fresh" if arguments.fresh else "The same command"
    return f"{command} continues {_progress(run)}."


def _write_or_keep(artifact: Artifact, out: Path, run: CheckpointedRun) -> None:
    """Write the result. If that fails, keep it in the checkpoint, or else in a temporary folder."""
    from mipset.condensing.checkpoint import remove

    try:
        artifact.write(out)
    except ArtifactError as error:
        raise ArtifactError(f"{error} {_kept(artifact, out.name, run)}.") from error
    remove(run.path)


def _kept(artifact: Artifact, name: str, run: CheckpointedRun) -> str:
    """Where a result is that could not be written."""
    with suppress(ArtifactError):
        run.write()
        return f"{run.path} holds the complete run: the same command writes the file"
    folder = Path(tempfile.mkdtemp(prefix="mipset-"))
    try:
        artifact.write(folder / name)
    except ArtifactError:
        folder.rmdir()
        return "Nothing could be kept"
    return f"The result is in {folder / name}"


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """The recipe that `--recipe` names, or the first one for the dataset, with the settings that the user typed."""
    from mipset.settings.catalogue import name_for, recipe

    return recipe(arguments.recipe or name_for(arguments.dataset), **given_settings(arguments))


def _within_budget(
    arguments: argparse.Namespace,
    recipe: Recipe,
    data: Dataset,
    device: torch.device,
    engine: Engine,
    found: Found | None,
) -> Recipe:
    """The recipe with what `--budget` chooses. A run that continues keeps what was chosen when it began."""
    from mipset.condensing.budget import CHOSEN, FITTED, chosen, parse_budget, recipe_within

    team: Team = arguments.team

    def chosen_by_leader() -> bytes:
        parse_budget(arguments.budget)
        if found is not None:
            names = {*CHOSEN, *FITTED} - set(given_settings(arguments))
            return json.dumps({name: value for name, value in found.recipe.items() if name in names}).encode()
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
    return torch.from_numpy(start.images), {"start": start.images_sha256}


def _cost(recipe: Recipe, data: Dataset) -> Cost:
    from mipset.condensing.costs import cost

    return cost(recipe, data.shape, data.classes, len(data.train), len(data.test))


def _print_cost(
    arguments: argparse.Namespace,
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
    from mipset.condensing.costs import student_flops, timed
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
    if recipe.reads("student_steps"):
        parts = [f"size {n} {flop_count(round(flops))}" for n, flops in student_flops(recipe, cost).items()]
        shown = parts if len(parts) <= MOST_SHOWN else [*parts[: MOST_SHOWN - 2], "...", parts[-1]]
        drawn = f"; {recipe.student_sizes} of these at random" if recipe.student_sizes in range(1, len(parts)) else ""
        rows["students"] = f"{', '.join(shown)} in an inner iteration{drawn}"
    if recipe.learner == "trajectories":
        rows["disk"] = (
            f"{byte_count(cost.trajectory_bytes)} for the trajectories of {counted(recipe.experts, 'expert')}"
        )
    facts = {
        "dataset": data.name,
        "flops": cost.run_flops,
        "seconds": cost.seconds(match, step),
        "memory": cost.max_memory,
        "bytes": packed_bytes(recipe, data, origin),
        "device": str(device),
        "engine": str(engine),
        "settings": asdict(recipe),
    }
    needed = "leave out --dry-run" if arguments.out is not None else "leave out --dry-run and add --out FILE"
    note = f"nothing was condensed or written: {needed} to do it"
    print_result(arguments, facts, f"{titled_lines(rows)}\n{note}")


def run_grow(arguments: argparse.Namespace) -> None:
    """Add condensed images to those of FILE: more per class (--ipc), or new classes of DATASET.

    The images of FILE stay as they are, byte for byte. A device that has them downloads only the new images per class.
    New classes are part of every rank: after adding one, a device downloads the file again.
    """
    refuse_torchrun("grow")
    from mipset.file.artifact import read

    check_output(arguments)
    artifact = read(arguments.file)
    with _as_only_writer(arguments):
        _grow(arguments, artifact)


def _grow(arguments: argparse.Namespace, artifact: Artifact) -> None:
    device = device_of(arguments)
    from mipset.condensing.assembly import work
    from mipset.condensing.checkpoint import CheckpointedRun, Identity
    from mipset.condensing.growing import grown, in_order_of, pack_grown, recipe_of
    from mipset.condensing.packing import packed_bytes

    dataset = dataset_of_file(arguments, arguments.file, artifact)
    data = in_order_of(artifact, dataset)
    recipe = recipe_of(artifact, arguments.recipe, **given_settings(arguments))
    engine = Engines(arguments, device).for_work(lambda: work(recipe, data.shape, data.classes))
    check_memory(arguments, device, lambda: _cost(recipe, data).max_memory)
    identity = Identity(recipe, data.identity + artifact.images_sha256, str(engine))
    found = _found_checkpoint(arguments)
    # The provenance names the dataset as it is stored, not with its classes in the order of the file.
    origin: Provenance = {"sha256": dataset.sha256, "engine": str(engine)}
    _begin(arguments, identity, found, packed_bytes(recipe, data, origin))
    tell_disk(arguments, [recipe], data, device, engine)
    with _assembling(arguments, found, recipe.reads("experts")) as report:
        parts = grown(artifact, data, recipe, device, engine, report)
    run = CheckpointedRun(_checkpoint_path(arguments), parts, identity)
    pack_step = partial(pack_grown, artifact, r=recipe, data=data, origin=origin)
    ending = f"; those of {arguments.file} are unchanged"
    _carry_out(arguments, f"growing {arguments.file.stem}", run, found, pack_step, ending)
