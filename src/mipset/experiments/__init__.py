"""Grids of methods and seeds."""
