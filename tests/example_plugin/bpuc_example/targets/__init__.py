"""Marches of the example: every folder here with a target.toml."""
