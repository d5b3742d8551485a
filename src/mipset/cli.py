"""The command line: verbs, no logic. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mipset import __version__
from mipset.distributed import ALONE, Team, joined
from mipset.errors import ArtifactError, MipsetError, NoCompilerError, SettingError, TeamError, choices
from mipset.extras import missing
from mipset.progress import Progress, duration

if TYPE_CHECKING:
    import torch

    from mipset.artifact import Accuracy, Artifact
    from mipset.costs import Cost
    from mipset.data import Dataset
    from mipset.engines import Engine
    from mipset.evaluate import Evaluation, Protocol
    from mipset.experiments import Experiment
    from mipset.recipes import Recipe

EXTRA = {"torch", "PIL", "platformdirs"}  # what `pip install "mipset[condense]"` brings
COMPILE = ("auto", "on", "off")
MOST_OUTER = 1_000_000
LEFT_TO_METHODS = ("policy", "prefix_weights")  # settings that `compare` has no flag for
PROTOCOLS = ("quick", "paper")  # of evaluate.py, which needs torch; a test keeps the two alike
IMPORTS = ("mdc", "dc")  # of imports, which needs torch
ORDERS = ("tiles", "images")
EXPORTS = ("png", "npz", "parquet", "webdataset", "pt", "c")  # of exports, which needs numpy; likewise


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others."""

    def error(self, message: str) -> NoReturn:
        raise SettingError(f"{message}: see `{self.prog} --help`.")


def main(arguments: list[str] | None = None) -> None:
    """Run one command; bad input is one sentence on standard error and exit code 2."""
    sys.exit(_main(sys.argv[1:] if arguments is None else arguments))


