"""Accuracies that the paper reports, in percent: its table for 10 images per class, sizes 1 to 10.

ConvNet-3 of width 128, 2,000 outer iterations of 100, 1,000 epochs of evaluation, the best of four measurements on the
test set. By the name of the dataset, then by the name of the method.
"""

from __future__ import annotations

from collections.abc import Mapping

IPC = 10

ACCURACIES: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "svhn": {
        "baseline-a": (68.50, 75.27, 79.55, 81.85, 83.33, 84.53, 85.66, 86.05, 86.25, 87.50),
        "baseline-b": (68.50, 71.65, 71.27, 71.92, 73.28, 70.74, 71.83, 71.08, 71.97, 71.55),
        "baseline-c": (35.48, 51.55, 60.42, 67.97, 74.38, 77.65, 81.70, 83.86, 85.96, 87.50),
        "mdc": (63.26, 67.91, 72.15, 74.09, 77.54, 78.17, 80.92, 82.82, 84.27, 86.38),
    },
    "cifar10": {
        "baseline-a": (50.80, 54.85, 59.79, 61.84, 62.49, 64.59, 65.53, 66.33, 66.82, 67.50),
        "baseline-b": (50.80, 53.17, 55.09, 56.17, 55.80, 56.98, 57.60, 57.78, 58.22, 58.38),
        "baseline-c": (27.49, 38.50, 45.29, 50.85, 53.60, 57.98, 60.99, 63.60, 65.71, 67.50),
        "mdc": (49.66, 54.58, 53.92, 54.55, 55.18, 58.80, 61.51, 63.36, 65.41, 66.72),
    },
    "cifar100": {
        "baseline-a": (28.90, 34.28, 37.35, 39.13, 41.15, 42.65, 43.62, 44.48, 45.07, 45.40),
        "baseline-b": (28.90, 30.63, 31.64, 31.76, 32.61, 32.85, 33.03, 33.04, 33.32, 33.39),
        "baseline-c": (14.38, 21.76, 28.01, 32.21, 35.27, 39.09, 40.92, 42.69, 44.28, 45.40),
        "mdc": (27.58, 31.83, 33.59, 35.42, 36.93, 38.95, 40.70, 42.05, 43.86, 44.34),
    },
}
