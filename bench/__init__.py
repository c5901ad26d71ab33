"""Benchmarks of the service against its performance targets. Run `python -m bench --help`."""
