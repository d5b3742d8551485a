"""Run commands of mipset as on a system without what only Linux, or only Unix, has.

    python tests/other_systems.py win32 condense fashion-mini --out x + show x

The libraries that mipset uses are imported first, since they would look for their own parts for that system.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import groupby

import matplotlib.pyplot  # noqa: F401
import numpy  # noqa: F401
import torch
import torch.distributed  # noqa: F401

UNIX_MODULES = ("fcntl", "resource", "grp", "pwd", "termios")
UNIX_NAMES = (
    *("pread", "pwrite", "getuid", "geteuid", "sysconf", "sysconf_names", "fork", "killpg", "getpgid", "setsid"),
    *("O_NOFOLLOW", "O_DIRECTORY", "fchmod", "chown", "mkfifo", "sched_getaffinity", "posix_fallocate"),
)
SIGNALS = ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGCHLD", "pthread_sigmask", "sigwait")
LINUX_NAMES = ("sched_getaffinity",)


def take_away(platform: str) -> None:
    """Let this process look like one on `platform`: `win32` or `darwin`."""
    if platform == "win32":
        for module in UNIX_MODULES:
            sys.modules[module] = None  # type: ignore[assignment]
        for name in SIGNALS:
            vars(signal).pop(name, None)
    for name in UNIX_NAMES if platform == "win32" else LINUX_NAMES:
        vars(os).pop(name, None)
    sys.platform = platform


if __name__ == "__main__":
    take_away(sys.argv[1])
    from mipset.cli import main

    for _, words in groupby(sys.argv[2:], key=lambda word: word == "+"):
        command = list(words)
        if command != ["+"]:
            try:
                main(command)
            except SystemExit as ended:
                if ended.code:
                    raise
