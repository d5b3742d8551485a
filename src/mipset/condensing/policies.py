"""Policies: the weight of each size now, and what is frozen. The equations of the paper's section 3.3.

    N         images per class of the whole set S = S_[N]
    S_[n]     the subset of the first n images of each class
    t, Δt     outer iteration (from 1), and the iterations between two selections
    F_t       feature distance of every subset to the real images B at t
    R         reduction rate of the feature distance
    n*_t      size of the most learnable subset, S_MLS(t) = S_[n*_t]; 0 before the first choice
    w_n       weight of size n in the loss

A policy gives one weight per size, so the loss is always `sum_n w_n D(S_[n], B)`, and the length of the frozen prefix.
Its answers change only in `select`, at the end of an outer iteration, and depend only on the distances F.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch import Tensor

from mipset.condensing.states import check, finite_number, whole_number
from mipset.errors import SettingError
from mipset.settings.part import Part, own_name

State: TypeAlias = dict[str, Any]  # numbers and lists only: a checkpoint holds it


def reduction_rate(F_now: Sequence[float], F_before: Sequence[float], Δt: int) -> list[float]:
    """R(S_[n], t) = |F_t - F_{t-Δt}| / Δt (equation 8)."""
    return [abs(now - before) / Δt for now, before in zip(F_now, F_before, strict=True)]


def most_learnable(R: Sequence[float]) -> int:
    """n*_t = argmax R(S_[n], t) over n in 1..N-1 (equation 9); the smallest, if several are equal."""
    return max(range(1, len(R) + 1), key=lambda n: R[n - 1])


def balanced_steps(w: Sequence[float]) -> list[float]:
    """The scale of the step of each of the images 1..N that makes it as large as in Baseline C.

    An image is 1/n of S_[n], so its gradient in the loss of S_[n] is N/n times as large as in the loss of S_[N]. If
    every size has weight 1, the gradient of the first of ten images is 29 times as large as in Baseline C, that of the
    last one is the same. No learning rate suits both.
    """
    N = len(w)
    growth = [sum(w[n - 1] * (N / n) for n in range(i, N + 1)) for i in range(1, N + 1)]
    return [1 / factor if factor > 0 else 1.0 for factor in growth]


class FreezeRule(ABC):
    """Which prefix is frozen while S_[n*_t] is active (equation 10)."""

    @abstractmethod
    def frozen(self, chosen: Sequence[int], before: int) -> int:
        """The frozen length, from all sizes chosen so far (the last is n*_t) and the frozen length before."""


@dataclass(frozen=True)
class Predecessor(FreezeRule):
    """The paper's equation: if S_MLS(t) is larger than S_MLS(t-Δt), that one is frozen; if smaller, nothing is."""

    def frozen(self, chosen: Sequence[int], before: int) -> int:
        if len(chosen) < 2 or chosen[-1] == chosen[-2]:
            return before
        return chosen[-2] if chosen[-1] > chosen[-2] else 0


@dataclass(frozen=True)
class Ratchet(FreezeRule):
    """The authors' code: the largest size below n*_t that was ever chosen is frozen."""

    def frozen(self, chosen: Sequence[int], before: int) -> int:
        return max((n for n in chosen if n < chosen[-1]), default=0)


@dataclass(frozen=True)
class NeverFreeze(FreezeRule):
    """All images are always updated: the ablation without freezing."""

    def frozen(self, chosen: Sequence[int], before: int) -> int:
        return 0


class Policy(Part, ABC):
    """The weight of each size of each class now, and what is frozen."""

    @abstractmethod
    def weights(self, c: int) -> Sequence[float]:
        """w_1 .. w_N of class `c`."""

    def frozen(self, c: int) -> int:
        """The number of images of class `c` that must not change."""
        return 0

    def selected(self, c: int) -> int:
        """The size of class `c` that was selected last, such as n*_t; 0 if there is none."""
        return 0

    def steps(self, c: int) -> Sequence[float] | None:
        """The scale of the steps of the images 1..N of class `c`; None does not scale."""
        return None

    def measures(self, t: int) -> bool:
        """Whether outer iteration `t` has to be measured for `select`."""
        return False

    def select(self, t: int, F: Tensor) -> None:
        """Decide at the end of a measured iteration, from `F` [C, N], the mean over its inner iterations."""

    def note(self) -> str:
        """What it has decided, in a few words for the progress bar."""
        return ""

    def state(self) -> State:
        """What a checkpoint needs to hold: of a policy that selects, all attributes that are numbers, text or lists."""
        if type(self).select is Policy.select:
            return {}
        return {name: value for name, value in vars(self).items() if _is_plain(value)}

    def restore(self, state: State) -> None:
        """Continue from a state that `state` gave."""
        check(set(state) == set(Policy.state(self)))
        for name, value in state.items():
            object.__setattr__(self, name, value)  # also of a frozen dataclass


def checked_weights(policy: Policy, c: int, N: int) -> Sequence[float]:
    """The weights of a class, if there is one for each size: a policy of somebody's own can give others."""
    w = policy.weights(c)
    if len(w) != N or not all(math.isfinite(weight) for weight in w):
        raise SettingError(
            f"`policy`: {own_name(policy)} gave the weights {[float(weight) for weight in w]} for class {c}. "
            f"Give {N} finite numbers, one for each size."
        )
    return w


def _is_plain(value: object) -> bool:
    """Whether a checkpoint can hold a value as it is."""
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


@dataclass(frozen=True)
class BaselineC(Policy):
    """Only the whole set has a weight: the paper's Baseline C."""

    N: int

    def weights(self, c: int) -> Sequence[float]:
        return [0.0] * (self.N - 1) + [1.0]


