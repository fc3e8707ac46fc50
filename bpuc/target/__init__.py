"""Targets as data: what a march is, which operators it takes and what its hardware numbers are. Knows no graph."""
