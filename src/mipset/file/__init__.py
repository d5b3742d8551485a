"""The file of a condensed set, in numpy: description, header, pixels, decoding. FORMAT.md is the specification."""
