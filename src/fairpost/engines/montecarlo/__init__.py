"""Simulation of lists and of hierarchies. May touch noise, rules and problems; not hierarchies, which bring jobs of their own.

`simulation` has the loop over blocks of runs, `executors` who computes them, `checkpoint` the file to go on from; `engine` is the
job of a list, with its blocks (`backends`), their sums (`totals`), a pilot, estimates and intervals.
"""
