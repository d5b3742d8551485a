"""`python -m mipset` and the command `mipset` are the command line."""

import signal


def main() -> None:
    """Run one command. Ctrl-C while Python still starts, or already ends, shows no traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mipset.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
