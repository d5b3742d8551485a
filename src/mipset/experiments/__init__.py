"""Comparisons of methods, which `mipset compare` runs.

grid        what is compared: methods, seeds, sizes
builders    how condensations become a set for each size
store       the folder of a comparison; results: its file of results
comparison  a grid with its folder: what is finished, and what is missing
workload    what the missing parts cost
run         runs the missing parts of a cell
scheduling  gives cells to this process or to workers
summary     means and spreads; report: tables and charts
"""