@dataclass(frozen=True)
class EveryPrefix(Policy):
    """Every size always has its weight: equation 3 without simplification."""

    w: tuple[float, ...]
    balanced: bool = False  # whether steps are scaled by `balanced_steps`

    def __post_init__(self) -> None:
        if not all(0 <= weight < float("inf") for weight in self.w) or sum(self.w) <= 0:
            raise SettingError(
                f"`prefix_weights` are {list(self.w)}: they must be finite and at least 0, and one larger than 0."
            )

    def weights(self, c: int) -> Sequence[float]:
        return self.w

    def steps(self, c: int) -> Sequence[float] | None:
        return balanced_steps(self.w) if self.balanced else None


@dataclass
class MostLearnableSubset(Policy):
    """MDC: the whole set has weight 1, and so has S_MLS, which is chosen again every Δt outer iterations.

    Distances are measured in the first outer iteration, after which the size `least` is chosen, and in every iteration
    that Δt divides.
    """

    N: int
    period: int = 100  # Δt
    freeze: FreezeRule = field(default_factory=Ratchet)
    subset_weight: float = 1.0
    decimals: int | None = None  # the release rounds distances to 2
    least: int = 1  # the smallest size that can be chosen
    classes: list[int] | None = None  # whose distances are compared; None: all
    chosen: list[int] = field(default_factory=list, repr=False)
    F_before: list[float] | None = field(default=None, repr=False)
    _frozen: int = 0

    @property
    def n_star(self) -> int:
        """n*_t: the size of the subset that is active now, or 0."""
        return self.chosen[-1] if self.chosen else 0

    def weights(self, c: int) -> Sequence[float]:
        w = [0.0] * (self.N - 1) + [1.0]
        if self.n_star:
            w[self.n_star - 1] += self.subset_weight
        return w

    def frozen(self, c: int) -> int:
        return self._frozen

    def selected(self, c: int) -> int:
        return self.n_star

    def measures(self, t: int) -> bool:
        return self.least < self.N and (t == 1 or t % self.period == 0)

    def select(self, t: int, F: Tensor) -> None:
        counted = F if self.classes is None else F[self.classes]
        F_now: list[float] = counted.mean(dim=0).tolist()[: self.N - 1]
        if self.decimals is not None:
            F_now = [round(value, self.decimals) for value in F_now]
        if self.F_before is None:
            self.chosen.append(self.least)
        else:
            R = reduction_rate(F_now, self.F_before, self.period)
            self.chosen.append(self.least - 1 + most_learnable(R[self.least - 1 :]))
        self._frozen = self.freeze.frozen(self.chosen, self._frozen)
        self.F_before = F_now

    def note(self) -> str:
        return f"subset {self.n_star}, frozen {self._frozen}"

    def state(self) -> State:
        return {"chosen": list(self.chosen), "F_before": self.F_before, "frozen": self._frozen}

    def restore(self, state: State) -> None:
        chosen, F_before, frozen = list(state["chosen"]), state["F_before"], 0
        for number, n in enumerate(chosen, start=1):
            whole_number(n, range(self.least, self.N))
            frozen = self.freeze.frozen(chosen[:number], frozen)
        check(frozen == state["frozen"] and (F_before is None) == (not chosen))
        check(F_before is None or [finite_number(distance) for distance in F_before] == F_before)
        check(F_before is None or len(F_before) == self.N - 1)
        self.chosen, self.F_before, self._frozen = chosen, F_before, frozen


@dataclass(frozen=True)
class FrozenPrefix(Policy):
    """Another policy, and a first part of each class that never changes: the images of a published file."""

    policy: Policy
    lengths: tuple[int, ...]  # frozen images of each class
    N: int

    def weights(self, c: int) -> Sequence[float]:
        w = list(self.policy.weights(c))
        return [0.0 if n <= self.lengths[c] < self.N else weight for n, weight in enumerate(w, start=1)]

    def frozen(self, c: int) -> int:
        return max(self.lengths[c], self.policy.frozen(c))

    def selected(self, c: int) -> int:
        return self.policy.selected(c)

    def steps(self, c: int) -> Sequence[float] | None:
        return self.policy.steps(c)

    def measures(self, t: int) -> bool:
        return self.policy.measures(t)

    def select(self, t: int, F: Tensor) -> None:
        self.policy.select(t, F)

    def note(self) -> str:
        return self.policy.note()

    def state(self) -> State:
        return self.policy.state()

    def restore(self, state: State) -> None:
        self.policy.restore(state)


@dataclass(frozen=True)
class PerClass(Policy):
    """One policy for each class, which sees only the distances of that class."""

    policies: tuple[Policy, ...]

    def weights(self, c: int) -> Sequence[float]:
        return self.policies[c].weights(0)

    def steps(self, c: int) -> Sequence[float] | None:
        return self.policies[c].steps(0)

    def frozen(self, c: int) -> int:
        return self.policies[c].frozen(0)

    def selected(self, c: int) -> int:
        return self.policies[c].selected(0)

    def measures(self, t: int) -> bool:
        return any(policy.measures(t) for policy in self.policies)

    def select(self, t: int, F: Tensor) -> None:
        for c, policy in enumerate(self.policies):
            if policy.measures(t):
                policy.select(t, F[c : c + 1])

    def note(self) -> str:
        return "; ".join(dict.fromkeys(policy.note() for policy in self.policies))

    def state(self) -> State:
        return {"classes": [policy.state() for policy in self.policies]}

    def restore(self, state: State) -> None:
        for policy, class_state in zip(self.policies, state["classes"], strict=True):
            policy.restore(class_state)
