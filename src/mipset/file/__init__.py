"""The file: see FORMAT.md."""
