"""`compare`, which compares methods in one table, and `methods`, which lists them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mipset.cli.inputs import load_with_progress, loading_of, print_fitting
from mipset.cli.machine import (
    Engines,
    add_machine_flags,
    add_memory_flag,
    add_worker_flags,
    check_memory,
    device_of,
    place_of,
    refuse_torchrun,
    tell_disk,
    workers_of,
)
from mipset.cli.parser import (
    Verbs,
    add_config_flag,
    add_data_flags,
    add_json_flag,
    add_protocol_flags,
    add_recipe_flags,
    add_verb,
    check_at_least,
    given_settings,
    parse_numbers,
    parse_sizes,
    protocol_of,
)
from mipset.cli.wording import counted, print_message, print_result
from mipset.display.progress import Progress
from mipset.errors import DivergedError, LostWorkerError, SettingError, how_to_install
from mipset.units import byte_count, duration

if TYPE_CHECKING:
    from mipset.experiments.comparison import Comparison
    from mipset.experiments.results import Result
    from mipset.experiments.run import Machine
    from mipset.file.provenance import Provenance
    from mipset.io.executors import Place


MOST_OUTER = 1_000_000
NOT_SHARED = ("policy", "prefix_weights", "steps", "seed")  # settings that methods or condensations have of their own
DEFAULT_METHODS = "baseline-c,mdc,every-prefix"


def add(verbs: Verbs) -> None:
    """The verbs of this module and their flags."""
    verb = add_verb(verbs, "compare", run_compare, "compare methods in one table", "RECIPE [FLAG ...]")
    add_json_flag(verb)
    add_config_flag(verb)
    verb.add_argument("recipe", metavar="RECIPE", help="a name that `mipset recipes` lists, or a dataset")
    verb.add_argument(
        "--methods",
        metavar="NAMES",
        default=DEFAULT_METHODS,
        help=f"such as baseline-c,mdc:pixel-lr=0.03; `mipset methods` lists them (default: {DEFAULT_METHODS})",
    )
    verb.add_argument("--seeds", metavar="K", type=int, default=1, help="condensations of each method (default: 1)")
    verb.add_argument(
        "--seed",
        metavar="S",
        type=int,
        default=0,
        help="seed of the first condensation; the others count up from it (default: 0)",
    )
    verb.add_argument("--out", metavar="DIR", type=Path, help="folder for the results (default: compare-RECIPE)")
    verb.add_argument("--data", metavar="DATASET", help="dataset (default: the dataset of the recipe)")
    verb.add_argument(
        "--held-out",
        metavar="SHARE",
        type=float,
        help="test on this share of the training images, such as 0.2; use it to choose settings (default: the test "
        "images)",
    )
    verb.add_argument("--sizes", metavar="SIZES", help="sizes to evaluate, such as 1-10 or 1,2,5 (default: all)")
    verb.add_argument(
        "--at", metavar="T,T", help="also evaluate after these outer iterations, such as 2,5,10 (default: none)"
    )
    verb.add_argument("--networks", metavar="K", type=int, default=3, help="networks for each size (default: 3)")
    add_protocol_flags(verb, own="evaluation-")
    verb.add_argument(
        "--evaluate-with",
        metavar="NAMES",
        help="architectures to evaluate with, such as convnet,resnet (default: the architecture of the condensation)",
    )
    add_worker_flags(verb, "cells")
    verb.add_argument("--dry-run", action="store_true", help="print what is missing and what it costs, and stop")
    add_recipe_flags(verb, without=NOT_SHARED)
    add_data_flags(verb)
    add_machine_flags(verb)
    add_memory_flag(verb)

    verb = add_verb(verbs, "methods", run_methods, "list what `mipset compare` can compare")
    add_json_flag(verb)


def run_compare(arguments: argparse.Namespace) -> None:
    """Condense with every method and seed, evaluate every size, and write one table.

    Cells that are finished in DIR are not run again. After an interruption, the same command continues. More methods
    and seeds can be added to the table later.
    """
    refuse_torchrun("compare")
    check_at_least(
        1, seeds=arguments.seeds, networks=arguments.networks, epochs=arguments.epochs, workers=arguments.workers
    )
    check_at_least(0, seed=arguments.seed, evaluation_seed=arguments.evaluation_seed)
    if arguments.out is not None and arguments.out.is_file():
        raise SettingError(f"`out` {arguments.out} is a file. Name a folder; it need not exist.")
    place = place_of(arguments)
    comparison, machine = _comparison(arguments, place)
    if arguments.dry_run:
        _print_missing(arguments, comparison, machine)
        return
    from mipset.experiments.report import write_report
    from mipset.experiments.scheduling import run_missing

    if place.is_this_process:  # else each worker has a disk of its own
        runs = [run for run in comparison.missing_runs(comparison.grid.cells) if run.of is None]
        recipes = sorted((run.recipe for run in runs), key=lambda recipe: recipe.experts)  # the largest counts
        tell_disk(arguments, recipes, comparison.grid.data, machine.device, machine.engine)
    jobs = comparison.store.folder / "jobs"
    with Progress(f"comparing on {comparison.grid.data.name}") as bar, place.opened(jobs) as executor:
        try:
            run_missing(comparison, machine, bar.report, executor)
        except KeyboardInterrupt as interrupt:
            cells = comparison.grid.cells
            finished = sum(not comparison.missing(cell) for cell in cells)
            raise KeyboardInterrupt(
                f"Interrupted. {finished} of {counted(len(cells), 'cell')} finished: the same command continues."
            ) from interrupt
        except (DivergedError, LostWorkerError):
            write_report(comparison)
            raise
    files = write_report(comparison)
    results, folder, others = comparison.results(), comparison.store.folder, comparison.others()
    print_result(
        arguments,
        {"folder": folder, "files": files, "results": [asdict(result) for result in results], "others": others},
        "\n".join([*_tables(results), f"{folder}: {', '.join(files[:-1])} and {files[-1]}"]),
    )
    if others:
        print_message(
            f"{folder} has {counted(others, 'more result')} of other settings, which are not in this table: they stay "
            "in results.jsonl, and the command with those settings shows them again."
        )
    if not any(file.endswith(".svg") for file in files):
        print_message(f"Charts were not drawn: matplotlib is not installed. Run {how_to_install('charts')}.")


def _comparison(arguments: argparse.Namespace, place: Place) -> tuple[Comparison, Machine]:
    from mipset.experiments.comparison import Comparison
    from mipset.experiments.grid import EvaluationPlan, Grid
    from mipset.experiments.run import Machine
    from mipset.experiments.store import Store
    from mipset.experiments.workload import Workload
    from mipset.settings.catalogue import RECIPES, name_for
    from mipset.settings.methods import parse_methods

    recipe, dataset = arguments.recipe, arguments.data
    if recipe not in RECIPES:
        recipe, dataset = name_for(arguments.recipe), arguments.data or arguments.recipe
    methods = parse_methods(arguments.methods)
    changes = given_settings(arguments, without=NOT_SHARED)
    device = device_of(arguments, place)
    if dataset is None and ":" in RECIPES[recipe].dataset:
        raise SettingError(f"The recipe {recipe} is for any data. Name yours with `data`.")
    data = load_with_progress(dataset or RECIPES[recipe].dataset, loading_of(arguments))
    remark = ""
    if arguments.held_out is not None:
        data = data.held_out(arguments.held_out, 0)
        remark = f"The test images are a held-out share of {arguments.held_out:g} of the training images."
    plan = EvaluationPlan(
        sizes=parse_sizes(arguments.sizes, min(method.recipe(recipe, changes).ipc for method in methods)),
        protocol=protocol_of(arguments),
        networks=arguments.networks,
        architectures=arguments.evaluate_with.split(",") if arguments.evaluate_with else (),
        seed=arguments.evaluation_seed,
    )
    allowed = f"Outer iterations go from 1 to {MOST_OUTER:,}"
    grid = Grid(
        recipe,
        data,
        methods,
        seeds=range(arguments.seed, arguments.seed + arguments.seeds),
        plan=plan,
        changes=changes,
        at=parse_numbers("at", arguments.at, MOST_OUTER, allowed) if arguments.at else (),
        fits=True,
    )
    print_fitting([(method.recipe(recipe, changes), grid.recipe_of(method)) for method in methods], data)
    folder = arguments.out or _default_folder(arguments.recipe)
    origin: Provenance = {**loading_of(arguments), "held_out": arguments.held_out}
    comparison = Comparison(grid, Store(folder), origin, remark)
    workers = workers_of(arguments, device)
    if not arguments.dry_run:
        check_memory(arguments, device, lambda: Workload(comparison).max_memory(workers))
    engine = Engines(arguments, device).for_work(lambda: Workload(comparison).flops_from_scratch(grid.cells))
    threads = None if place.is_this_process else arguments.threads or place.threads
    return comparison, Machine(device, engine, workers, threads)


def _default_folder(recipe: str) -> Path:
    """The folder of a comparison without a name. Earlier versions called that of `folder:pets` compare-folder:pets."""
    from mipset.io.names import portable_name

    before = Path(f"compare-{Path(recipe).name}")
    return before if before.is_dir() else Path(portable_name(before.name))


def _tables(results: Sequence[Result]) -> list[str]:
    """The accuracies with each architecture, and the costs, as text."""
    from mipset.display.tables import in_columns
    from mipset.experiments.report import accuracy_table, cost_table, overtaking_sentences
    from mipset.experiments.summary import by_architecture, one_per_run, rows

    lines: list[str] = []
    for network, group in by_architecture(results).items():
        methods = rows(group)
        if methods:
            lines.append(f"accuracy in % on test images ({network}; protocol {group[0].protocol})")
            lines.append(in_columns(accuracy_table(methods)))
            lines += overtaking_sentences(group)
    return [*lines, in_columns(cost_table(rows(one_per_run(results))))]


def _print_missing(arguments: argparse.Namespace, comparison: Comparison, machine: Machine) -> None:
    """Print what `compare` would run, and what that costs."""
    from mipset.display.tables import in_columns
    from mipset.experiments.workload import Workload

    grid, workload = comparison.grid, Workload(comparison)
    seconds = workload.time_estimate(machine.device, machine.engine)
    table = [["method", "seed", "condensations to run", "evaluations to run", "time"]]
    cells: list[dict[str, Any]] = []
    for cell in grid.cells:
        runs, all_runs = len(comparison.missing_runs([cell])), len(cell.condensations)
        evaluations = len(comparison.missing(cell)) * len(grid.plan.sizes) * grid.plan.networks
        cell_seconds = seconds([cell]) if evaluations else 0.0
        table.append(
            [
                cell.method.name,
                str(cell.recipe.seed),
                f"{runs} of {all_runs}, {cell.recipe.outer} x {cell.recipe.inner}" if all_runs else "none",
                str(evaluations),
                duration(cell_seconds) if evaluations else "done",
            ]
        )
        missing = {"condensations": runs, "evaluations": evaluations, "seconds": cell_seconds}
        cells.append({"method": cell.method.name, "seed": cell.recipe.seed, **missing})
    all_seconds, memory, folder = seconds(grid.cells), workload.max_memory(machine.workers), comparison.store.folder
    print_result(
        arguments,
        {"folder": folder, "seconds": all_seconds, "memory": memory, "missing": cells},
        f"{in_columns(table)}\nabout {duration(all_seconds)} on this machine (methods share condensations), "
        f"and about {byte_count(memory)} of memory\nNothing was run. Leave out --dry-run to run it in {folder}.",
    )


def run_methods(arguments: argparse.Namespace) -> None:
    """List the methods that `mipset compare` knows, and the groups of methods that give the paper's tables.

    Settings of one method are written after colons: mdc:pixel-lr=0.03:freeze=never.
    """
    from mipset.settings.methods import GROUPS, METHODS

    lines = {name: method.text for name, method in METHODS.items()}
    groups = {name: ", ".join(members) for name, members in GROUPS.items()}
    print_result(
        arguments,
        {"methods": lines, "groups": GROUPS},
        "\n".join(f"{name}\n    {text}" for name, text in {**lines, **groups}.items()),
    )
