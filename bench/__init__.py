"""Benchmarks of the service on the machine at hand, against the numbers that it is meant to reach.

`python -m bench` runs them all; see `python -m bench --help`.
"""
