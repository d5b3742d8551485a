"""Optuna searches training settings, and the size of a condensed set is the fidelity of its pruners.

Each trial tries one setting (a learning rate and an augmentation) on growing sizes: one image per class first. A pruner
of Optuna gives bad settings up early. The first row is the same search without a pruner, where each trial trains on the
whole condensed set. The search is repeated with the settings in other orders, because the pruners compare a trial with
the trials before it.

A search has found a good setting if the winner, trained on the real images, is at most one point worse than the best
setting. All accuracies are measured on held-out training images, because they choose a setting. A score is trained
once, and counted in each search that uses it.

Run:   python examples/optuna_search.py (needs `pip install ".[condense,optuna]"`)
Takes: six minutes of processor time. `--toy` takes some seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from statistics import fmean

import optuna
from common import Setting, argument_parser, at_least
from halving import AUGMENTATIONS, REAL_EPOCHS, all_real_images, score

from mipset import Evaluation
from mipset.condensing.costs import cost
from mipset.display.tables import in_columns
from mipset.integrations.optuna import rungs, score_on_prefixes

RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25)
LEAST_STEPS = 30  # in place of the 100 of `quick`: small sizes are a first look, and must cost less than the whole set
CLOSE = 1.0  # points below the best setting that still count as found


def search(
    pruner: optuna.pruners.BasePruner, sizes: list[int], settings: int, accuracy: Callable[[int, int], float], seed: int
) -> optuna.Study:
    """Try all settings, in an order that the seed decides."""
    grid = {"number": list(range(settings))}
    study = optuna.create_study(
        study_name=f"seed {seed}",  # by which Hyperband divides trials into brackets
        direction="maximize",
        sampler=optuna.samplers.GridSampler(grid, seed=seed),
        pruner=pruner,
    )

    def objective(trial: optuna.Trial) -> float:
        number = trial.suggest_categorical("number", grid["number"])
        return score_on_prefixes(trial, sizes, lambda size: accuracy(number, size))

    study.optimize(objective, n_trials=settings)
    return study


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--searches", type=at_least(1), default=20, help="in each row")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    setting = Setting(arguments.toy)
    data = setting.data.held_out(0.2, seed=0)
    condensed, real = setting.condensed(data), all_real_images(data, setting)
    candidates = [
        setting.protocol(rate=rate, augment=names, least_steps=LEAST_STEPS)
        for rate, names in product(RATES, AUGMENTATIONS)
    ]
    candidates = candidates[::6] if arguments.toy else candidates
    on_real = [replace(protocol, epochs=min(REAL_EPOCHS, protocol.epochs)) for protocol in candidates]
    real_scores = [score(real, data, protocol, real.ipc, setting) for protocol in on_real]

    @cache
    def accuracy(number: int, size: int) -> float:
        return score(condensed, data, candidates[number], size, setting)

    sizes = rungs(condensed.ipc)
    flops = {size: Evaluation(condensed, data, candidates[0]).flops(size) for size in sizes}
    full = len(candidates) * flops[sizes[-1]]
    rungs_of_pruners = {"min_resource": sizes[0], "reduction_factor": 2}
    searches: dict[str, tuple[Callable[[], optuna.pruners.BasePruner], list[int]]] = {
        "whole set, no pruner": (optuna.pruners.NopPruner, sizes[-1:]),
        "SuccessiveHalvingPruner": (lambda: optuna.pruners.SuccessiveHalvingPruner(**rungs_of_pruners), sizes),
        "HyperbandPruner": (lambda: optuna.pruners.HyperbandPruner(max_resource=sizes[-1], **rungs_of_pruners), sizes),
    }
    best = max(real_scores)
    rows = [["", *(f"size {size}" for size in sizes), "work in %", "found in %", "points below the best"]]
    for title, (pruner, used) in searches.items():
        studies = [search(pruner(), used, len(candidates), accuracy, seed) for seed in range(arguments.searches)]
        tried = {n: fmean(sum(n in trial.intermediate_values for trial in s.trials) for s in studies) for n in sizes}
        below = [best - real_scores[study.best_params["number"]] for study in studies]
        work = sum(tried[size] * flops[size] for size in sizes) / full
        found = fmean(points <= CLOSE for points in below)
        cells = [*(f"{tried[size]:.1f}" for size in sizes), f"{100 * work:.1f}", f"{100 * found:.0f}"]
        rows.append([title, *cells, f"{fmean(below):.2f}"])
    print(f"{len(candidates)} settings, {arguments.searches} searches in each row: mean number of trials at each size,")
    print("work of training, searches that found a good setting, and how much worse than the best it is on real images")
    print(in_columns(rows))
    real_flops = len(candidates) * Evaluation(real, data, on_real[0]).flops(real.ipc)
    condensing = cost(setting.recipe, data.shape, data.classes, len(data.train), len(data.test)).run_flops
    print(f"100 % of work is {full / real_flops:.1%} of trying all settings on the real images; condensing is ", end="")
    print(f"{condensing / real_flops:.1%}")


if __name__ == "__main__":
    main()
