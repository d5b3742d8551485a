"""`python -m soak`: inject random faults for some time, and count what happens."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

from mipset.units import duration, parse_duration
from soak.children import Nursery
from soak.faults import FAULTS
from soak.settings import SETTINGS, Setting
from soak.trial import NEVER, Lab, Tally, Trial

PATIENCE = 300.0  # seconds after which a command hangs
PROGRESS = 20.0  # seconds between two lines of progress


def soak(
    folder: Path, seed: int, numbers: Iterable[int], seconds: float, settings: Sequence[Setting] = tuple(SETTINGS)
) -> Tally:
    """Inject the faults with these numbers, until all are done or the time is over. The kinds take turns."""
    start = time.monotonic()
    said, shown = start, 0
    nursery = Nursery(folder, PATIENCE)
    lab = Lab(folder, nursery, seed, settings)
    try:
        for number in numbers:
            if time.monotonic() - start > seconds:
                break
            fault = FAULTS[number % len(FAULTS)]
            trial = Trial(lab, number, fault.name)
            fault.inject(trial)
            lab.tally.faults[fault.name] += 1
            trial.close()
            for report in lab.tally.reports[shown:]:  # at once: the rest may take an hour
                print(f"{report}\n", file=sys.stderr, flush=True)
            shown = len(lab.tally.reports)
            if time.monotonic() - said > PROGRESS:
                said = time.monotonic()
                print(f"{duration(said - start)}: {line(lab.tally)}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        lab.tally.interrupted = True  # what was counted so far is worth a table
    finally:
        nursery.close()
    return lab.tally


def line(tally: Tally) -> str:
    """The counts in one line."""
    never = ", ".join(f"{tally.found[what]} {what}" for what in NEVER)
    return f"{tally.faults.total()} faults, {tally.finished.total()} finished runs, {never}"


def table(tally: Tally) -> str:
    """All counts, as a table in Markdown."""
    rows = [(f"faults: {kind}", number) for kind, number in tally.faults.items()]
    rows += [("faults", tally.faults.total()), ("commands", tally.commands)]
    rows += [("commands that a signal or a full disk stopped", tally.stopped)]
    rows += [("finished runs", tally.finished.total()), ("in different settings", len(tally.finished))]
    rows += [("refusals in one sentence", tally.noticed)]
    rows += [(f"{what} (must be 0)", tally.found[what]) for what in NEVER]
    width = max(len(name) for name, _ in rows)
    return "\n".join(
        [f"| {'counted':<{width}} | number |", f"|{'-' * (width + 2)}|-------:|"]
        + [f"| {name:<{width}} | {number:>6} |" for name, number in rows]
    )


def main() -> int:
    """Soak, print the table, and give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--duration", default="1h", help="such as 60s, 10min or 1h (default: 1h)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all faults (default: 0)")
    parser.add_argument("--only", type=int, metavar="N", help="inject fault N only")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mipset-soak-"))
    numbers = count() if arguments.only is None else [arguments.only]
    tally = soak(folder, arguments.seed, numbers, parse_duration(arguments.duration))
    print(table(tally))
    if tally.found:
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 130 if tally.interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
