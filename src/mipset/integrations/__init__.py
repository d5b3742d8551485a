"""Condensed sets inside the libraries of others: one module for each library, which only that module imports."""
