"""Errors, dtypes, rounding and files: what every other part stands on."""
