"""DD-Ranking: the label-robust score of several sizes of a condensed set, by the training of DD-Ranking itself.

For each size, DD-Ranking trains networks on the condensed images with five learning rates, keeps the best, and does the
same with random real images of the same bytes. HLR is how far the condensed images are behind all real images, IOR how
far they are ahead of the random ones, both in percentage points. The score (LRS) is 1 if nothing is lost and random
images are useless, and 0 for the worst. A real training of DD-Ranking has 300 epochs and 5 runs, and the accuracy of
all real images is measured: this example has few epochs, one run, and an accuracy that is given. So its scores are
not those of the leaderboard.

Run:   python examples/ddranking_scores.py (needs `pip install ".[condense,ddranking]"`)
Takes: seven minutes of processor time, on CIFAR-10 if `mipset data fetch cifar10` has fetched it. `--toy` takes 12 s.
"""

from __future__ import annotations

import contextlib
import io

from common import argument_parser, at_least, framework_setting
from standin import stand_in_for_torchvision

from mipset.display.tables import in_columns

stand_in_for_torchvision()
from mipset.integrations.ddranking import label_robust_score  # noqa: E402


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--sizes", type=at_least(1), nargs="+", default=[1, 3], help="default: 1 3")
    parser.add_argument("--epochs", type=at_least(10), help="of each network (default: 20; with --toy 10)")
    parser.add_argument("--full-accuracy", type=float, default=85.0, help="of all real images, in %% (default: 85)")
    parser.add_argument("--model", help="a network of DD-Ranking (default: ConvNet-3; with --toy ConvNet-1)")
    arguments = parser.parse_args()
    setting = framework_setting(arguments)
    epochs, model = arguments.epochs or (10 if arguments.toy else 20), arguments.model
    condensed = setting.condensed(setting.data)
    rows = [["size", "HLR", "IOR", "LRS"]]
    for size in arguments.sizes:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # its own log
            measured = label_robust_score(
                condensed,
                setting.data,
                size,
                full_accuracy=arguments.full_accuracy,
                model_name=model or ("ConvNet-1" if arguments.toy else "ConvNet-3"),
                num_epochs=epochs,
                num_eval=1,
            )
        values = [measured.recovery[0], measured.improvement[0], measured.score]
        rows.append([str(size), *(f"{value:.2f}" for value in values)])
    print(f"{setting.dataset}, {epochs} epochs, if all real images give {arguments.full_accuracy:g} %")
    print(in_columns(rows))


if __name__ == "__main__":
    main()
