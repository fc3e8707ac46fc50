"""Kinds of op: one file each, listed by the registry."""
