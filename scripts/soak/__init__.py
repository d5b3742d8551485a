"""Random faults over small runs of the command line: kills, signals, full disks, damaged files, hostile inputs.

children.py   commands as processes of their own, which can be killed at a chosen file operation
settings.py   the small runs: every policy, engine and kind of objective
trial.py      one fault: its folder, its random draws, and what it finds
faults.py     the faults
__main__.py   the loop, the table and the command line
"""
