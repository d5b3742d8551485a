"""`python -m mipset` is the command line."""

from mipset.cli import main

if __name__ == "__main__":
    main()
