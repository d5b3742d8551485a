"""How the pixel learning rate of a CPU recipe was chosen: on held-out training images, never on test images.

Usage: choose_rate.py RECIPE RATE [RATE ...]   for example: choose_rate.py demo 0.005 0.02 0.1
"""

from __future__ import annotations

import sys

from mipset import Evaluation, load, pack, run
from mipset.memory import keep_freed_memory
from mipset.recipes import RECIPES
from mipset.tables import accuracy_table

POLICIES, SIZES, NETWORKS = ("none", "mdc", "every-prefix"), (1, 2, 3, 5, 10), 2


def main() -> None:
    keep_freed_memory()
    name, *rates = sys.argv[1:]
    named = RECIPES[name]
    data = load(named.dataset).held_out(0.2, seed=0)
    curves = {}
    for policy in POLICIES:
        for rate in rates:
            recipe = named.recipe.replace(policy=policy, pixel_lr=float(rate))
            *_, last = run(recipe, data)
            evaluation = Evaluation(pack(last, recipe, data), data)
            curves[f"{policy}, rate {rate}"] = evaluation.curve(list(evaluation.scores(SIZES, NETWORKS)))
            print(accuracy_table(curves), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
