"""Files for other programs, and files that others published."""
