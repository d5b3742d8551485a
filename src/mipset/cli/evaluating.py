"""The verbs that train networks on condensed sets: `evaluate` and `reorder`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mipset.cli.inputs import check_output, dataset_of_file, refuse_to_save, short_names
from mipset.cli.machine import (
    Engines,
    add_machine_flags,
    add_memory_flag,
    add_worker_flags,
    check_memory,
    device_of,
    place_of,
    refuse_torchrun,
    workers_of,
)
from mipset.cli.parser import (
    Parser,
    Verbs,
    add_config_flag,
    add_json_flag,
    add_protocol_flags,
    add_source_flags,
    add_verb,
    check_at_least,
    parse_sizes,
    protocol_of,
)
from mipset.cli.wording import bytes_of, counted, file_facts, print_result
from mipset.display.progress import Progress
from mipset.errors import ArtifactError, ChangedError, SettingError, choices
from mipset.units import duration

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import torch

    from mipset.data import Dataset
    from mipset.evaluation.evaluate import Evaluation
    from mipset.file.artifact import Artifact
    from mipset.file.description import Accuracy


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    verb = add_verb(verbs, "evaluate", run_evaluate, "train and test networks on every size of a file")
    add_json_flag(verb)
    add_config_flag(verb)
    verb.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a condensed set")
    verb.add_argument("--sizes", metavar="SIZES", help="sizes such as 1-10 or 1,2,5 (default: all)")
    verb.add_argument("--networks", metavar="K", type=int, default=3, help="networks per size (default: 3)")
    add_protocol_flags(verb)
    _add_network_flags(verb)
    add_source_flags(verb, "the test images")
    add_worker_flags(verb, "networks")
    verb.add_argument("--save", action="store_true", help="write the accuracies into FILE")
    add_machine_flags(verb)
    add_memory_flag(verb)

    verb = add_verb(verbs, "reorder", run_reorder, "put the images first that are easy to learn (YOCO)")
    add_json_flag(verb)
    verb.add_argument("file", metavar="FILE", type=Path, help="a condensed set")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    add_protocol_flags(
        verb,
        default="paper",
        epochs="epochs of the whole training, which decide when the learning rate drops; --first stops it earlier",
    )
    verb.add_argument(
        "--first",
        metavar="E",
        type=int,
        default=100,
        help="stop the training after E epochs, if the protocol has more (default: 100)",
    )
    verb.add_argument(
        "--best",
        metavar="K",
        type=int,
        default=10,
        help="use the errors of K epochs: those after which the network classified most images of FILE correctly "
        "(default: 10)",
    )
    add_machine_flags(verb)
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")


def _add_network_flags(verb: Parser) -> None:
    from mipset.settings.architecture import NETWORKS

    default = "default: that of FILE; for another network, its usual one"
    verb.add_argument(
        "--network",
        metavar="NAME",
        help=f"{choices(NETWORKS)}, or your own as module:function (default: the network that FILE was condensed with)",
    )
    verb.add_argument("--width", metavar="W", type=int, help=f"channels; of a densenet, its growth rate ({default})")
    verb.add_argument("--depth", metavar="D", type=int, help=f"blocks of a convnet, layers of the others ({default})")


def run_evaluate(arguments: argparse.Namespace) -> None:
    """Train new networks on every size of FILE, and print their test accuracy after the last epoch.

    Several files make one table.
    """
    refuse_torchrun("evaluate")
    from mipset.file.artifact import read

    check_at_least(
        1,
        networks=arguments.networks,
        epochs=arguments.epochs,
        width=arguments.width,
        depth=arguments.depth,
        workers=arguments.workers,
    )
    check_at_least(0, seed=arguments.seed)
    if arguments.save:
        for path in arguments.files:
            refuse_to_save(path)
    place = place_of(arguments)
    files = {path: read(path) for path in arguments.files}
    sizes_by_file = [parse_sizes(arguments.sizes, artifact.ipc) for artifact in files.values()]
    device = device_of(arguments, place)
    start = time.monotonic()
    names = short_names(list(files))
    datasets: dict[tuple[object, ...], Dataset] = {}  # a dataset of several files is loaded once
    tasks = []
    engines = Engines(arguments, device)
    for (path, artifact), sizes in zip(files.items(), sizes_by_file, strict=True):
        source = tuple(artifact.provenance.get(key) for key in ("dataset", "sha256", "size", "split_seed"))
        if source not in datasets:
            datasets[source] = dataset_of_file(arguments, path, artifact)
        evaluation = evaluation_of(arguments, device, artifact, datasets[source])
        engine = engines.for_work(evaluation.all_flops)
        tasks.append((replace(evaluation, engine=engine), sizes))
    workers = workers_of(arguments, device)
    check_memory(arguments, device, lambda: max(each.max_memory(workers) for each, _ in tasks), ("width", "workers"))
    first: Path = arguments.files[0]
    with place.opened(first.with_name(f"{first.name}.jobs")) as executor:
        curves, failures = _evaluate_all(arguments, workers, tasks, names, executor)
    from mipset.display.tables import accuracy_table

    shared, own = _settings_of(curves)
    titles = {name: f"{name} ({'; '.join(own[name])})" if own[name] else name for name in curves}
    seconds = time.monotonic() - start
    fleets = {names[path]: fleet_of(artifact) for path, artifact in files.items()}
    rows = [
        {"name": name, "file": path, "fleet": fleets[name], "accuracy": [asdict(point) for point in curves[name]]}
        for path, name in names.items()
    ]
    print_result(
        arguments,
        {"seconds": seconds, "files": rows},
        f"accuracy in % on test images, mean ± deviation over {counted(arguments.networks, 'network')} "
        f"({'; '.join([*shared, f'seed {arguments.seed}', duration(seconds)])})\n"
        + accuracy_table(
            {titles[name]: points for name, points in curves.items()},
            {titles[name]: shares for name, shares in fleets.items()},
        ),
    )
    if failures:
        raise ChangedError(" ".join(failures))


def _settings_of(curves: Mapping[str, Sequence[Accuracy]]) -> tuple[list[str], dict[str, list[str]]]:
    """The network and the protocol if all files have the same, and for each file those that are not the same."""
    settings = {name: (points[0].network, f"protocol {points[0].protocol}") for name, points in curves.items()}
    columns = list(zip(*settings.values(), strict=True))
    shared = [column[0] for column in columns if len(set(column)) == 1]
    return shared, {name: [text for text in texts if text not in shared] for name, texts in settings.items()}


def evaluation_of(arguments: argparse.Namespace, device: torch.device, artifact: Artifact, data: Dataset) -> Evaluation:
    """The evaluation of one file with the protocol and the network that the flags describe."""
    from mipset.evaluation.evaluate import Evaluation
    from mipset.settings.architecture import Architecture
    from mipset.settings.part import is_own

    named = arguments.network
    if named is not None and named != artifact.recipe.get("network", Architecture().name):
        architecture = Architecture.named(named)
    else:
        architecture = Architecture(named) if named and is_own(named) else Architecture.of(artifact.recipe)
    if is_own(architecture.name) and (arguments.width or arguments.depth):
        raise SettingError(f"`network` {architecture.name} decides its own width and depth. Leave them out.")
    given = {"width": arguments.width, "depth": arguments.depth}
    architecture = replace(architecture, **{name: value for name, value in given.items() if value is not None})
    return Evaluation(artifact, data, protocol_of(arguments), architecture, arguments.seed, str(device))


def fleet_of(artifact: Artifact) -> dict[int, float]:
    """The share of devices that use each size, if the file was condensed for a fleet; otherwise empty."""
    from mipset.settings.recipe import Recipe

    weights = artifact.recipe.get("prefix_weights", "one")
    try:
        return Recipe(ipc=artifact.ipc, policy="every-prefix", prefix_weights=weights).fleet
    except SettingError:  # the recipe of another program, or of a file with more sizes
        return {}


def _evaluate_all(
    arguments: argparse.Namespace,
    workers: int,
    tasks: list[tuple[Evaluation, list[int]]],
    names: dict[Path, str],
    executor: Executor | None,
) -> tuple[dict[str, list[Accuracy]], list[str]]:
    """The accuracy curve of each file, by its name. With `--save`, each file is written as soon as it is complete.

    The second result is what went wrong with that, a sentence for each file that could not be written.
    """
    from mipset.evaluation.evaluate import Score, scores
    from mipset.file.saving import save_accuracy

    scores_by_task: list[list[Score]] = [[] for _ in tasks]
    curves: dict[str, list[Accuracy]] = {}
    saved: list[str] = []
    failures: list[str] = []
    title = f"evaluating {next(iter(names.values()))}" if len(tasks) == 1 else f"evaluating {len(tasks)} files"
    try:
        with Progress(title, sum(sum(sizes) for _, sizes in tasks) * arguments.networks) as bar:
            folder = arguments.files[0].parent
            for index, score in scores(tasks, arguments.networks, workers, executor, folder):
                scores_by_task[index].append(score)
                path, name = list(names.items())[index]
                bar.advance(score.size, f"{name}, size {score.size}: {score.accuracy:.1f} %")
                evaluation, sizes = tasks[index]
                if len(scores_by_task[index]) == len(sizes) * arguments.networks:
                    curve = evaluation.curve(scores_by_task[index])
                    curves[name] = curve
                    if arguments.save:
                        try:
                            save_accuracy(path, evaluation.artifact, curve)
                            saved.append(name)
                        except (ArtifactError, ChangedError) as error:  # the others can still be saved
                            failures.append(str(error))
    except KeyboardInterrupt as interrupt:
        kept = f"Saved the accuracies of {', '.join(saved)}" if saved else "Nothing was written"
        raise KeyboardInterrupt(f"Interrupted. {kept}.") from interrupt
    return {name: curves[name] for name in names.values()}, failures


def run_reorder(arguments: argparse.Namespace) -> None:
    """Write the images of FILE in another order: first those that a network learns easily (YOCO).

    The new file has the same images. It has no accuracies, because those of FILE belong to the old order. The network
    is the one that the set was condensed with. It trains for the first epochs of the protocol only.
    """
    from mipset.file.artifact import read

    check_at_least(1, epochs=arguments.epochs, first=arguments.first, best=arguments.best)
    check_at_least(0, seed=arguments.seed)
    check_output(arguments)
    artifact = read(arguments.file)
    device = device_of(arguments)
    start = time.monotonic()
    from mipset.evaluation.selection import reorder, reordering_flops

    protocol = protocol_of(arguments)
    engine = Engines(arguments, device).for_work(lambda: reordering_flops(artifact, protocol, arguments.first))
    with Progress(f"reordering {arguments.file.stem}") as bar:
        reordered = reorder(
            artifact,
            protocol,
            arguments.seed,
            device,
            engine,
            first=arguments.first,
            best=arguments.best,
            report=bar.report,
        )
    reordered.write(arguments.out)
    seconds = time.monotonic() - start
    print_result(
        arguments,
        file_facts(arguments.out, reordered.ipc, reordered.class_names, seconds=seconds),
        f"{arguments.out}: the images of {arguments.file}, easiest first, {bytes_of(arguments.out)}, "
        f"in {duration(seconds)}; next: mipset evaluate {arguments.file} {arguments.out}",
    )
