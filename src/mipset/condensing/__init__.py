"""Condensing a dataset: Algorithm 1 and its parts."""
