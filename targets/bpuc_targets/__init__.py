"""Targets of bpuc: one folder a family, facts in target.toml."""
