"""Benchmarks: run all with `make bench`, one with `python -m benchmarks NAME`."""
