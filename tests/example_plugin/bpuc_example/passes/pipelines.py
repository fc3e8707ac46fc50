"""Where the passes of this package run: behind the built-in ones of the phase."""

from __future__ import annotations

from collections.abc import Sequence

from bpuc_example.passes.cancel_transposes import CancelTransposes

from bpuc.passkit import Pass


def optimize() -> Sequence[Pass]:
    """Float rewrites."""
    return (CancelTransposes(),)
