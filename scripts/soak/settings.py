"""The small runs: every policy, engine and kind of objective."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from itertools import product

SIZES = ("--ipc", 2, "--width", 8, "--depth", 2, "--outer", 2, "--inner", 2, "--real-batch", 4, "--train-batch", 8)
QUICK = "--force-memory"  # leaves out the estimate of the memory, which takes longer than these runs
OBJECTIVES = {
    "gradient": ("--learner", "trained", "--train-images", 16, "--pixel-optimiser", "sgd"),
    "layered+10*confidence/2": ("--learner", "experts", "--experts", 1, "--expert-steps", 4),
}


@dataclass(frozen=True)
class Setting:
    """A small run on fashion-mini."""

    policy: str
    engine: str  # of --compile
    objective: str

    @property
    def flags(self) -> list[object]:
        """The flags of `condense`."""
        period = ("--period", 1) if self.policy.startswith("mdc") else ()
        own = ("--policy", self.policy, "--compile", self.engine, "--objective", self.objective)
        return [*SIZES, *own, *period, *OBJECTIVES[self.objective], "--init", "noise", "--threads", 1, QUICK]

    def __str__(self) -> str:
        return ", ".join(astuple(self))


SETTINGS = [
    Setting(*chosen)
    for chosen in product(("baseline-c", "mdc", "mdc-per-class", "every-prefix"), ("on", "off"), OBJECTIVES)
]
