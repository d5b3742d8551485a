"""`completion`: the script runs in a real shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from commands import Here
from mipset import cli
from mipset.settings.catalogue import RECIPES


def completed(script: str, line: str, cwd: Path) -> list[str]:
    """What bash offers when Tab is pressed at the end of a line."""
    words = line.split(" ")
    code = f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; _mipset\n"
    code += 'printf "%s\\n" "${COMPREPLY[@]}"'
    bash = subprocess.run(["bash", "-u", "-c", code], cwd=cwd, capture_output=True, text=True, check=True)
    assert bash.stderr == ""
    return bash.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_verbs_flags_and_names(here: Here, tmp_path: Path) -> None:
    script = here("completion", "bash")
    for line, offered in {
        "mipset ": [*cli.parser().verbs(), "--help", "--version"],
        "mipset ev": ["evaluate"],
        "mipset condense fashion-mi": ["fashion-mini"],
        "mipset condense cifar10 --split-": ["--split-seed"],
        "mipset condense cifar10 --policy mdc": ["mdc", "mdc-per-class"],
        "mipset condense cifar10 --recipe ": list(RECIPES),
        "mipset recipes cifar10-": [name for name in RECIPES if name.startswith("cifar10-")],
        "mipset evaluate a.safetensors --protocol q": ["quick"],
        "mipset export a.safetensors --to par": ["parquet"],
        "mipset condense cifar10 --out ": [],  # bash offers files where this offers nothing
        "mipset show ": [],
        "mipset nothing --": [],
    }.items():
        assert completed(script, line, tmp_path) == offered, line


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_the_script(shell: str, here: Here) -> None:
    script = here("completion", shell)
    assert "evaluate" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n", "-c", script], check=True)


def test_unknown_shell_is_refused(refusal: Here) -> None:
    assert "SHELL is 'bsh'. Did you mean bash? Choose bash, zsh or fish." in refusal("completion", "bsh")
