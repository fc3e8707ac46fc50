"""Slow measurements, run by `make bench`; not part of the tests."""
