"""The tables of bench/compare.py, one file per kind of work. These modules import nothing large, because the reported
peak memory of a child process is at least that of its parent.
"""
