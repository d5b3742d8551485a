"""Exports for other programs, and the import of condensed sets that others published."""
