"""Verbs for datasets: `data` lists them, and `data fetch` downloads one."""

from __future__ import annotations

import argparse

from mipset.cli.parser import Verbs, add_verb
from mipset.display.progress import Progress


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    verb = add_verb(verbs, "data", run_data, "list the datasets, or download one")
    actions = verb.add_subparsers(metavar="[fetch NAME]")

    action = add_verb(actions, "fetch", run_data_fetch, "download a dataset")
    action.add_argument("name", metavar="NAME", help="a name that `mipset data` lists, or hf:NAME[:CONFIG]")


def run_data(arguments: argparse.Namespace) -> None:  # noqa: ARG001
    """List the datasets that can be condensed, and where they are. `mipset data fetch NAME` downloads one."""
    from mipset.data import available

    for entry in available():
        state = f"here: {entry.path}" if entry.present else f"not here: {entry.how_to_get}"
        print(f"{entry.name}\n    {entry.description}\n    {state}")


def run_data_fetch(arguments: argparse.Namespace) -> None:
    """Download a dataset into the cache folder: MIPSET_HOME if it is set, else a folder in the user's cache."""
    from mipset.data import fetch

    with Progress() as bar:
        path = fetch(arguments.name, report=bar.report)
    print(f"{arguments.name} is in {path}")
