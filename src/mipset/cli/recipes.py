"""`recipes`: the named settings that `condense` and `compare` start from."""

from __future__ import annotations

import argparse
from dataclasses import asdict, fields

from mipset.cli.parser import Verbs, add_json_flag, add_verb, flag_of, with_flags
from mipset.cli.wording import print_result
from mipset.display.progress import Progress
from mipset.errors import SettingError
from mipset.units import duration


def add(verbs: Verbs) -> None:
    """Add the verb of this module and its flags."""
    verb = add_verb(verbs, "recipes", run_recipes, "list the named recipes")
    add_json_flag(verb)
    verb.add_argument("name", metavar="NAME", nargs="?", help="show every setting of this recipe")
    verb.add_argument("--toml", action="store_true", help="print the settings of NAME as a file for --config")


def run_recipes(arguments: argparse.Namespace) -> None:
    """List the named recipes, with the dataset, the expected accuracy and the time of each on this machine.

    With NAME, list every setting of that recipe, and where it comes from: the paper, the release of its authors (or of
    IDC's), the authors of another method, or us.
    """
    from mipset.settings.catalogue import RECIPES, recipe, sources
    from mipset.settings.toml import recipe_toml
    from mipset.units import flop_count

    if arguments.toml:
        if arguments.name is None:
            raise SettingError("`toml` needs the NAME of a recipe. `mipset recipes` lists them.")
        print(recipe_toml(arguments.name, recipe(arguments.name)))
        return
    if arguments.name is None:
        try:
            seconds, rate = _seconds_of_recipes()
        except ModuleNotFoundError:  # a device has no torch, and condenses nothing
            seconds, rate = {}, 0.0
        lines = []
        for name, named in RECIPES.items():
            lines.append(f"{name}\n    {named.dataset}: {named.promise}")
            if name in seconds:
                lines.append(f"    here: about {duration(seconds[name])} of processor time")
        note = rate and (
            f"\nhere: counted FLOPs at {flop_count(round(rate))} per second of processor time, which a small network "
            f"reached on this machine; mipset condense --dry-run measures a recipe itself"
        )
        facts = {
            name: {
                "dataset": named.dataset,
                "promise": named.promise,
                "recipe": asdict(named.recipe),
                "seconds": seconds.get(name),
            }
            for name, named in RECIPES.items()
        }
        print_result(arguments, facts, "\n".join([*lines, *([note] if note else [])]))
        return
    settings = recipe(arguments.name)
    origin = sources(arguments.name)
    lines = [
        f"{f'{flag_of(f.name)} {getattr(settings, f.name)}':<36}  {origin[f.name]:<8} {with_flags(f.metadata['help'])}"
        for f in fields(settings)
    ]
    print_result(arguments, {"settings": asdict(settings), "sources": origin}, "\n".join(lines))


def _seconds_of_recipes() -> tuple[dict[str, float], float]:
    """About how long each recipe for a published dataset takes here, and the FLOPs per second of this machine."""
    from mipset.condensing.rates import Job, seconds_of
    from mipset.data import spec_of
    from mipset.settings.catalogue import RECIPES

    specs = {name: spec_of(named.dataset) for name, named in RECIPES.items()}
    jobs = {
        name: Job(RECIPES[name].recipe, spec.shape, len(spec.class_names), spec.train_count)
        for name, spec in specs.items()
        if spec is not None
    }
    with Progress() as bar:
        return seconds_of(jobs, bar.report)
