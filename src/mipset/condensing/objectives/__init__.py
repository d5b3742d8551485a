"""Objectives: the distance between a synthetic set S and the real images B that condensing minimises.

An objective has two functions. `target` sees the real images once. `distances` then gives D(S_[n], B_c) of every size
and of one or several classes. All sizes cost one pass if what is compared is a mean over images, because the mean of a
prefix is a running mean: that holds for gradients, features, their characteristic functions, and the cross-entropy. It
does not hold for trajectories, where every size costs a pass of its own.
"""

from __future__ import annotations

from mipset.condensing.objectives.base import (
    Match,
    Objective,
    Target,
    Term,
    WeightedSum,
    constant_weights,
    of_each_class,
    prefix_means,
)
from mipset.condensing.objectives.confidence import Confidence
from mipset.condensing.objectives.features import (
    CharacteristicFunctions,
    FeatureMatching,
    FeatureObjective,
    LayeredCharacteristicFunctions,
)
from mipset.condensing.objectives.gradients import L1, Distance, GradientMatching, RowCosine, Squared
from mipset.condensing.objectives.trajectories import Student, TrajectoryMatching

__all__ = [
    "L1",
    "CharacteristicFunctions",
    "Confidence",
    "Distance",
    "FeatureMatching",
    "FeatureObjective",
    "GradientMatching",
    "LayeredCharacteristicFunctions",
    "Match",
    "Objective",
    "RowCosine",
    "Squared",
    "Student",
    "Target",
    "Term",
    "TrajectoryMatching",
    "WeightedSum",
    "constant_weights",
    "of_each_class",
    "prefix_means",
]
