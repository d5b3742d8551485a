"""Methods side by side: `compare` them, and the `methods` that can be compared."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mipset.cli.inputs import load_with_progress, recipe_name_for
from mipset.cli.machine import Engines, add_machine_flags, device_of, refuse_torchrun, workers_of
from mipset.cli.parser import (
    Verbs,
    add_data_flags,
    add_protocol_flags,
    add_recipe_flags,
    add_verb,
    check_at_least,
    given_settings,
    parse_numbers,
    parse_sizes,
    protocol_of,
)
from mipset.cli.wording import counted
from mipset.display.progress import Progress
from mipset.errors import SettingError
from mipset.units import duration

if TYPE_CHECKING:
    from mipset.experiments.experiment import Advance, Experiment


MOST_OUTER = 1_000_000
LEFT_TO_METHODS = ("policy", "prefix_weights", "steps")  # settings that `compare` has no flag for


def add(verbs: Verbs) -> None:
    """The verbs of this module and their flags."""
    verb = add_verb(verbs, "compare", run_compare, "methods side by side, in one table")
    verb.add_argument("recipe", metavar="RECIPE", help="a name that `mipset recipes` lists, or a dataset's")
    verb.add_argument(
        "--methods",
        metavar="NAMES",
        default="baseline-c,mdc,every-prefix",
        help="such as baseline-c,mdc:pixel-lr=0.03; `mipset methods` lists them (default: baseline-c,mdc,every-prefix)",
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
    add_protocol_flags(verb, seed="--evaluation-seed")
    verb.add_argument(
        "--evaluate-with", metavar="NAMES", help="architectures, such as convnet,resnet (default: as condensed with)"
    )
    verb.add_argument("--workers", metavar="P", type=int, help="processes that evaluate (default: one for each core)")
    verb.add_argument("--dry-run", action="store_true", help="say what is left to do and what it costs, and do nothing")
    add_recipe_flags(verb, without=LEFT_TO_METHODS)
    add_data_flags(verb)
    add_machine_flags(verb)

    add_verb(verbs, "methods", run_methods, "what `mipset compare` can compare")


def run_compare(arguments: argparse.Namespace) -> None:
    """Condense with every method and seed, evaluate every size, and write one table.

    Finished cells of DIR are not run again: the same command goes on where it was interrupted, and further methods or
    seeds join the table.
    """
    refuse_torchrun("compare")
    check_at_least(
        1, seeds=arguments.seeds, networks=arguments.networks, epochs=arguments.epochs, workers=arguments.workers
    )
    check_at_least(0, evaluation_seed=arguments.evaluation_seed)
    if arguments.out is not None and arguments.out.is_file():
        raise SettingError(f"--out {arguments.out} is a file: name a folder, which need not be there yet.")
    experiment = _experiment(arguments)
    if arguments.dry_run:
        _tell_grid(experiment)
        return
    cells = experiment.cells
    with Progress(f"comparing on {experiment.data.name}", experiment.work(cells)) as bar:

        def show(step: Advance) -> None:
            bar.advance(step.flops, step.note, earlier=step.earlier)

        try:
            for step in replace(experiment, watch=show).run():
                show(step)
        except KeyboardInterrupt as interrupt:
            done = sum(not experiment.missing(cell) for cell in cells)
            raise KeyboardInterrupt(
                f"interrupted; {done} of {counted(len(cells), 'cell')} finished: the same command goes on from there."
            ) from interrupt
    experiment.write_tables()
    from mipset.display.tables import in_columns
    from mipset.experiments.results import accuracy_rows, by_architecture, cost_rows, once, overtaking, rows

    results = experiment.results()
    for network, these in by_architecture(results).items():
        table = rows(these)
        if not table:
            continue
        print(f"accuracy in % on test images ({network}; protocol {these[0].protocol})")
        print(in_columns(accuracy_rows(table)))
        for sentence in overtaking(these):
            print(sentence)
    print(in_columns(cost_rows(rows(once(results)))))
    print(f"{experiment.folder}: results.md, results.svg, results.csv and results.jsonl")


def _experiment(arguments: argparse.Namespace) -> Experiment:
    from mipset.experiments.experiment import Experiment
    from mipset.experiments.methods import methods
    from mipset.settings.catalogue import RECIPES

    name, dataset = arguments.recipe, arguments.data
    if name not in RECIPES:
        name, dataset = recipe_name_for(arguments.recipe), arguments.data or arguments.recipe
    asked = methods(arguments.methods)
    given = given_settings(arguments, without=LEFT_TO_METHODS)
    first = given.pop("seed", 0)
    device = device_of(arguments)
    real = load_with_progress(dataset or RECIPES[name].dataset, arguments.resolution, arguments.split_seed)
    remark = ""
    if arguments.held_out is not None:
        real = real.held_out(arguments.held_out, 0)
        remark = f"The test images are a share of {arguments.held_out:g} of the training images, which was held out."
    ipc = min(method.recipe(name, given).ipc for method in asked)
    experiment = Experiment(
        folder=arguments.out or Path(f"compare-{Path(arguments.recipe).name}"),
        name=name,
        data=real,
        methods=asked,
        seeds=range(first, first + arguments.seeds),
        sizes=parse_sizes(arguments.sizes, ipc),
        protocol=protocol_of(arguments),
        networks=arguments.networks,
        architectures=arguments.evaluate_with.split(",") if arguments.evaluate_with else (),
        given=given,
        at=parse_numbers("at", arguments.at, MOST_OUTER, f"Outer iterations go from 1 to {MOST_OUTER:,}")
        if arguments.at
        else (),
        evaluation_seed=arguments.evaluation_seed,
        device=device,
        workers=workers_of(arguments, device),
        remark=remark,
        origin={"size": arguments.resolution, "split_seed": arguments.split_seed, "held_out": arguments.held_out},
    )
    engine = Engines(arguments, device).for_work(lambda: experiment.work(experiment.cells, anew=True))
    return replace(experiment, engine=engine)


def _tell_grid(experiment: Experiment) -> None:
    """What `compare` would do, once it is known that it could."""
    from mipset.display.tables import in_columns
    from mipset.units import byte_count

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


def run_methods(arguments: argparse.Namespace) -> None:  # noqa: ARG001
    """List the methods that `mipset compare` knows, and the groups of them that make the paper's tables.

    A method can have settings of its own behind colons: mdc:pixel-lr=0.03:freeze=never.
    """
    from mipset.experiments.methods import GROUPS, METHODS

    for name, method in METHODS.items():
        print(f"{name}\n    {method.text}")
    for name, members in GROUPS.items():
        print(f"{name}\n    {', '.join(members)}")