def _main(arguments: list[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a bar or a file name that the terminal's encoding lacks
    try:
        with joined() if arguments[:1] == ["condense"] else nullcontext(ALONE) as team:
            return _run(arguments, team)
    except TeamError as error:
        return _complain(str(error))
    except KeyboardInterrupt:  # before the others have come
        return _complain("interrupted; nothing was written.")


def _run(arguments: list[str], team: Team) -> int:
    try:
        with _only_the_leader_is_heard(team):
            chosen = parser().parse_args(arguments, argparse.Namespace(team=team))
            run: Callable[[argparse.Namespace], None] = chosen.run
            run(chosen)
            sys.stdout.flush()
    except (KeyboardInterrupt, TeamError) as stop:
        sentence = str(stop) or "interrupted"
        return _complain(sentence if sentence.endswith(".") else f"{sentence}; nothing was written.", team)
    except MipsetError as error:
        return _complain(str(error), team)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "alloc" not in str(error) and "memory" not in str(error):
            raise
        return _complain("there is not enough memory for this: try a smaller --width, --real-batch or --ipc.", team)
    except BrokenPipeError:  # whoever read our output has seen enough
        _forget_output()
        return 0
    except OSError as error:  # such as a full disk behind our output
        _forget_output()
        return _complain(f"{error}.", team)
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        return _complain(str(missing(str(error.name), "this")), team)
    return 0


def _complain(sentence: str, team: Team = ALONE) -> int:
    words = team.last_words(sentence)
    if words is not None:
        _say(words)
    return 2


def _say(sentence: str) -> None:
    print("mipset:", " ".join(sentence.split()), file=sys.stderr)  # one line, whatever a file name holds


@contextmanager
def _only_the_leader_is_heard(team: Team) -> Iterator[None]:
    if team.leads:
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _forget_output() -> None:
    """What could not be written must not be tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> Parser:
    """All verbs and flags."""
    top = Parser(prog="mipset", description="Condense a labelled image set once; every prefix of the result is a set.")
    top.add_argument("--version", action="version", version=f"mipset {__version__}")
    verbs = top.add_subparsers(title="verbs", required=True, metavar="VERB")

    verb = verbs.add_parser("condense", help="condense a dataset into one file", description=condense.__doc__)
    verb.add_argument("dataset", metavar="DATASET", help="a name that `mipset data` lists, folder:PATH or npz:PATH")
    verb.add_argument("--out", metavar="FILE", type=Path, help="the file to write")
    verb.add_argument(
        "--recipe", metavar="NAME", help="settings to start from (default: made for DATASET, else cifar10-cpu)"
    )
    _add_recipe_flags(verb)
    verb.add_argument("--start", metavar="FILE", type=Path, help="a condensed set whose images to start from")
    _add_data_flags(verb)
    _add_machine_flags(verb)
    verb.add_argument("--resume", action="store_true", help="go on from FILE.checkpoint, which an interrupted run left")
    verb.add_argument("--dry-run", action="store_true", help="say what it would cost, and do nothing (needs no --out)")
    verb.add_argument("--force", action="store_true", help="overwrite FILE")
    verb.set_defaults(run=condense)

    verb = verbs.add_parser("evaluate", help="train and test every size of a file", description=evaluate.__doc__)
    verb.add_argument("files", metavar="FILE", type=Path, nargs="+", help="what `mipset condense` wrote")
    verb.add_argument("--sizes", metavar="SIZES", help="such as 1-10 or 1,2,5 (default: all)")
    verb.add_argument("--networks", metavar="K", type=int, default=3, help="networks for each size (default: 3)")
    _add_protocol_flags(verb)
    _add_network_flags(verb)
    verb.add_argument("--data", metavar="DATASET", help="where the test images are (default: named in the file)")
    verb.add_argument("--workers", metavar="P", type=int, help="processes (default: one for each core)")
    verb.add_argument("--save", action="store_true", help="write the accuracies into FILE")
    _add_machine_flags(verb)
    verb.set_defaults(run=evaluate)

    verb = verbs.add_parser("compare", help="methods side by side, in one table", description=compare.__doc__)
    verb.add_argument("recipe", metavar="RECIPE", help="a name that `mipset recipes` lists, or a dataset's")
    verb.add_argument(
        "--methods",
        metavar="NAMES",
        default="c,mdc,every-prefix",
        help="such as c,mdc:pixel-lr=0.03,a; `mipset methods` lists them (default: c,mdc,every-prefix)",
    )
    verb.add_argument("--seeds", metavar="K", type=int, default=1, help="condensations for each method (default: 1)")
    verb.add_argument("--out", metavar="DIR", type=Path, help="folder of the results (default: compare-RECIPE)")
    verb.add_argument("--data", metavar="DATASET", help="in place of the recipe's")
    verb.add_argument(
        "--held-out", metavar="SHARE", type=float, help="test on this share of the training images: for choosing"
    )
    verb.add_argument("--sizes", metavar="SIZES", help="such as 1-10 or 1,2,5 (default: all)")
    verb.add_argument("--at", metavar="T,T", help="evaluate after these outer iterations too, such as 2,5,10")
    verb.add_argument("--networks", metavar="K", type=int, default=3, help="networks for each size (default: 3)")
    _add_protocol_flags(verb, seed="--evaluation-seed")
    verb.add_argument(
        "--evaluate-with", metavar="NAMES", help="architectures, such as convnet,resnet (default: as condensed with)"
    )
    verb.add_argument("--workers", metavar="P", type=int, help="processes that evaluate (default: one for each core)")
    verb.add_argument("--dry-run", action="store_true", help="say what is left to do and what it costs, and do nothing")
    _add_recipe_flags(verb, without=LEFT_TO_METHODS)
    _add_data_flags(verb)
    _add_machine_flags(verb)
    verb.set_defaults(run=compare)

    verb = verbs.add_parser("methods", help="what `mipset compare` can compare", description=methods.__doc__)
    verb.set_defaults(run=methods)

    verb = verbs.add_parser("grow", help="more images or classes beside those of a file", description=grow.__doc__)
    verb.add_argument("file", metavar="FILE", type=Path, help="what `mipset condense` wrote")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    verb.add_argument("--data", metavar="DATASET", help="the real images (default: named in the file)")
    _add_recipe_flags(verb)
    _add_machine_flags(verb)
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")
    verb.set_defaults(run=grow)

    verb = verbs.add_parser("reorder", help="put what is easy to learn first (YOCO)", description=reorder.__doc__)
    verb.add_argument("file", metavar="FILE", type=Path, help="what `mipset condense` wrote")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    _add_protocol_flags(verb, default="paper")
    verb.add_argument("--first", metavar="E", type=int, default=100, help="epochs that are looked at (default: 100)")
    verb.add_argument("--best", metavar="K", type=int, default=10, help="of these, epochs that count (default: 10)")
    _add_machine_flags(verb)
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")
    verb.set_defaults(run=reorder)

    verb = verbs.add_parser("show", help="what a file holds, as text or picture", description=show.__doc__)
    verb.add_argument("file", metavar="FILE", type=Path)
    verb.add_argument("--png", metavar="FILE", type=Path, help="write a contact sheet of all images")
    verb.set_defaults(run=show)

    verb = verbs.add_parser("audit", help="how near a file comes to real images", description=audit.__doc__)
    verb.add_argument("file", metavar="FILE", type=Path)
    verb.add_argument("data", metavar="DATASET", nargs="?", help="the training images (default: named in the file)")
    verb.add_argument("--top", metavar="K", type=int, default=10, help="how many to list and to show (default: 10)")
    verb.add_argument("--png", metavar="FILE", type=Path, help="write them beside the real images")
    verb.add_argument("--seed", metavar="S", type=int, default=0, help="of the sample of real images (default: 0)")
    verb.set_defaults(run=audit)

    verb = verbs.add_parser("slice", help="write the first n images of each class", description=slice_.__doc__)
    verb.add_argument("file", metavar="FILE", type=Path)
    verb.add_argument("size", metavar="N", type=int)
    verb.add_argument("--out", metavar="FILE", type=Path, required=True, help="the file to write")
    verb.add_argument("--force", action="store_true", help="overwrite FILE")
    verb.set_defaults(run=slice_)

    verb = verbs.add_parser("export", help="write a file for other programs", description=export.__doc__)
    verb.add_argument("file", metavar="FILE", type=Path)
    verb.add_argument("--to", choices=EXPORTS, required=True, help="what to write")
    verb.add_argument(
        "--out", metavar="PATH", type=Path, required=True, help="the file to write, or with png the folder"
    )
    verb.add_argument("--ipc", metavar="N", type=int, help="only the first N images of each class")
    verb.add_argument("--decoded", action="store_true", help="training images in place of the stored ones they are in")
    verb.add_argument("--force", action="store_true", help="replace PATH")
    verb.set_defaults(run=export)

    verb = verbs.add_parser("import", help="make a file of what others published", description=import_.__doc__)
    verb.add_argument("file", metavar="FILE", type=Path, help="a torch file of images and labels")
    verb.add_argument(
        "--kind",
        choices=IMPORTS,
        required=True,
        help="mdc: of MDC, IDC or DREAM, values in [0, 1]; dc: of DC, DSA, DM or MTT, normalised values",
    )
    verb.add_argument("--dataset", metavar="DATASET", required=True, help="what was condensed, as for `condense`")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    verb.add_argument("--factor", metavar="F", type=int, help="of mdc: tiles along each side of an image")
    verb.add_argument(
        "--order",
        choices=ORDERS,
        default="tiles",
        help="of mdc: tiles, so that a size is what its authors measured, or whole images (default: tiles)",
    )
    verb.add_argument("--labels", metavar="FILE", type=Path, help="of MTT: the labels (default: beside FILE)")
    verb.add_argument("--experiment", metavar="E", type=int, help="of DC, DSA or DM: which one (default: 0)")
    _add_data_flags(verb)
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")
    verb.set_defaults(run=import_)

    verb = verbs.add_parser("plan", help="the size of a file that fits a device", description=plan.__doc__)
    verb.add_argument("file", metavar="FILE_OR_URL", help="a path, or an address that begins with http or https")
    _add_limit_flags(verb)
    verb.set_defaults(run=plan)

    verb = verbs.add_parser("fetch", help="get the part of a published file that fits", description=fetch.__doc__)
    verb.add_argument("file", metavar="URL", help="an address that begins with http or https, or a path")
    verb.add_argument("--out", metavar="FILE", type=Path, required=True, help="the file to write")
    verb.add_argument("--ipc", metavar="N", type=int, help="images per class (default: as many as fit)")
    _add_limit_flags(verb)
    verb.add_argument("--force", action="store_true", help="overwrite FILE")
    verb.set_defaults(run=fetch)

    verb = verbs.add_parser("data", help="datasets: what there is, and fetching one", description=data.__doc__)
    verb.set_defaults(run=data)
    actions = verb.add_subparsers(metavar="[fetch NAME]")
    action = actions.add_parser("fetch", help="get a dataset", description=fetch_data.__doc__)
    action.add_argument("name", metavar="NAME")
    action.set_defaults(run=fetch_data)

    verb = verbs.add_parser("recipes", help="named settings and what they promise", description=recipes.__doc__)
    verb.add_argument("name", metavar="NAME", nargs="?", help="show every setting of this one")
    verb.set_defaults(run=recipes)
    return top


LIMITS = ("bytes", "memory", "seconds", "throughput", "epochs", "batch")


def _add_limit_flags(verb: argparse.ArgumentParser) -> None:
    group = verb.add_argument_group("limits", "of the device; the largest size within all of them is taken")
    group.add_argument("--bytes", metavar="B", type=_byte_number, help="of storage for the file, such as 200kB")
    group.add_argument("--memory", metavar="B", type=_byte_number, help="for training beside the network, such as 8MB")
    group.add_argument("--seconds", metavar="S", type=float, help="of training; needs --throughput")
    group.add_argument("--throughput", metavar="X", type=float, help="images that the device trains on in a second")
    group.add_argument("--epochs", metavar="E", type=int, help="of training (default: those of the file's accuracies)")
    group.add_argument("--batch", metavar="K", type=int, default=64, help="images in a batch (default: 64)")


def _byte_number(text: str) -> int:
    """`512`, `30.5kB`, `3 MB` or `1GB`."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*(B|kB|MB|GB)?", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes such as 512, 30kB or 3MB")
    return int(float(found[1]) * {None: 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}[found[2]])


def _add_recipe_flags(verb: argparse.ArgumentParser, without: tuple[str, ...] = ()) -> None:
    from mipset.recipes import Recipe, flag_of

    group = verb.add_argument_group("settings", "each in place of what the recipe says")
    for f in fields(Recipe):
        if f.name in without:
            continue
        kind = {"int": int, "float": float, "str": str}[str(f.type)]
        among = f.metadata["choices"]
        text = f.metadata["help"] + (f" ({', '.join(among)})" if among else "")
        group.add_argument(flag_of(f.name), metavar=str(f.type).upper(), type=kind, help=text)


def _add_network_flags(verb: argparse.ArgumentParser) -> None:
    from mipset.recipes import NETWORKS

    own = "default: as condensed with; of another network, its own"
    verb.add_argument("--network", metavar="NAME", help=f"{choices(NETWORKS)} (default: the one it was condensed with)")
    verb.add_argument("--width", metavar="W", type=int, help=f"channels; of a densenet, its growth ({own})")
    verb.add_argument("--depth", metavar="D", type=int, help=f"blocks; of other networks, layers ({own})")


def _add_data_flags(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--size", metavar="PIXELS", type=int, help="scale and crop the pictures of folder:PATH")
    verb.add_argument(
        "--split-seed",
        metavar="S",
        type=int,
        default=0,
        help="draws the test split of a folder that has none",
    )


def _add_protocol_flags(verb: argparse.ArgumentParser, default: str = "quick", seed: str = "--seed") -> None:
    verb.add_argument("--protocol", choices=PROTOCOLS, default=default, help=f"how to train (default: {default})")
    verb.add_argument("--epochs", metavar="E", type=int, help="epochs (default: the protocol's)")
    verb.add_argument(seed, metavar="S", type=int, default=0, help="of networks and batches (default: 0)")


def _add_machine_flags(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, ... (default: auto)")
    verb.add_argument(
        "--threads", metavar="K", type=int, help="of the CPU (default: every core, or a share of them under torchrun)"
    )
    verb.add_argument(
        "--compile",
        choices=COMPILE,
        default="auto",
        help="kernels of our own, several times faster on a CPU; compiled once, kept (default: auto, for longer work)",
    )


def condense(chosen: argparse.Namespace) -> None:
    """Condense DATASET into one file, of which every prefix is a training set.

    Several processes share the work if torchrun starts them: torchrun --nproc-per-node 2 -m mipset condense ...
    """
    team: Team = chosen.team
    if chosen.out is None and not chosen.dry_run:
        raise SettingError("the following arguments are required: --out: see `mipset condense --help`.")
    if chosen.out is not None and team.leads:
        _refuse_to_overwrite(chosen.out, chosen.force)
    if chosen.dry_run and chosen.resume:
        raise SettingError("--dry-run tells the cost of a whole run: leave out --resume.")
    if chosen.start is not None and chosen.init is not None:
        raise SettingError("--init and --start both say what to start from: leave one out.")
    recipe = _recipe(chosen)
    device = _device(chosen)
    loaded_with = {"size": chosen.size, "split_seed": chosen.split_seed}
    real = _load(chosen.dataset, **loaded_with)
    from mipset.checkpoint import Kept
    from mipset.recipes import assemble, flag_of, pack

    first, origin = _first_pixels(chosen.start, recipe, real)
    engine = _Engines(chosen, device).for_work(lambda: _cost(recipe, real).run_flops)
    made_by = {**loaded_with, **origin, "engine": str(engine)}
    if chosen.dry_run:
        _tell_cost(recipe, real, device, engine, first, made_by)
        return
    parts = assemble(recipe, real, device, first, engine, team)
    waiting = chosen.out.with_name(chosen.out.name + ".checkpoint")
    sources = real.sha256 + origin.get("start", "")  # what a checkpoint must agree with, beside the recipe
    flags = {flag_of(name): str(value) for name, value in asdict(recipe).items()}
    team.agree(
        {"version": __version__, "data": sources, "engine": str(engine), **flags, "--resume": str(chosen.resume)}
    )
    kept = Kept(waiting, parts, recipe, sources, str(engine))
    if chosen.resume:
        kept.resume()
    if kept.done == recipe.outer:
        raise SettingError(f"the checkpoint {waiting} is complete: leave out --resume to start anew.")
    start = time.monotonic()
    step = None
    with Progress(f"condensing {real.name}", 1.0, kept.done / recipe.outer) as bar:
        try:
            for step in kept.steps():
                note = f"outer {step.t}/{recipe.outer}  loss {step.loss:.3g}  {parts.policy.note()}"
                bar.advance(step.share - bar.done, note)
        except (KeyboardInterrupt, TeamError) as stop:
            how = f"add --resume to go on after outer iteration {kept.done}" if kept.done else "nothing was written"
            raise KeyboardInterrupt(f"{str(stop) or 'interrupted'}; {how}.") from stop
    assert step is not None
    if not team.leads:
        return
    artifact = pack(step, recipe, real, made_by)
    artifact.write(chosen.out)
    waiting.unlink(missing_ok=True)
    from mipset.tables import byte_count

    print(
        f"{chosen.out}: {artifact.ipc} images for each of {len(artifact.class_names)} classes, "
        f"{byte_count(chosen.out.stat().st_size)}, in {duration(time.monotonic() - start)}\n"
        f"next: mipset evaluate {chosen.out}"
    )


COMPILE_FROM = 3e11  # FLOPs from which it pays: some seconds of plain torch


class _Engines:
    """Who computes the networks' steps: what --compile says, for so much work."""

    def __init__(self, chosen: argparse.Namespace, device: torch.device) -> None:
        self._compile: str = chosen.compile
        self._on_cpu = device.type == "cpu"
        self._compiled: Engine | None = None
        if self._compile == "on" and not self._on_cpu:
            raise SettingError(f"--compile on is for the CPU, not for --device {device}: leave it out.")

    def for_work(self, flops: Callable[[], float]) -> Engine:
        from mipset.engines import Engine

        wanted = self._compile == "on" or (self._compile == "auto" and self._on_cpu and flops() >= COMPILE_FROM)
        if not wanted:
            return Engine()
        if self._compiled is None:
            self._compiled = self._native()
        return self._compiled

    def _native(self) -> Engine:
        from mipset.engines import Engine, native

        try:
            return native()
        except NoCompilerError as error:
            if self._compile == "on":
                raise
            _say(f"{str(error).rstrip('.')}; going on without, which is several times slower.")
            return Engine()


def _cost(recipe: Recipe, real: Dataset) -> Cost:
    from mipset.costs import cost

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

    from mipset.costs import timed
    from mipset.recipes import check_fit, given_pixels, packed_bytes
    from mipset.tables import byte_count, flop_count

    check_fit(recipe, real)
    if first is not None:
        given_pixels(first, (recipe.ipc, real.classes, *real.shape))
    found = _cost(recipe, real)
    match, step = timed(recipe, real.shape, real.classes, device, engine)
    where = f"{device}, {_count(torch.get_num_threads(), 'thread')}, {engine}" if device.type == "cpu" else str(device)
    size = " x ".join(map(str, real.shape))
    rows = {
        "data": f"{real.name}: {len(real.train):,} training images of {size} pixels, {real.classes} classes",
        "recipe": f"{recipe.ipc} images per class, policy {recipe.policy}, "
        f"{recipe.network}-{recipe.depth} of width {recipe.width}, {recipe.outer:,} x {recipe.inner:,} iterations",
        "work": f"{flop_count(found.run_flops)}: {found.matches:,} matches of {flop_count(found.match_flops)}, "
        f"{found.training_steps:,} training steps of {flop_count(found.step_flops)}",
        "time": f"about {duration(found.seconds(match, step))} on this machine ({where}): "
        f"a match takes {match:.3g} s, a training step {step:.3g} s",
        "max_memory": f"about {byte_count(found.max_memory)}",
        "file": byte_count(packed_bytes(recipe, real, origin)),
    }
    for title, text in rows.items():
        print(f"{title:<12}{text}")
    print("nothing was condensed or written: leave out --dry-run and add --out FILE to do it")


def evaluate(chosen: argparse.Namespace) -> None:
    """Train new networks on every size of FILE, and print their accuracy on test images after the last epoch.

    Several files make one table.
    """
    _alone("evaluate")
    from mipset.artifact import read

    for flag in ("networks", "epochs", "width", "depth", "workers"):
        _at_least(1, flag, getattr(chosen, flag))
    _at_least(0, "seed", chosen.seed)
    files = {path: read(path) for path in chosen.files}
    sizes = [_sizes(chosen.sizes, artifact.ipc) for artifact in files.values()]
    device = _device(chosen)
    start = time.monotonic()
    names = _short_names(list(files))
    sources: dict[tuple[object, ...], Dataset] = {}  # files of one dataset share it
    tasks = []
    engines = _Engines(chosen, device)
    for (path, artifact), its_sizes in zip(files.items(), sizes, strict=True):
        source = tuple(artifact.provenance.get(key) for key in ("dataset", "sha256", "size", "split_seed"))
        if source not in sources:
            sources[source] = _test_data(chosen, path, artifact)
        evaluation = _evaluation(chosen, device, artifact, sources[source])
        engine = engines.for_work(partial(_evaluation_flops, evaluation))
        tasks.append((replace(evaluation, engine=engine), its_sizes))
    curves = _evaluate_all(chosen, tasks, names)
    from mipset.tables import accuracy_table

    ways = dict.fromkeys(f"{points[0].network}; protocol {points[0].protocol}" for points in curves.values())
    print(
        f"accuracy in % on test images, mean ± deviation over {_count(chosen.networks, 'network')} "
        f"({' and '.join(ways)}; seed {chosen.seed}; {duration(time.monotonic() - start)})"
    )
    print(accuracy_table(curves, {names[path]: _fleet(artifact) for path, artifact in files.items()}))


def _evaluation(chosen: argparse.Namespace, device: torch.device, artifact: Artifact, real: Dataset) -> Evaluation:
    from mipset.evaluate import Architecture, Evaluation

    architecture = Architecture.of(artifact)
    if chosen.network not in (None, architecture.name):
        architecture = Architecture.named(chosen.network)
    given = {"width": chosen.width, "depth": chosen.depth}
    architecture = replace(architecture, **{k: v for k, v in given.items() if v is not None})
    return Evaluation(artifact, real, _protocol(chosen), architecture, chosen.seed, str(device))


def _protocol(chosen: argparse.Namespace) -> Protocol:
    from mipset.evaluate import protocol

    return protocol(chosen.protocol, **({} if chosen.epochs is None else {"epochs": chosen.epochs}))


def _fleet(artifact: Artifact) -> dict[int, float]:
    """The share of devices for each size that a file was condensed for, if it was."""
    from mipset.recipes import Recipe

    weights = artifact.recipe.get("prefix_weights", "one")
    try:
        return Recipe(ipc=artifact.recipe.get("ipc", 0), policy="every-prefix", prefix_weights=weights).fleet
    except SettingError:  # a recipe from elsewhere
        return {}


def _evaluation_flops(evaluation: Evaluation) -> float:
    """The work of all sizes, whichever are asked for: a score does not depend on which others are."""
    return sum(evaluation.flops(size) for size in range(1, evaluation.artifact.ipc + 1))


def _evaluate_all(
    chosen: argparse.Namespace, tasks: list[tuple[Evaluation, list[int]]], names: dict[Path, str]
) -> dict[str, list[Accuracy]]:
    """The curve of each file; what is complete is saved at once, if that was asked for."""
    from mipset.evaluate import Score, scores

    workers = chosen.workers if chosen.workers is not None else (_cores() if tasks[0][0].device == "cpu" else 1)
    found: list[list[Score]] = [[] for _ in tasks]
    curves: dict[str, list[Accuracy]] = {}
    title = f"evaluating {next(iter(names.values()))}" if len(tasks) == 1 else f"evaluating {len(tasks)} files"
    try:
        with Progress(title, sum(sum(sizes) for _, sizes in tasks) * chosen.networks) as bar:
            for index, score in scores(tasks, chosen.networks, workers):
                found[index].append(score)
                path, name = list(names.items())[index]
                bar.advance(score.size, f"{name}, size {score.size}: {score.accuracy:.1f} %")
                evaluation, sizes = tasks[index]
                if len(found[index]) == len(sizes) * chosen.networks:
                    points = evaluation.curve(found[index])
                    if chosen.save:
                        evaluation.artifact.with_accuracy(points).write(path)
                    curves[name] = points
    except KeyboardInterrupt as interrupt:
        kept = f"kept the accuracies of {', '.join(curves)}" if chosen.save and curves else "nothing was written"
        raise KeyboardInterrupt(f"interrupted; {kept}.") from interrupt
    return {name: curves[name] for name in names.values()}


def compare(chosen: argparse.Namespace) -> None:
    """Condense with every method and seed, evaluate every size, and write one table.

    Finished cells of DIR are not run again: the same command goes on where it was interrupted, and further methods or
    seeds join the table.
    """
    _alone("compare")
    for flag in ("seeds", "networks", "epochs", "workers"):
        _at_least(1, flag, getattr(chosen, flag))
    _at_least(0, "evaluation_seed", chosen.evaluation_seed)
    if chosen.out is not None and chosen.out.is_file():
        raise SettingError(f"--out {chosen.out} is a file: name a folder, which need not be there yet.")
    experiment = _experiment(chosen)
    if chosen.dry_run:
        _tell_grid(experiment)
        return
    cells = experiment.cells
    with Progress(f"comparing on {experiment.data.name}", experiment.work(cells)) as bar:
        try:
            for amount, note in experiment.run():
                bar.advance(amount, note)
        except KeyboardInterrupt as interrupt:
            done = sum(not experiment.missing(cell) for cell in cells)
            raise KeyboardInterrupt(
                f"interrupted; {done} of {_count(len(cells), 'cell')} finished: the same command goes on from there."
            ) from interrupt
    experiment.write_tables()
    from mipset.results import accuracy_rows, cost_rows, overtaking, rows
    from mipset.tables import in_columns

    results = experiment.results()
    for network in dict.fromkeys(result.network for result in results):
        these = [result for result in results if result.network == network]
        print(f"accuracy in % on test images ({network}; protocol {these[0].protocol})")
        print(in_columns(accuracy_rows(rows(these))))
        print(*overtaking(these), sep="\n", end="\n" if overtaking(these) else "")
    print(in_columns(cost_rows(rows(r for r in results if r.network == results[0].network))))
    print(f"{experiment.folder}: results.md, results.svg, results.csv and results.jsonl")


def _experiment(chosen: argparse.Namespace) -> Experiment:
    from mipset.experiments import Experiment
    from mipset.methods import methods
    from mipset.recipes import RECIPES

    name, dataset = chosen.recipe, chosen.data
    if name not in RECIPES:
        name, dataset = _recipe_for(chosen.recipe), chosen.data or chosen.recipe
    asked = methods(chosen.methods)
    given = _given(chosen, without=LEFT_TO_METHODS)
    first = given.pop("seed", 0)
    device = _device(chosen)
    real = _load(dataset or RECIPES[name].dataset, chosen.size, chosen.split_seed)
    remark = ""
    if chosen.held_out is not None:
        real = real.held_out(chosen.held_out, 0)
        remark = f"The test images are a share of {chosen.held_out:g} of the training images, which was held out."
    ipc = min(method.recipe(name, given).ipc for method in asked)
    experiment = Experiment(
        folder=chosen.out or Path(f"compare-{Path(chosen.recipe).name}"),
        name=name,
        data=real,
        methods=asked,
        seeds=range(first, first + chosen.seeds),
        sizes=_sizes(chosen.sizes, ipc),
        protocol=_protocol(chosen),
        networks=chosen.networks,
        architectures=chosen.evaluate_with.split(",") if chosen.evaluate_with else (),
        given=given,
        at=_numbers("--at", chosen.at, MOST_OUTER, f"outer iterations go from 1 to {MOST_OUTER:,}")
        if chosen.at
        else (),
        evaluation_seed=chosen.evaluation_seed,
        device=device,
        workers=chosen.workers if chosen.workers is not None else (_cores() if device.type == "cpu" else 1),
        remark=remark,
    )
    engine = _Engines(chosen, device).for_work(lambda: experiment.work(experiment.cells))
    return replace(experiment, engine=engine)


def _tell_grid(experiment: Experiment) -> None:
    """What `compare` would do, once it is known that it could."""
    from mipset.tables import byte_count, in_columns

    cells = experiment.cells
    seconds = experiment.seconds(cells)
    lines = [["method", "seed", "condensations to run", "evaluations to run", "time"]]
    for cell in cells:
        left = len(experiment.runs_left([cell]))
        scores = len(experiment.missing(cell)) * len(experiment.sizes) * experiment.networks
        lines.append(
            [
                cell.method.name,
                str(cell.recipe.seed),
                f"{left} of {len(cell.runs)}, {cell.recipe.outer} x {cell.recipe.inner}" if cell.runs else "none",
                str(scores),
                duration(seconds([cell])) if scores else "done",
            ]
        )
    print(in_columns(lines))
    print(
        f"about {duration(seconds(cells))} in all on this machine (what methods share is run once), "
        f"and about {byte_count(experiment.max_memory)} of memory"
    )
    print(f"nothing was run: leave out --dry-run to do it, in {experiment.folder}")


def methods(chosen: argparse.Namespace) -> None:  # noqa: ARG001
    """List the methods that `mipset compare` knows, and the groups of them that make the paper's tables.

    A method can have settings of its own behind colons: mdc:pixel-lr=0.03:freeze=never.
    """
    from mipset.methods import GROUPS, METHODS

    for name, method in METHODS.items():
        print(f"{name}\n    {method.text}")
    for name, members in GROUPS.items():
        print(f"{name}\n    {', '.join(members)}")


def grow(chosen: argparse.Namespace) -> None:
    """Condense more images per class (--ipc), or classes that DATASET has and FILE has not, beside those of FILE.

    What FILE holds stays as it is, to the bit: a device that has it needs only what is new.
    """
    _alone("grow")
    from mipset.artifact import read

    _refuse_to_overwrite(chosen.out, chosen.force)
    artifact = read(chosen.file)
    device = _device(chosen)
    from mipset.condense import condense
    from mipset.growing import grown, in_order_of, recipe_of
    from mipset.recipes import pack, public_name

    loaded = _source(chosen, chosen.file, artifact)
    real = in_order_of(artifact, loaded)
    recipe = recipe_of(artifact).replace(**_given(chosen))
    engine = _Engines(chosen, device).for_work(lambda: _cost(recipe, real).run_flops)
    parts = grown(artifact, real, recipe, device, engine)
    start, step = time.monotonic(), None
    with Progress(f"growing {chosen.file.stem}", 1.0) as bar:
        for step in condense(parts):
            bar.advance(step.share - bar.done, f"outer {step.t}/{recipe.outer}  loss {step.loss:.3g}")
    assert step is not None
    origin = {**artifact.provenance, "sha256": loaded.sha256, "dataset": public_name(loaded.name)}
    larger = pack(step, recipe, real, {**origin, "engine": str(engine), "grown_from": artifact.ipc})
    larger.write(chosen.out)
    from mipset.tables import byte_count

    print(
        f"{chosen.out}: {larger.ipc} images for each of {len(larger.class_names)} classes, "
        f"{byte_count(chosen.out.stat().st_size)}, in {duration(time.monotonic() - start)}; "
        f"those of {chosen.file} are unchanged"
    )


def reorder(chosen: argparse.Namespace) -> None:
    """Write the images of FILE in another order: first those that a network finds easy while it learns them (YOCO).

    Nothing is lost but the accuracies, which belong to the old order. The network is the one that the set was condensed
    with; it learns for the first epochs of the protocol only.
    """
    from mipset.artifact import read

    for flag in ("epochs", "first", "best"):
        _at_least(1, flag, getattr(chosen, flag))
    _at_least(0, "seed", chosen.seed)
    _refuse_to_overwrite(chosen.out, chosen.force)
    artifact = read(chosen.file)
    device = _device(chosen)
    start = time.monotonic()
    from mipset.evaluate import Architecture, learning_flops
    from mipset.selection import reorder
    from mipset.tables import byte_count

    rule = _protocol(chosen)
    ranks, classes = artifact.images.shape[:2]
    images = ranks * classes * artifact.factor**2
    seen = images * min(chosen.first, rule.epochs_for(images))
    per_image = learning_flops(Architecture.of(artifact), artifact.images.shape[2:], len(artifact.class_names))
    engine = _Engines(chosen, device).for_work(lambda: float(seen * per_image))
    with Progress(f"reordering {chosen.file.stem}", 1.0) as bar:
        better = reorder(
            artifact,
            rule,
            chosen.seed,
            device,
            engine,
            first=chosen.first,
            best=chosen.best,
            progress=lambda share: bar.advance(share - bar.done),
        )
    better.write(chosen.out)
    print(
        f"{chosen.out}: the images of {chosen.file}, easiest first, {byte_count(chosen.out.stat().st_size)}, "
        f"in {duration(time.monotonic() - start)}; next: mipset evaluate {chosen.file} {chosen.out}"
    )


def show(chosen: argparse.Namespace) -> None:
    """Print what FILE holds, where it comes from and how good each size is."""
    from mipset.artifact import read
    from mipset.tables import description

    artifact = read(chosen.file)
    if chosen.png is None:
        print(description(artifact))
        return
    _refuse_to_destroy(chosen.png, chosen.file, flag="--png")
    from mipset.pictures import write_contact_sheet

    write_contact_sheet(artifact, chosen.png)
    print(f"{chosen.png}: one row per class, one column per rank")


def audit(chosen: argparse.Namespace) -> None:
    """Find the real training image that is nearest to each image of FILE: to be known before it is published.

    Real images are compared with each other too, so that it can be told what is near.
    """
    from mipset.artifact import read

    _at_least(1, "top", chosen.top)
    _at_least(0, "seed", chosen.seed)
    artifact = read(chosen.file)
    if chosen.png is not None and chosen.png.exists() and chosen.png.samefile(chosen.file):
        raise SettingError(f"--png {chosen.png} would overwrite the file itself: choose another name.")
    real = _source(chosen, chosen.file, artifact)
    from mipset.audit import audit, pairs
    from mipset.tables import in_columns

    with Progress(f"comparing with {real.name}", 1.0) as bar:
        found = audit(artifact, real, chosen.seed, lambda share: bar.advance(share - bar.done))
    listed = found.found[: chosen.top]
    lines = [["image", "rank", "tile", "distance", "nearest real image", "real images that are nearer to another"]]
    for one in listed:
        names = artifact.class_names[one.label], real.class_names[one.real_label]
        lines.append(
            [
                names[0],
                str(one.rank),
                str(one.tile),
                f"{one.distance:.1f}",
                f"{one.row} ({names[1]})",
                f"{one.share:.0%}",
            ]
        )
    print(f"the {len(listed)} of {len(found.found)} images that are nearest to a real one; distances in grey levels")
    print(in_columns(lines))
    print(
        f"{len(found.suspicious)} of {len(found.found)} are nearer to a training image than half of the training "
        f"images are to each other ({found.usual:.1f})"
    )
    if chosen.png is not None:
        from mipset.pictures import side_by_side, write_picture

        captions = [f"{line[0]} {line[1]}.{line[2]}: {line[3]}" for line in lines[1:]]
        write_picture(side_by_side(pairs(artifact, real, listed), captions), chosen.png)
        print(f"{chosen.png}: each of them beside the real image")


def slice_(chosen: argparse.Namespace) -> None:
    """Write the first N images of each class of FILE as a file of its own."""
    from mipset.artifact import read
    from mipset.tables import byte_count

    _refuse_to_overwrite(chosen.out, chosen.force)
    part = read(chosen.file).prefix(chosen.size)
    part.write(chosen.out)
    print(f"{chosen.out}: {part.ipc} images per class, {byte_count(chosen.out.stat().st_size)}")


def export(chosen: argparse.Namespace) -> None:
    """Write the images of FILE for other programs.

    png: a folder with one sub-folder per class, and a contact sheet. npz: arrays for numpy. parquet: for Hugging Face
    datasets. webdataset: a tar file. pt: tensors for torch. c: a header for microcontrollers. In all of them the images
    come rank by rank, so that the first n of each class are the subset of size n.
    """
    from mipset.artifact import read
    from mipset.decoding import decoded
    from mipset.exports import export
    from mipset.tables import byte_count

    _refuse_to_destroy(chosen.out, chosen.file)
    artifact = read(chosen.file)
    if chosen.ipc is not None:
        artifact = artifact.prefix(chosen.ipc)
    if chosen.decoded:
        artifact = decoded(artifact)
    export(artifact, chosen.to, chosen.out, force=chosen.force)
    written = [file.stat().st_size for file in (chosen.out.rglob("*.*") if chosen.out.is_dir() else [chosen.out])]
    print(
        f"{chosen.out}: {_count(artifact.ipc, 'image')} for each of {len(artifact.class_names)} classes, "
        f"{byte_count(sum(written))}"
    )


def import_(chosen: argparse.Namespace) -> None:
    """Make a file of ours from one that the authors of another method published; nothing in it is executed.

    It can then be evaluated, sliced, exported and compared like any other. Values are rounded to bytes.
    """
    _refuse_to_destroy(chosen.out, chosen.file)
    _refuse_to_overwrite(chosen.out, chosen.force)
    from mipset.data import facts
    from mipset.imports import as_artifact, open_published
    from mipset.tables import byte_count

    published = open_published(chosen.file, chosen.labels, chosen.experiment)
    loaded_with = {"size": chosen.size, "split_seed": chosen.split_seed}
    about = (facts(chosen.dataset) if chosen.size is None else None) or _load(chosen.dataset, **loaded_with)
    found = as_artifact(published, chosen.kind, about, factor=chosen.factor, order=chosen.order, origin=loaded_with)
    found.artifact.write(chosen.out)
    print(
        f"{chosen.out}: {_count(found.artifact.ipc, 'image')} for each of {len(about.class_names)} classes, "
        f"{byte_count(chosen.out.stat().st_size)}; {100 * found.cut_off:.2g} % of their values were outside of what a "
        f"byte can hold, and were cut off\nnext: mipset evaluate {chosen.out}"
    )


def plan(chosen: argparse.Namespace) -> None:
    """Print the largest size of a file that fits a device, what training on it takes and what can be expected of it.

    Of the file, only the header is read.
    """
    from mipset import device
    from mipset.tables import byte_count

    source = device.open(chosen.file)
    found = device.plan(source, **_limits(chosen))
    training, expected = "unknown: the file does not say for how many epochs", "unknown: not measured at this size"
    if found.epochs is not None:
        pace = "" if found.seconds is None else f", {duration(found.seconds)} at {chosen.throughput:g} images/s"
        training = f"{_count(found.epochs, 'epoch')} of {_count(found.images, 'image')}{pace}"
    if found.expected is not None:
        e = found.expected
        how = "" if e.measured else ", from the sizes next to it"
        expected = f"{e} ({e.network}; protocol {e.protocol}{how})"
    elif chosen.epochs is not None:
        expected = f"unknown: not measured at this size after {_count(chosen.epochs, 'epoch')}"
    rows = {
        "size": f"{found.size} of {source.about.ipc} images per class",
        "file": byte_count(found.file_bytes),
        "memory": f"about {byte_count(found.memory)} with batches of {chosen.batch}, and what the network needs",
        "training": training,
        "accuracy": expected,
    }
    for title, text in rows.items():
        print(f"{title:<10}{text}")


def fetch(chosen: argparse.Namespace) -> None:
    """Get the first images of each class of a published file: as many as are asked for, or as many as fit.

    Only their bytes are moved. Each is verified before FILE is written.
    """
    from mipset import device
    from mipset.tables import byte_count

    _refuse_to_overwrite(chosen.out, chosen.force)
    limits = _limits(chosen)
    given = [name for name in LIMITS if name != "batch" and limits[name] is not None]
    if chosen.ipc is not None and given:
        raise SettingError(f"--ipc and --{given[0]} both say how much to fetch: leave one out.")
    with _Stages() as stages:
        source = device.open(chosen.file, progress=partial(stages, "fetching"))
        subset = source.prefix(device.plan(source, **limits).size if chosen.ipc is None else chosen.ipc)
    subset.write(chosen.out)
    print(
        f"{chosen.out}: {subset.sizes[0]} of {source.about.ipc} images per class, "
        f"{byte_count(chosen.out.stat().st_size)}"
    )


def _limits(chosen: argparse.Namespace) -> dict[str, Any]:
    if chosen.seconds is not None and chosen.throughput is None:
        raise SettingError("--seconds needs --throughput: how many images the device trains on in a second.")
    return {name: getattr(chosen, name) for name in LIMITS}


def data(chosen: argparse.Namespace) -> None:  # noqa: ARG001
    """List the datasets that can be condensed, and where they are; `mipset data fetch NAME` gets one."""
    from mipset.data import available

    for entry in available():
        state = f"here: {entry.where}" if entry.present else f"not here: {entry.how}"
        print(f"{entry.name}\n    {entry.description}\n    {state}")


def fetch_data(chosen: argparse.Namespace) -> None:
    """Get a dataset into the cache folder (MIPSET_HOME, or the user's)."""
    from mipset.data import fetch

    with _Stages() as stages:
        where = fetch(chosen.name, progress=stages)
    print(f"{chosen.name} is in {where}")


def recipes(chosen: argparse.Namespace) -> None:
    """List the named recipes with their dataset and what they promise, or every setting of one."""
    from mipset.recipes import RECIPES, flag_of, recipe
    from mipset.tables import in_columns

    if chosen.name is None:
        for name, named in RECIPES.items():
            print(f"{name}\n    {named.dataset}: {named.promise}")
        return
    settings = recipe(chosen.name)
    for f in fields(settings):
        print(in_columns([[f"{flag_of(f.name)} {getattr(settings, f.name)}".ljust(36), f.metadata["help"]]]))


class _Stages:
    """Progress bars for work that reports (stage, done, total)."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def __enter__(self) -> _Stages:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._bar is None or self._bar.title != stage:
            self._close()
            self._bar = Progress(stage, total)
        self._bar.total = total
        self._bar.advance(done - self._bar.done)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _load(name: str, size: int | None, split_seed: int) -> Dataset:
    from mipset.data import load

    _at_least(0, "split_seed", split_seed)
    with _Stages() as stages:
        return load(name, size=size, seed=split_seed, progress=stages)


def _test_data(chosen: argparse.Namespace, path: Path, artifact: Artifact) -> Dataset:
    """The dataset that the file was condensed from, its classes in the order of the file."""
    real = _source(chosen, path, artifact)
    if sorted(real.class_names) == sorted(artifact.class_names):
        return real if real.class_names == artifact.class_names else real.in_order(artifact.class_names)
    if real.classes == len(artifact.class_names):
        ours = next(name for name in artifact.class_names if name not in real.class_names)
        raise SettingError(
            f"{path} has the class {ours!r}, which {real.name} has not: test with the dataset it was condensed from."
        )
    return real


def _source(chosen: argparse.Namespace, path: Path, artifact: Artifact) -> Dataset:
    """The dataset that the file was condensed from."""
    origin: Mapping[str, Any] = artifact.provenance
    name = chosen.data or origin.get("dataset")
    if not isinstance(name, str):
        raise SettingError(f"{path} does not say where its test images are: add --data DATASET.")
    size, split_seed = origin.get("size"), origin.get("split_seed", 0)
    if not isinstance(size, int | None) or not isinstance(split_seed, int):
        raise ArtifactError(f"{path} is damaged: its provenance has size {size!r}, split_seed {split_seed!r}.")
    try:
        real = _load(name, size, split_seed)
    except MipsetError as error:
        if chosen.data or ":" not in name:
            raise
        raise SettingError(f"{path} was condensed from {name}: add --data with its path to test with it.") from error
    if not chosen.data and real.sha256 != origin.get("sha256"):
        raise SettingError(f"{path} was condensed from another {name} than the one here: add --data to test with it.")
    return real


def _recipe(chosen: argparse.Namespace) -> Recipe:
    """The recipe asked for, or the first made for the dataset, with the flags given in place of its settings."""
    from mipset.recipes import recipe

    return recipe(chosen.recipe or _recipe_for(chosen.dataset), **_given(chosen))


def _given(chosen: argparse.Namespace, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings of a recipe that have a flag on the command line."""
    from mipset.recipes import Recipe

    names = [f.name for f in fields(Recipe) if f.name not in without]
    return {name: getattr(chosen, name) for name in names if getattr(chosen, name) is not None}


def _recipe_for(dataset: str) -> str:
    from mipset.recipes import RECIPES

    fitting = [name for name, named in RECIPES.items() if named.dataset == dataset]
    return fitting[0] if fitting else DEFAULT_RECIPE


DEFAULT_RECIPE = "cifar10-cpu"  # for data of one's own: made for two cores


def _device(chosen: argparse.Namespace) -> torch.device:
    import torch

    from mipset.memory import keep_freed_memory

    keep_freed_memory()
    team: Team = chosen.team
    threads = team.threads(_cores()) if chosen.threads is None else chosen.threads
    if threads is not None:
        if not 1 <= threads <= MOST_THREADS:
            raise SettingError(f"--threads cannot be {threads}: choose from 1 to {MOST_THREADS}.")
        torch.set_num_threads(threads)
    name = chosen.device if chosen.device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names that are devices no more
            device = torch.device(team.device(name))
            torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise SettingError(f"--device cannot be {name!r} on this machine: choose cpu, or leave it out.") from error
    return device


MOST_THREADS = 1024  # more than that ends the process instead of helping it


def _at_least(least: int, name: str, value: int | None) -> None:
    from mipset.recipes import flag_of

    if value is not None and value < least:
        raise SettingError(f"{flag_of(name)} cannot be {value}: it must be at least {least}.")


def _first_pixels(path: Path | None, recipe: Recipe, real: Dataset) -> tuple[Any, dict[str, str]]:
    """The images to start from and what to remember of them, if a file was given."""
    if path is None:
        return None, {}
    import hashlib

    import torch

    from mipset.artifact import read

    given = read(path)
    if given.factor != recipe.factor:
        raise SettingError(f"{path} has --factor {given.factor}, not {recipe.factor}: use the same to start from it.")
    if given.class_names != real.class_names:
        raise SettingError(f"{path} has other classes than {real.name}: start from a set of the same classes.")
    return torch.from_numpy(given.images), {"start": hashlib.sha256(given.images.tobytes()).hexdigest()}


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _alone(verb: str) -> None:
    if os.environ.get("LOCAL_WORLD_SIZE", "1") != "1" and "TORCHELASTIC_RUN_ID" in os.environ:
        raise SettingError(f"mipset {verb} shares its work by --workers: start it without torchrun.")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _refuse_to_overwrite(path: Path, force: bool) -> None:
    from mipset.files import refuse_to_overwrite

    refuse_to_overwrite(path, force)


def _refuse_to_destroy(out: Path, source: Path, flag: str = "--out") -> None:
    if out.exists() and source.exists() and out.samefile(source):
        raise SettingError(f"{flag} {out} would overwrite the file itself: choose another name.")


def _sizes(text: str | None, ipc: int) -> list[int]:
    if text is None:
        return list(range(1, ipc + 1))
    return _numbers("--sizes", text, ipc, f"there are sizes 1 to {ipc}")


def _numbers(flag: str, text: str, most: int, choice: str) -> list[int]:
    """`1-3,10` as [1, 2, 3, 10]."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            raise SettingError(f"{flag} cannot be {text!r}: write numbers such as 1-10 or 1,2,5.") from None
        if not 1 <= low <= high <= most:
            raise SettingError(f"{flag} cannot be {text!r}: {choice}.")
        found.update(range(low, high + 1))
    return sorted(found)


def _short_names(paths: list[Path]) -> dict[Path, str]:
    """What to call files in a table: their stems, or their paths where stems repeat."""
    stems = [path.stem for path in paths]
    return {path: path.stem if stems.count(path.stem) == 1 else str(path) for path in paths}
