"""Verbs for datasets: `data` lists them, and `data fetch` downloads one."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from mipset.cli.parser import Verbs, add_json_flag, add_verb
from mipset.cli.wording import print_result
from mipset.display.progress import Progress


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    verb = add_verb(verbs, "data", run_data, "list the datasets, or download one")
    add_json_flag(verb)
    actions = verb.add_subparsers(metavar="[fetch NAME]")

    action = add_verb(actions, "fetch", run_data_fetch, "download a dataset")
    add_json_flag(action)
    action.add_argument("name", metavar="NAME", help="a name that `mipset data` lists, or hf:NAME[:CONFIG]")


def run_data(arguments: argparse.Namespace) -> None:
    """List the datasets that can be condensed, and where they are. `mipset data fetch NAME` downloads one."""
    from mipset.data import available

    entries = available()
    lines = []
    for entry in entries:
        missing = "to use it" if ":" in entry.name else "not here"  # the user's own data have no place of their own
        state = f"here: {entry.path}" if entry.present else f"{missing}: {entry.how_to_get}"
        lines.append(f"{entry.name}\n    {entry.description}\n    {state}")
    print_result(arguments, [asdict(entry) for entry in entries], "\n".join(lines))


def run_data_fetch(arguments: argparse.Namespace) -> None:
    """Download a dataset into the cache folder: MIPSET_HOME if it is set, else a folder in the user's cache."""
    from mipset.data import fetch

    with Progress() as bar:
        path = fetch(arguments.name, report=bar.report)
    print_result(arguments, {"name": arguments.name, "path": path}, f"{arguments.name} is in {path}")
