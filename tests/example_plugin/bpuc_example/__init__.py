"""Example of a package that extends bpuc without changing it."""
