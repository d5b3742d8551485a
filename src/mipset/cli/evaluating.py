"""Training on condensed sets: `evaluate` every size of them, and `reorder` by what is easy to learn."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mipset.cli.machine import Engines, add_machine_flags, chosen_device, refuse_torchrun, workers
from mipset.cli.shared import (
    Parser,
    Verbs,
    add_protocol_flags,
    add_verb,
    asked_sizes,
    at_least,
    chosen_protocol,
    count,
    dataset_of,
    refuse_to_overwrite,
    size_of,
)
from mipset.display.progress import Progress
from mipset.errors import SettingError, choices
from mipset.units import duration

if TYPE_CHECKING:
    import torch

    from mipset.data import Dataset
    from mipset.evaluation.evaluate import Evaluation
    from mipset.file.artifact import Accuracy, Artifact


def add(verbs: Verbs) -> None:
    """The verbs of this module and their flags."""
    verb = add_verb(verbs, "evaluate", evaluate, "train and test every size of a file")
    verb.add_argument("files", metavar="FILE", type=Path, nargs="+", help="what `mipset condense` wrote")
    verb.add_argument("--sizes", metavar="SIZES", help="such as 1-10 or 1,2,5 (default: all)")
    verb.add_argument("--networks", metavar="K", type=int, default=3, help="networks for each size (default: 3)")
    add_protocol_flags(verb)
    _add_network_flags(verb)
    verb.add_argument("--data", metavar="DATASET", help="where the test images are (default: named in the file)")
    verb.add_argument("--workers", metavar="P", type=int, help="processes (default: one for each core)")
    verb.add_argument("--save", action="store_true", help="write the accuracies into FILE")
    add_machine_flags(verb)

    verb = add_verb(verbs, "reorder", reorder, "put what is easy to learn first (YOCO)")
    verb.add_argument("file", metavar="FILE", type=Path, help="what `mipset condense` wrote")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    add_protocol_flags(verb, default="paper")
    verb.add_argument("--first", metavar="E", type=int, default=100, help="epochs that are looked at (default: 100)")
    verb.add_argument("--best", metavar="K", type=int, default=10, help="of these, epochs that count (default: 10)")
    add_machine_flags(verb)
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")


def _add_network_flags(verb: Parser) -> None:
    from mipset.settings.architecture import NETWORKS

    own = "default: as condensed with; of another network, its own"
    verb.add_argument("--network", metavar="NAME", help=f"{choices(NETWORKS)} (default: the one it was condensed with)")
    verb.add_argument("--width", metavar="W", type=int, help=f"channels; of a densenet, its growth ({own})")
    verb.add_argument("--depth", metavar="D", type=int, help=f"blocks; of other networks, layers ({own})")


def evaluate(chosen: argparse.Namespace) -> None:
    """Train new networks on every size of FILE, and print their accuracy on test images after the last epoch.

    Several files make one table.
    """
    refuse_torchrun("evaluate")
    from mipset.file.artifact import read

    at_least(1, networks=chosen.networks, epochs=chosen.epochs, width=chosen.width, depth=chosen.depth)
    at_least(1, workers=chosen.workers)
    at_least(0, seed=chosen.seed)
    files = {path: read(path) for path in chosen.files}
    sizes = [asked_sizes(chosen.sizes, artifact.ipc) for artifact in files.values()]
    device = chosen_device(chosen)
    start = time.monotonic()
    names = _short_names(list(files))
    sources: dict[tuple[object, ...], Dataset] = {}  # files of one dataset share it
    tasks = []
    engines = Engines(chosen, device)
    for (path, artifact), its_sizes in zip(files.items(), sizes, strict=True):
        source = tuple(artifact.provenance.get(key) for key in ("dataset", "sha256", "size", "split_seed"))
        if source not in sources:
            sources[source] = dataset_of(chosen, path, artifact)
        evaluation = _evaluation(chosen, device, artifact, sources[source])
        engine = engines.for_work(partial(_evaluation_flops, evaluation))
        tasks.append((replace(evaluation, engine=engine), its_sizes))
    curves = _evaluate_all(chosen, device, tasks, names)
    from mipset.display.tables import accuracy_table

    ways = dict.fromkeys(f"{points[0].network}; protocol {points[0].protocol}" for points in curves.values())
    print(
        f"accuracy in % on test images, mean ± deviation over {count(chosen.networks, 'network')} "
        f"({' and '.join(ways)}; seed {chosen.seed}; {duration(time.monotonic() - start)})"
    )
    print(accuracy_table(curves, {names[path]: _fleet(artifact) for path, artifact in files.items()}))


def _evaluation(chosen: argparse.Namespace, device: torch.device, artifact: Artifact, real: Dataset) -> Evaluation:
    from mipset.evaluation.evaluate import Evaluation
    from mipset.settings.architecture import Architecture

    architecture = Architecture.of(artifact.recipe)
    if chosen.network not in (None, architecture.name):
        architecture = Architecture.named(chosen.network)
    given = {"width": chosen.width, "depth": chosen.depth}
    architecture = replace(architecture, **{k: v for k, v in given.items() if v is not None})
    return Evaluation(artifact, real, chosen_protocol(chosen), architecture, chosen.seed, str(device))


def _fleet(artifact: Artifact) -> dict[int, float]:
    """The share of devices for each size that a file was condensed for, if it was."""
    from mipset.settings.recipe import Recipe

    weights = artifact.recipe.get("prefix_weights", "one")
    try:
        return Recipe(ipc=artifact.ipc, policy="every-prefix", prefix_weights=weights).fleet
    except SettingError:  # a recipe from elsewhere, or of more sizes
        return {}


def _evaluation_flops(evaluation: Evaluation) -> float:
    """The work of all sizes, whichever are asked for: a score does not depend on which others are."""
    return sum(evaluation.flops(size) for size in range(1, evaluation.artifact.ipc + 1))


def _evaluate_all(
    chosen: argparse.Namespace,
    device: torch.device,
    tasks: list[tuple[Evaluation, list[int]]],
    names: dict[Path, str],
) -> dict[str, list[Accuracy]]:
    """The curve of each file; what is complete is saved at once, if that was asked for."""
    from mipset.evaluation.evaluate import Score, scores

    found: list[list[Score]] = [[] for _ in tasks]
    curves: dict[str, list[Accuracy]] = {}
    title = f"evaluating {next(iter(names.values()))}" if len(tasks) == 1 else f"evaluating {len(tasks)} files"
    try:
        with Progress(title, sum(sum(sizes) for _, sizes in tasks) * chosen.networks) as bar:
            for index, score in scores(tasks, chosen.networks, workers(chosen, device)):
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


def _short_names(paths: list[Path]) -> dict[Path, str]:
    """What to call files in a table: their stems, or their paths where stems repeat."""
    stems = [path.stem for path in paths]
    return {path: path.stem if stems.count(path.stem) == 1 else str(path) for path in paths}


def reorder(chosen: argparse.Namespace) -> None:
    """Write the images of FILE in another order: first those that a network finds easy while it learns them (YOCO).

    Nothing is lost but the accuracies, which belong to the old order. The network is the one that the set was condensed
    with; it learns for the first epochs of the protocol only.
    """
    from mipset.file.artifact import read

    at_least(1, epochs=chosen.epochs, first=chosen.first, best=chosen.best)
    at_least(0, seed=chosen.seed)
    refuse_to_overwrite(chosen)
    artifact = read(chosen.file)
    device = chosen_device(chosen)
    start = time.monotonic()
    from mipset.evaluation.evaluate import learning_flops
    from mipset.evaluation.selection import reorder
    from mipset.settings.architecture import Architecture

    rule = chosen_protocol(chosen)
    ranks, classes = artifact.images.shape[:2]
    images = ranks * classes * artifact.factor**2
    seen = images * min(chosen.first, rule.epochs_for(images))
    per_image = learning_flops(Architecture.of(artifact.recipe), artifact.images.shape[2:], len(artifact.class_names))
    engine = Engines(chosen, device).for_work(lambda: float(seen * per_image))
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
        f"{chosen.out}: the images of {chosen.file}, easiest first, {size_of(chosen.out)}, "
        f"in {duration(time.monotonic() - start)}; next: mipset evaluate {chosen.file} {chosen.out}"
    )
