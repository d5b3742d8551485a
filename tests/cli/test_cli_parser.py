"""Reading flags: sizes, numbers, and the names of settings in errors."""

from __future__ import annotations

import pytest

import mipset
from commands import Here
from mipset import cli, errors
from mipset.cli.parser import Parser, parse_sizes


class TestSizes:
    @pytest.mark.parametrize(
        ("text", "sizes"),
        [
            (None, [1, 2, 3, 4, 5]),
            ("1", [1]),
            ("1-3", [1, 2, 3]),
            ("5,1", [1, 5]),
            ("1-2,2-3,5", [1, 2, 3, 5]),
            ("3-3", [3]),
            (" 1 , 2 - 3 ", [1, 2, 3]),
        ],
    )
    def test_sizes_are_parsed(self, text: str | None, sizes: list[int]) -> None:
        assert parse_sizes(text, 5) == sizes

    @pytest.mark.parametrize("text", ["", ",", "1,", "a", "1-", "-3", "1-2-3", "1.5", "1;2", "all", "1\u20133"])
    def test_text_that_is_not_a_list_of_numbers_is_refused(self, text: str) -> None:
        with pytest.raises(errors.SettingError, match="Write numbers such as 1-10 or 1,2,5"):
            parse_sizes(text, 5)

    @pytest.mark.parametrize("text", ["0", "6", "1-6", "3-2", "0-2", "1,99999999999999999999"])
    def test_sizes_that_do_not_exist_are_refused(self, text: str) -> None:
        with pytest.raises(errors.SettingError, match="The sizes are 1 to 5"):
            parse_sizes(text, 5)


class TestNamesInErrors:
    """Python writes `pixel_lr`; the command line writes --pixel-lr."""

    def test_python_and_command_line_name_a_setting_differently(self, refusal: Here) -> None:
        with pytest.raises(errors.SettingError, match="`pixel_lr` is -1") as raised:
            mipset.recipe("demo", pixel_lr=-1.0)
        message = refusal("condense", "fashion-mini", "--out", "x", "--pixel-lr", "-1")
        assert message == f"mipset: {raised.value}\n".replace("`pixel_lr`", "--pixel-lr")

    def test_typed_names_are_those_of_the_verb(self) -> None:
        arguments = cli.parser().parse_args(["evaluate", "x"])
        verb: Parser = arguments.parser
        names = verb.typed_names()
        assert names["files"] == "FILE"
        assert names["workers"] == "--workers"
        assert "pixel_lr" not in names

    def test_name_that_the_verb_does_not_have_stays_in_backticks(self, refusal: Here) -> None:
        """`compare` has no --policy: a method sets it."""
        error = errors.SettingError("`pixel_lr` needs `policy` mdc.")
        verb: Parser = cli.parser().parse_args(["compare", "demo"]).parser
        assert error.naming(verb.typed_names().get) == "--pixel-lr needs `policy` mdc."

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["condense", "x", "--ipc"], "Argument --ipc: expected one argument. See `mipset condense --help`."),
            (["condense"], "DATASET is missing. See `mipset condense --help`."),
            (["condense", "x", "--data", "y"], "DATASET is x, and --data is y. Leave one of them out."),
            (["slice", "x", "--out", "y"], "N is missing. See `mipset slice --help`."),
            (["condense", "x", "--shiny"], "Unrecognized arguments: --shiny. See `mipset condense --help`."),
            (["data", "fetch", "mnist", "y"], "Unrecognized arguments: y. See `mipset data fetch --help`."),
            (["evaluate", "x", "--networks", "0"], "--networks is 0: it must be at least 1. Choose a larger value."),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_every_error_is_one_line_with_a_capital_letter(
        self, refusal: Here, arguments: list[str], message: str
    ) -> None:
        assert refusal(*arguments) == f"mipset: {message}\n"

    @pytest.mark.parametrize(
        ("arguments", "meant"),
        [
            (["condens"], "condense"),
            (["condense", "fashion-mini", "--polcy", "mdc"], "--policy"),
            (["condense", "fashion-mini", "--pixel_lr=1"], "--pixel-lr"),
            (["condense", "fashion-mini", "--out", "x", "--policy", "mdcc"], "mdc"),
            (["condense", "fashion-mini", "--out", "x", "--policy", "Every-Prefix"], "every-prefix"),
            (["condense", "fashion-mini", "--out", "x", "--objective", "layerd"], "layered"),
            (["condense", "fashion-mini", "--out", "x", "--recipe", "demmo"], "demo"),
            (["condense", "fashion_mini", "--out", "x"], "fashion-mini"),
            (["compare", "demo", "--methods", "baselin-c"], "baseline-c"),
            (["evaluate", "x", "--protocol", "papper"], "paper"),
            (["data", "fetch", "cifar"], "cifar10"),
            (["data", "fech", "cifar10"], "fetch"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_misspelt_name_is_followed_by_what_was_meant(self, refusal: Here, arguments: list[str], meant: str) -> None:
        assert f" Did you mean {meant}? " in f"{refusal(*arguments)[:-1]} "

    @pytest.mark.parametrize(
        ("command", "flags"),
        [
            (["condense", "fashion-mini", "--out", "x"], "--width, --real-batch or --ipc"),
            (["evaluate", "x"], "--width or --workers"),
        ],
        ids=["condense", "evaluate"],
    )
    def test_out_of_memory_names_flags_of_the_verb(
        self, refusal: Here, monkeypatch: pytest.MonkeyPatch, command: list[str], flags: str
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise MemoryError

        monkeypatch.setattr("mipset.file.artifact.read", fail)
        monkeypatch.setattr("mipset.data.load", fail)
        assert refusal(*command) == f"mipset: There is not enough memory. Choose a smaller {flags}.\n"
