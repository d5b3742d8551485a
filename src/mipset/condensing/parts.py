"""What a run of Algorithm 1 is made of (its parts), where it is (a place), and what it yields (steps)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from mipset.condensing.learners import Learner
from mipset.condensing.metrics import Metric
from mipset.condensing.objectives import Objective
from mipset.condensing.optimisers import PixelOptimiser
from mipset.condensing.policies import Policy
from mipset.condensing.samplers import Sampler
from mipset.condensing.synthetic import Synthetic
from mipset.nn.augment import Augmentation
from mipset.nn.distributed import ALONE, Team

AXES = ("objective", "policy", "sampler", "learner", "optimiser", "metric", "augmentation")


@dataclass(frozen=True)
class Parts:
    """The parts of a method; `dataclasses.replace` puts another one in.

    Their descriptions are taken before the run begins: what a part decides during the run is no setting of it.
    """

    S: Synthetic
    objective: Objective[Any]
    sampler: Sampler
    learner: Learner
    optimiser: PixelOptimiser
    policy: Policy
    augmentation: Augmentation
    metric: Metric
    T: int
    E: int
    seed: int
    classes: Sequence[int]  # that this process updates; S is complete after every outer iteration
    team: Team = ALONE  # the processes that update the other classes
    descriptions: Mapping[str, str] = field(init=False, repr=False)  # by axis

    def __post_init__(self) -> None:
        object.__setattr__(self, "descriptions", {axis: repr(getattr(self, axis)) for axis in AXES})

    def number(self, t: int, e: int) -> int:
        """The number of inner iterations of the run before this one."""
        return (t - 1) * self.E + e - 1

    @property
    def groups(self) -> list[Sequence[int]]:
        """The classes of this process, in groups that share a pass and are updated together."""
        images = self.S.N * self.S.formation.images + self.sampler.batch
        return self.objective.groups(self.classes, images * self.S.resolution[0] * self.S.resolution[1])


@dataclass(frozen=True)
class Place:
    """How far a run is: `t` outer iterations are done, and `e` inner iterations of the next one, which gave `F`.

    With F, the next one has begun, if only with the training of its network (e = 0).
    """

    t: int = 0
    e: int = 0
    F: Tensor | None = None  # [C, N]; needed if e > 0


START = Place()


@dataclass(frozen=True)
class Step:
    """The state of a run after one inner iteration, or before the first of an outer one (e = 0).

    `parts` is not a copy: the next step changes S.
    """

    parts: Parts
    t: int
    e: int
    loss: float  # sum_n w_n D(S_[n], B), the mean over classes that are not completely frozen
    F: Tensor  # [C, N], of this outer iteration so far

    def __repr__(self) -> str:
        return f"<Step: outer {self.t}/{self.parts.T}, inner {self.e}/{self.parts.E}, {self.note}>"

    @property
    def outer(self) -> tuple[int, int]:
        """The outer iteration, and the number of them."""
        return self.t, self.parts.T

    @property
    def inner(self) -> tuple[int, int]:
        """The inner iteration, and the number of them in an outer iteration."""
        return self.e, self.parts.E

    @property
    def note(self) -> str:
        """The loss, and what the policy has decided, for people who watch the run."""
        if not self.e:
            return "training a new network"
        decided = self.parts.policy.note()
        return f"loss {self.loss:.3g}" + (f", {decided}" if decided else "")

    @property
    def place(self) -> Place:
        """Where the run goes on after this step."""
        return Place(self.t, 0) if self.outer_done else Place(self.t - 1, self.e, self.F)

    @property
    def outer_done(self) -> bool:
        """Whether this ends an outer iteration: S is complete and clamped, and the policy has decided."""
        return self.e == self.parts.E

    @property
    def share(self) -> float:
        """The part of the run that is done, from 0 to 1."""
        return (self.parts.number(self.t, self.e) + 1) / (self.parts.T * self.parts.E)
