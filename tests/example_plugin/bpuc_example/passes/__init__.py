"""Passes of the example; every module here is searched for `Pass` classes."""
