"""Observers of the example; every module here is searched for `Observer` classes with a name."""
