"""`plan` and `fetch`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import web
from commands import GOLDEN, WITHOUT_TORCH, Here, done, names, run
from mipset import Accuracy, cli, read
from mipset.units import byte_count


class TestDevice:
    """From a path and from a server."""

    @pytest.fixture
    def published(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[web.Server]:
        """A file of three ranks on a server, of which two sizes were measured."""
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr("mipset.io.http.PAUSE", 0.0)
        monkeypatch.chdir(tmp_path)
        with web.serving(GOLDEN.read_bytes()) as server:
            yield server

    def test_fetch_and_plan_need_no_torch(self, tmp_path: Path, published: web.Server) -> None:
        for verb in (
            ["fetch", published.url, "--out", "part", "--ipc", "2"],
            ["plan", published.url, "--bytes", "1MB"],
        ):
            process = run(*verb, code=WITHOUT_TORCH, cwd=tmp_path)
            done(process)
            assert process.stderr == ""
        assert (tmp_path / "part").read_bytes() == read(GOLDEN).prefix(2).to_bytes()

    def test_fetch_transfers_only_what_it_writes(self, tmp_path: Path, published: web.Server, here: Here) -> None:
        whole = read(GOLDEN)
        header = len(published.content) - whole.images.nbytes
        two = len(whole.prefix(2).to_bytes())
        for given, n in (([], 3), (["--ipc", 1], 1), (["--bytes", two], 2), (["--bytes", "1MB"], 3)):
            published.sent = 0
            printed = here("fetch", published.url, "--out", "part", "--force", *given)
            first, second = printed.splitlines()
            assert first == f"part: {n} of 3 images per class, {byte_count((tmp_path / 'part').stat().st_size)}"
            assert second.startswith(f"moved {byte_count(published.sent)} of a file of ")
            assert (tmp_path / "part").read_bytes() == whole.prefix(n).to_bytes()
            assert published.sent == header + n * 2 * 4 * 5
        timed = ("--seconds", 16, "--throughput", 1, "--epochs", 1)  # 8 images in each rank
        assert here("fetch", GOLDEN, "--out", "timed", *timed).startswith("timed: 2 of 3 images per class, ")
        assert names(tmp_path) == {"part", "timed"}

    def test_plan_prints_size_bytes_memory_training_and_accuracy(self, published: web.Server, here: Here) -> None:
        for where in (GOLDEN, published.url):
            printed = here("plan", where, "--memory", "1MB", "--batch", 16)
            assert [line.split()[0] for line in printed.splitlines()] == [
                *("size", "file", "memory", "training", "accuracy")
            ]
            assert "size      3 of 3 images per class\n" in printed
            assert f"file      {byte_count(GOLDEN.stat().st_size)}\n" in printed
            assert " kB with batches of 16, without the network\n" in printed
            assert "training  unknown: the file does not say for how many epochs\n" in printed
            assert "accuracy  62.0 ± 1.2 % (convnet-3, width 4; protocol quick)\n" in printed
        two = len(read(GOLDEN).prefix(2).to_bytes())
        printed = here("plan", GOLDEN, "--bytes", two, "--epochs", 10, "--throughput", 2)
        assert "size      2 of 3 images per class\n" in printed
        assert "training  10 epochs of 16 images, 1:20 at 2 images/s\n" in printed
        assert "accuracy  51.8 ± 1.2 % (convnet-3, width 4; protocol quick, from the sizes next to it)\n" in printed

    def test_plan_says_that_there_are_other_accuracies(self, here: Here, refusal: Here, tmp_path: Path) -> None:
        quick = read(GOLDEN).accuracy[-1]
        longest = [replace(quick, mean=90.0, protocol="paper, 1000 epochs", seed=seed) for seed in range(5)]
        replace(read(GOLDEN), accuracy=(quick, *longest)).write(tmp_path / "set")
        printed = here("plan", tmp_path / "set")
        assert "accuracy  90.0 ± 1.2 % (convnet-3, width 4; protocol paper, 1000 epochs)\nothers    90.0 " in printed
        assert printed.endswith("; 2 more: choose with --protocol\n")
        assert "accuracy  62.0 ± 1.2 % " in here("plan", tmp_path / "set", "--protocol", "quick")
        assert "--protocol is 'x', but" in refusal("plan", tmp_path / "set", "--protocol", "x")

    def test_plan_of_a_file_without_accuracies(self, condensed: Path, here: Here) -> None:
        assert "accuracy  unknown: not measured at this size\n" in here("plan", condensed)
        printed = here("plan", condensed, "--epochs", 5)
        assert "accuracy  unknown: not measured at this size after 5 epochs\n" in printed

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (
                ["--bytes", "100"],
                "Not even one image per class fits: its file needs 992 B, and the limit is 100 B. Raise the limit.",
            ),
            (["--bytes", "many"], "--bytes: 'many' is not a number of bytes such as 512, 30kB or 3MB"),
            (["--bytes", "0"], "--bytes is 0: it must be a number from 1e-30 to 1e+30"),
            (["--memory", "1kB"], "of memory, and the limit is 1.0 kB"),
            (["--seconds", "1"], "--seconds needs --throughput"),
            (["--seconds", "1", "--throughput", "1"], "does not tell for how many epochs to train. Give --epochs."),
            (["--seconds", "nan", "--throughput", "1"], "--seconds is nan: it must be a number"),
            (["--seconds", "1", "--throughput", "1", "--epochs", "1"], "training takes 8 s, and the limit is 1 s"),
            (["--epochs", "0"], "--epochs is 0: it must be at least 1"),
            (["--batch", "-1"], "--batch is -1: it must be at least 1"),
            (["--batch", "1" + "0" * 400], "--batch is too large: it must be from 1 to 1e+09"),
            (["--epochs", "1" + "0" * 400, "--throughput", "1"], "--epochs is too large: it must be from 1 to 1e+09"),
            (
                ["--throughput", "1e-320", "--epochs", "1"],
                "--throughput is 1e-320: it must be a number from 1e-30 to 1e+30",
            ),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_impossible_limits_are_refused(
        self, refusal: Here, published: web.Server, given: list[str], reason: str
    ) -> None:
        for verb in (["plan"], ["fetch", "--out", "new"]):
            assert reason in refusal(verb[0], published.url, *verb[1:], *given)

    def test_fetch_refuses_impossible_commands_and_broken_servers(
        self, refusal: Here, tmp_path: Path, published: web.Server
    ) -> None:
        fetch = ["fetch", published.url, "--out", tmp_path / "new"]
        for size in (0, 4):
            assert f"There is no subset of size {size}. Choose a size from 1 to 3." in refusal(*fetch, "--ipc", size)
        assert "--ipc and --bytes both limit how much to fetch" in refusal(*fetch, "--ipc", 1, "--bytes", 1)
        assert "--batch is -3: it must be at least 1" in refusal(*fetch, "--ipc", 1, "--batch", -3)
        (tmp_path / "old").write_bytes(b"precious")
        assert "old exists already" in refusal("fetch", published.url, "--out", tmp_path / "old")
        published.content = published.content[:-1] + b"?"
        assert "image 3 of each class was altered" in refusal(*fetch)
        published.always = lambda handler: handler.start > 100 and web.hanging_up(handler)  # once it has the header
        assert "4 times in a row" in refusal(*fetch)
        published.always = web.with_status(404)
        assert "cannot be read: the server answered 404 Not Found. Check the address." in refusal(*fetch)
        assert "There is no file nothing" in refusal("plan", "nothing")
        assert "begins with http or https" in refusal("plan", "ftp://example.org/x")

    def test_fetch_never_overwrites_its_source(self, refusal: Here, condensed: Path) -> None:
        message = refusal("fetch", condensed, "--ipc", 1, "--out", condensed, "--force")
        assert "would overwrite the file itself. Choose another name" in message

    def test_interrupted_fetch_continues_from_its_cache(
        self, refusal: Here, here: Here, tmp_path: Path, published: web.Server, capfd: pytest.CaptureFixture[str]
    ) -> None:
        fetch = ["fetch", published.url, "--out", "part"]
        header = len(published.content) - 3 * 40
        breaks: list[web.Fault] = [lambda _: False, lambda _: False, web.closing_after(90), *[web.hanging_up] * 3]
        published.faults = list(breaks)
        assert "4 times in a row. Try again later." in refusal(*fetch)
        published.faults = list(breaks)
        (tmp_path / "ranks").mkdir()
        with pytest.raises(SystemExit):
            cli.main([*fetch, "--cache", "ranks"])
        assert f"Try again later. The images that arrived are kept in {tmp_path / 'ranks'}.\n" in capfd.readouterr().err
        assert len(names(tmp_path / "ranks")) == 2
        published.faults.clear()
        published.sent = 0
        here(*fetch, "--cache", "ranks")
        assert published.sent == header + 40

    def test_plan_prints_no_control_characters(self, here: Here, tmp_path: Path) -> None:
        odd = Accuracy(3, 50.0, 0.0, 1, "convnet\x1b[2J", "quick\nsize      999 of 999", 0, "")
        replace(read(GOLDEN), accuracy=(odd,)).write(tmp_path / "set")
        printed = here("plan", tmp_path / "set")
        assert printed.endswith("accuracy  50.0 % (one network; convnet?[2J; protocol quick?size      999 of 999)\n")

    def test_slow_download_shows_a_bar(
        self, published: web.Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("mipset.display.progress.SILENT_SECONDS", 0.0)
        monkeypatch.setattr("mipset.display.progress.LOG_SECONDS", 0.0)
        published.always = web.at_most(100)
        with pytest.raises(SystemExit):
            cli.main(["fetch", published.url, "--out", "part"])
        lines = capfd.readouterr().err.splitlines()
        assert lines[0].split()[1] == "reading"
        assert "100%" in lines[-1]
