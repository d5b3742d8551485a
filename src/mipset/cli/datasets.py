"""Real images: what there is (`data`), and getting one (`data fetch`)."""

from __future__ import annotations

import argparse

from mipset.cli.parser import Verbs, add_verb
from mipset.display.progress import Progress


def add(verbs: Verbs) -> None:
    """The verbs of this module and their flags."""
    verb = add_verb(verbs, "data", run_data, "datasets: what there is, and fetching one")
    actions = verb.add_subparsers(metavar="[fetch NAME]")

    action = add_verb(actions, "fetch", run_data_fetch, "get a dataset")
    action.add_argument("name", metavar="NAME")


def run_data(arguments: argparse.Namespace) -> None:  # noqa: ARG001
    """List the datasets that can be condensed, and where they are; `mipset data fetch NAME` gets one."""
    from mipset.data import available

    for entry in available():
        state = f"here: {entry.path}" if entry.present else f"not here: {entry.how_to_get}"
        print(f"{entry.name}\n    {entry.description}\n    {state}")


def run_data_fetch(arguments: argparse.Namespace) -> None:
    """Get a dataset into the cache folder (MIPSET_HOME, or the user's)."""
    from mipset.data import fetch

    with Progress() as bar:
        where = fetch(arguments.name, report=bar.report)
    print(f"{arguments.name} is in {where}")
