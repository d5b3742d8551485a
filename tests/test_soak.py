"""The short form of `make soak`, and a proof that the soak notices what it looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import SOURCE

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture(autouse=True)
def _soak_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.setenv("PYTHONPATH", SOURCE)


def test_one_fault_of_every_kind_does_no_harm(tmp_path: Path) -> None:
    from soak.__main__ import soak, table
    from soak.faults import FAULTS, SMALL
    from soak.settings import Setting

    settings = [SMALL, Setting("mdc", "off", "layered+10*confidence/2")]
    tally = soak(tmp_path, seed=13, numbers=range(len(FAULTS)), seconds=float("inf"), settings=settings)
    assert not tally.reports, "\n\n".join(tally.reports)
    assert not tally.found
    assert tally.faults == {fault.name: 1 for fault in FAULTS}
    assert tally.finished.total() == 7, "every run that was disturbed was finished"
    assert "| faults: full disk " in table(tally)


class Scripted:
    """A nursery whose commands do what the test says."""

    patience = 1.0

    def __init__(self, code: int | None, err: str = "", written: bytes | None = None) -> None:
        self.code, self.err, self.written = code, err, written

    def run(self, words: list[object], work: Path, *_: object) -> object:
        from soak.children import Ended

        if self.written is not None:
            (work / "x").write_bytes(self.written)
        return Ended([str(word) for word in words], self.code, "", self.err)


@pytest.mark.parametrize(
    ("nursery", "what"),
    [
        (Scripted(0, written=b"good"), None),
        (Scripted(0, written=b"other"), "wrong artifacts"),
        (Scripted(1, "Traceback (most recent call last):\n", b"good"), "tracebacks"),
        (Scripted(None, written=b"good"), "hangs"),
        (Scripted(2, "Killed\n", b"good"), "errors without a sentence"),
        (Scripted(1, "mipset: It failed.\n", b"good"), "errors without a sentence"),
        (Scripted(2, "mipset: No.\n"), "runs that cannot be finished"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_must_never_happen_is_noticed(tmp_path: Path, nursery: Scripted, what: str | None) -> None:
    from soak.settings import SETTINGS
    from soak.trial import Lab, Reference, Trial

    lab = Lab(tmp_path, nursery, seed=5)  # type: ignore[arg-type]
    lab.references[SETTINGS[0]] = Reference(b"good", 1.0)
    trial = Trial(lab, 7, "a fault")
    trial.finish(SETTINGS[0])
    trial.close()
    assert dict(lab.tally.found) == ({} if what is None else {what: 1})
    assert trial.folder.exists() == (what is not None), "the files are kept, to repeat it"
    if what is not None:
        (report,) = lab.tally.reports
        assert "mipset condense fashion-mini --out x" in report
        assert report.endswith("repeat: python -m soak --seed 5 --only 7")


def test_ctrl_c_ends_the_soak_with_the_counts_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import soak.__main__ as module

    class Pressed(module.FAULTS[0].__class__):  # type: ignore[misc]
        def inject(self, trial: object) -> None:
            raise KeyboardInterrupt

    class Closing(Scripted):
        def __init__(self, *_: object) -> None:
            super().__init__(0)

        def close(self) -> None:
            pass

    harmless = type("Harmless", (), {"name": "nothing", "inject": lambda *_: None})()
    monkeypatch.setattr(module, "FAULTS", (harmless, harmless, Pressed("Ctrl-C", ())))
    monkeypatch.setattr(module, "Nursery", Closing)
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: str(tmp_path))
    monkeypatch.setattr("sys.argv", ["soak", "--duration", "1h"])
    assert module.main() == 130
    assert "| faults: nothing " in capsys.readouterr().out


def test_damage_always_changes_a_file(tmp_path: Path) -> None:
    from random import Random

    from soak.faults import damage

    for number in range(50):
        file = tmp_path / "file"
        file.write_bytes(bytes(range(1, 256)))
        damage(file, Random(number))
        assert file.read_bytes() != bytes(range(1, 256))
