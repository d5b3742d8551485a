"""Plans: limits, epochs, expected accuracies; and measuring the throughput."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import web
from mipset import Artifact, SettingError, device
from mipset.data import Dataset
from mipset.errors import BudgetError
from mipset.evaluation.evaluate import Evaluation, Score
from mipset.file.description import Accuracy
from mipset.settings import protocol
from mipset.settings.architecture import Architecture
from noise_sets import RANK_BYTES, header_length, noise_set, point


class TestPlan:
    @pytest.mark.parametrize("n", range(1, 7))
    def test_plan_within_bytes_of_storage(self, set_path: Path, whole: Artifact, n: int) -> None:
        source = device.open(set_path)
        needed = len(whole.prefix(n).to_bytes())
        for room, size in ((needed, n), (needed + 1, n), (needed - 1, n - 1)):
            if size:
                plan = device.plan(source, bytes=room)
                assert plan.size == size
                assert plan.file_bytes == len(whole.prefix(size).to_bytes()) <= room
        assert source.ranks_in_memory == 0

    def test_plan_without_limits_is_the_whole_set(self, set_path: Path) -> None:
        plan = device.plan(device.open(set_path))
        assert (plan.size, plan.images, plan.epochs, plan.seconds) == (6, 96, 50, None)

    @pytest.mark.parametrize("n", range(1, 7))
    def test_plan_within_memory(self, set_path: Path, n: int) -> None:
        needed = (n + 1) * RANK_BYTES + RANK_BYTES // 8 + 16 * n * 16 + (2 * 20 + 8) * 4 * 3 * 8 * 7
        source = device.open(set_path)
        plan = device.plan(source, memory=needed, batch=20)
        assert (plan.size, plan.memory) == (n, needed)
        if n > 1:
            assert device.plan(source, memory=needed - 1, batch=20).size == n - 1

    def test_planned_seconds_are_images_times_epochs(self, tmp_path: Path) -> None:
        noise_set(accuracy=(point(1, 40.0, protocol="paper, 1000 epochs"),)).write(tmp_path / "set")
        source = device.open(tmp_path / "set")
        plan = device.plan(source, seconds=640, throughput=100)
        assert (plan.size, plan.epochs, plan.seconds) == (4, 1000, 640.0)
        assert device.plan(source, seconds=639, throughput=100).size == 3
        assert device.plan(source, seconds=640, throughput=100, epochs=500).size == 6
        assert device.plan(source, throughput=100).seconds == 960.0

    @pytest.mark.parametrize("n", range(1, 7))
    def test_planned_epochs_are_those_of_the_protocol(self, set_path: Path, n: int) -> None:
        """Which trains longer on few images: at least for 100 steps, with batches of 64."""
        rule = protocol.PROTOCOLS["quick"]
        assert point(1, 1.0).protocol == str(rule)
        source = device.open(set_path)
        room = source.file_bytes(n)
        assert device.plan(source, bytes=room).epochs == rule.epochs_for(16 * n, 1)
        assert device.plan(source, bytes=room, batch=8).epochs == rule.epochs_for(16 * n, 1)

    def test_plan_obeys_every_limit(self, set_path: Path) -> None:
        source = device.open(set_path)
        room = source.file_bytes(4)
        assert device.plan(source, bytes=room, seconds=1e9, throughput=1).size == 4
        assert device.plan(source, bytes=room, seconds=1600, throughput=1, epochs=50).size == 2

    @pytest.mark.parametrize(
        ("n", "mean", "std", "measured"),
        [(1, 40.0, 1.0, True), (2, 50.0, 2.0, True), (3, 55.0, 1.5, False), (4, 60.0, 1.0, True)],
    )
    def test_expected_accuracy_is_on_the_curve(
        self, set_path: Path, n: int, mean: float, std: float, measured: bool
    ) -> None:
        source = device.open(set_path)
        expected = device.plan(source, bytes=source.file_bytes(n)).expected
        assert expected is not None
        assert (expected.mean, expected.std, expected.measured) == (mean, std, measured)
        assert str(expected) == f"{mean:.1f} ± {std:.1f} %"
        assert expected.networks == 3
        assert expected.network == "convnet-3, width 4"

    def test_expected_accuracy_of_one_network_has_no_spread(self, tmp_path: Path) -> None:
        points = (replace(point(1, 40.0, 0.0), networks=1), point(6, 60.0))
        noise_set(accuracy=points).write(tmp_path / "set")
        source = device.open(tmp_path / "set")
        for n, text in ((1, "40.0 % (one network)"), (3, "48.0 % (one network)"), (6, "60.0 ± 1.0 %")):
            assert str(device.plan(source, bytes=source.file_bytes(n)).expected) == text

    def test_expected_accuracy_is_unknown_beyond_measured_sizes(self, set_path: Path, tmp_path: Path) -> None:
        assert device.plan(device.open(set_path)).expected is None
        noise_set(accuracy=()).write(tmp_path / "unmeasured")
        assert device.plan(device.open(tmp_path / "unmeasured")).expected is None

    def test_expected_accuracy_is_unknown_for_other_epochs(self, set_path: Path) -> None:
        source = device.open(set_path)
        room = source.file_bytes(4)
        assert device.plan(source, bytes=room, epochs=100).expected is not None
        assert device.plan(source, bytes=room, epochs=99).expected is None

    @pytest.mark.parametrize(
        ("n", "mean", "epochs"),
        [(1, 40.0, 100), (2, 90.0, 1000), (3, 92.0, 1000), (4, 94.0, 1000)],
    )
    def test_plan_uses_the_longest_training_that_covers_the_size(
        self, tmp_path: Path, n: int, mean: float, epochs: int
    ) -> None:
        longest = [point(size, score, protocol="paper, 1000 epochs") for size, score in ((2, 90.0), (4, 94.0))]
        noise_set(accuracy=(*noise_set().accuracy, *longest)).write(tmp_path / "set")
        source = device.open(tmp_path / "set")
        plan = device.plan(source, bytes=source.file_bytes(n))
        assert plan.expected is not None
        assert (plan.expected.mean, plan.epochs) == (mean, epochs)
        assert [other.protocol[:5] for other in plan.others] == (["quick"] if n > 1 else [])
        part = device.open(tmp_path / "set")[:n]
        part.write(tmp_path / "part")
        if n != 3:  # which the part does not know from a larger size
            assert device.plan(device.open(tmp_path / "part")).expected == plan.expected

    def test_of_equally_long_trainings_the_one_with_the_most_sizes_counts(self, set_path: Path, tmp_path: Path) -> None:
        other = replace(point(4, 2.0), network="resnet")
        noise_set(accuracy=(other, *noise_set().accuracy)).write(tmp_path / "set")
        source = device.open(tmp_path / "set")
        plan = device.plan(source, bytes=source.file_bytes(4))
        assert plan.expected is not None
        assert plan.expected.mean == 60.0
        assert [other.network for other in plan.others] == ["resnet"]

    def test_protocol_and_epochs_choose_a_curve(self, tmp_path: Path) -> None:
        longest = point(4, 90.0, protocol="paper, 1000 epochs")
        noise_set(accuracy=(longest, *noise_set().accuracy)).write(tmp_path / "set")
        source = device.open(tmp_path / "set")
        room = source.file_bytes(4)
        for given, mean, epochs in (({}, 90.0, 1000), ({"protocol": "quick"}, 60.0, 100), ({"epochs": 100}, 60.0, 100)):
            plan = device.plan(source, bytes=room, **given)
            assert plan.expected is not None
            assert (plan.expected.mean, plan.epochs, len(plan.others)) == (mean, epochs, 1)
        assert device.plan(source, bytes=room, protocol="paper", epochs=100).expected is None
        assert device.plan(source, protocol="quick").epochs == 50, "also of a size that was not measured"

    def test_unknown_protocol_is_refused(self, set_path: Path, tmp_path: Path) -> None:
        with pytest.raises(
            SettingError, match=r"^`protocol` is 'quik', but .* has no .* of it\. Did you mean quick\? "
        ):
            device.plan(device.open(set_path), protocol="quik")
        noise_set(accuracy=()).write(tmp_path / "set")
        with pytest.raises(SettingError, match=r"^`protocol` is 'quick', but .* has no accuracies\. Leave it out\."):
            device.plan(device.open(tmp_path / "set"), protocol="quick")

    def test_error_names_every_limit_that_size_1_exceeds(self, set_path: Path) -> None:
        source = device.open(set_path)
        with pytest.raises(
            BudgetError,
            match=r"^Not even one image per class fits: its file needs [\d.]+ kB, and the limit is 100 B\. Raise the",
        ):
            device.plan(source, bytes=100)
        with pytest.raises(BudgetError, match=r"training needs [\d.]+ kB of memory, and the limit is 1\.0 kB"):
            device.plan(source, memory=1000)
        with pytest.raises(BudgetError, match=r"training takes 160 s, and the limit is 159 s"):
            device.plan(source, seconds=159, throughput=10)
        with pytest.raises(BudgetError, match=r"training takes 160 s, and the limit is 159\.99 s\. "):
            device.plan(source, seconds=159.99, throughput=10)
        with pytest.raises(BudgetError, match=r"its file needs 1,\d{3} B, and the limit is 1,\d{3} B\."):
            device.plan(source, bytes=source.file_bytes(1) - 1)
        with pytest.raises(
            BudgetError, match=r"file needs .*; training needs .* of memory, .*; training takes .* s, and"
        ):
            device.plan(source, bytes=1, memory=1, seconds=1, throughput=1)

    @pytest.mark.parametrize("name", ["bytes", "memory", "seconds", "throughput", "epochs", "batch"])
    def test_limits_that_are_not_valid_are_refused(self, set_path: Path, name: str) -> None:
        source = device.open(set_path)
        for value in (0, -1, float("nan"), float("inf"), 10**400, 10**5000, 1e-320, True, "3", [1]):
            with pytest.raises(SettingError, match=f"^`{name}` is .*: it must be ") as caught:
                device.plan(source, **{name: value})  # type: ignore[arg-type]
            assert len(str(caught.value)) < 200

    @pytest.mark.parametrize("name", ["epochs", "batch"])
    def test_fractional_epochs_and_batch_are_refused(self, set_path: Path, name: str) -> None:
        with pytest.raises(SettingError, match=rf"^`{name}` is 2\.5: it must be a whole number"):
            device.plan(device.open(set_path), **{name: 2.5})  # type: ignore[arg-type]

    def test_limits_may_be_numpy_numbers(self, set_path: Path) -> None:
        assert device.plan(device.open(set_path), bytes=np.float32(1e5), batch=np.int64(3)).size == 6  # type: ignore[arg-type]

    def test_longest_planned_time_is_finite(self, set_path: Path) -> None:
        assert device.plan(device.open(set_path), throughput=1e-30, epochs=10**9).seconds == 9.6e40

    def test_error_names_the_missing_argument(self, set_path: Path, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match=r"^`seconds` needs `throughput`.*device\.probe\(\) measures it"):
            device.plan(device.open(set_path), seconds=10)
        for points in ((), (point(1, 1.0, protocol="by heart"),), (point(1, 1.0, protocol="0 epochs"),)):
            noise_set(accuracy=points).write(tmp_path / "set")
            with pytest.raises(SettingError, match=r"does not tell for how many epochs to train\. Give `epochs`\."):
                device.plan(device.open(tmp_path / "set"), seconds=10, throughput=10)
            assert device.plan(device.open(tmp_path / "set"), seconds=10, throughput=10, epochs=1).size == 6

    def test_plan_reads_only_the_header(self, server: web.Server) -> None:
        device.plan(device.open(server.url), bytes=10**6, memory=10**6, seconds=10**6, throughput=1)
        assert server.sent == header_length(server.content)


def timed(point: Accuracy, epochs: int | None = 20, least_steps: int | None = 50, batch: int | None = 8) -> Accuracy:
    """The same point with the fields that newer files have."""
    return replace(point, epochs=epochs, least_steps=least_steps, batch=batch)


class TestTrainingTime:
    """Epochs of plans: 16 training images in each rank."""

    def plan(self, tmp_path: Path, *points: Accuracy) -> device.Plan:
        noise_set(accuracy=points).write(tmp_path / "set")
        return device.plan(device.open(tmp_path / "set"))

    def test_plan_uses_the_fields_of_the_points_and_not_the_text(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, timed(point(1, 40.0)), timed(point(6, 60.0)))
        assert plan.epochs == 20  # 96 images in batches of 8 have 12 steps in an epoch, which is enough
        assert plan.expected is not None
        source = device.open(tmp_path / "set")
        assert device.plan(source, bytes=source.file_bytes(1)).epochs == 25  # 2 steps in an epoch, 50 steps at least

    def test_plan_equals_the_evaluation_with_the_same_protocol(self, tmp_path: Path) -> None:
        for rule in protocol.PROTOCOLS.values():
            points = (timed(point(1, 40.0, protocol="anything"), rule.epochs, rule.least_steps, rule.batch),)
            assert self.plan(tmp_path, *points).epochs == rule.epochs_for(96, 1)

    def test_evaluation_writes_the_training_time_into_every_point(self, tmp_path: Path, toy: Dataset) -> None:
        whole = Artifact(toy.train.images[:6].reshape(2, 3, *toy.shape), 1, toy.mean, toy.std, toy.class_names)
        rule = protocol.protocol("quick", epochs=3, least_steps=30, batch=2)
        points = Evaluation(whole, toy, rule, Architecture("convnet", 4, 2)).curve(
            [Score(1, 0, 40.0), Score(2, 0, 50.0)]
        )
        assert [(p.epochs, p.least_steps, p.batch) for p in points] == [(3, 30, 2)] * 2
        whole.with_accuracy(points).write(tmp_path / "set")
        assert device.plan(device.open(tmp_path / "set")).epochs == rule.epochs_for(6, 1) == 10

    def test_text_of_an_old_file_gives_the_epochs(self, tmp_path: Path) -> None:
        assert self.plan(tmp_path, point(6, 60.0, protocol="paper, 1000 epochs")).epochs == 1000
        assert self.plan(tmp_path, point(6, 60.0)).epochs == 50

    def test_old_and_new_points_of_one_curve_belong_together(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, point(1, 40.0), timed(point(6, 60.0)))
        assert plan.epochs == 20
        assert plan.expected is not None

    @pytest.mark.parametrize("lacking", ["epochs", "least_steps", "batch"])
    def test_incomplete_fields_are_not_used(self, tmp_path: Path, lacking: str) -> None:
        incomplete = timed(point(6, 60.0, protocol="by heart"), **{lacking: None})
        assert self.plan(tmp_path, incomplete).epochs is None

    @pytest.mark.parametrize(
        ("fields", "epochs"),
        [
            ({"epochs": 10**9, "least_steps": 10**9, "batch": 1}, 10**9),
            ({"epochs": 1, "least_steps": 0, "batch": 10**9}, 1),
            ({"epochs": 1, "least_steps": 10**9, "batch": 10**9}, 10**9),
        ],
        ids=["all large", "no steps", "one large batch"],
    )
    def test_extreme_fields_give_finite_epochs(self, tmp_path: Path, fields: dict[str, int], epochs: int) -> None:
        assert self.plan(tmp_path, timed(point(6, 60.0), **fields)).epochs == epochs


class TestProbe:
    def test_probe_counts_images_per_second(self, set_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [0.0]
        shapes = []

        def step(images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> None:
            shapes.append((images.shape, labels.shape))
            clock[0] += 10.0 if len(shapes) == 1 else 0.5  # setting up takes long

        monkeypatch.setattr("mipset.device.planning.time.perf_counter", lambda: clock[0])
        source = device.open(set_path)
        assert device.probe(step, source, batch=20) == 40.0
        assert shapes == [((20, 3, 8, 7), (20,))] * 5  # more images than one per class has, and two seconds of them
        assert source.ranks_in_memory == 1

    def test_probe_of_one_long_step(self, set_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [0.0]

        def step(*_: object) -> None:
            clock[0] += 60.0

        monkeypatch.setattr("mipset.device.planning.time.perf_counter", lambda: clock[0])
        assert device.probe(step, device.open(set_path), batch=30) == 0.5

    def test_probe_of_empty_batches_is_refused(self, set_path: Path) -> None:
        with pytest.raises(SettingError, match=r"^`batch` is 0: it must be from 1 to "):
            device.probe(print, device.open(set_path), batch=0)

    def test_probe_ends(self, set_path: Path) -> None:
        assert device.probe(lambda *_: None, device.open(set_path), batch=4, seconds=0.05) > 0
