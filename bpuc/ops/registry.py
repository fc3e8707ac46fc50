"""All kinds of op, found by listing the modules of this package: each names its definitions in `DEFS`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import bpuc.ops
from bpuc.ops.base import OpDef


@cache
def all_defs() -> dict[str, OpDef]:
    """Every definition by kind.

    Raises:
        ValueError: two modules define one kind, or claim one ONNX op type.
    """
    found: dict[str, OpDef] = {}
    for module in sorted(info.name for info in iter_modules(bpuc.ops.__path__)):
        for definition in getattr(import_module(f"bpuc.ops.{module}"), "DEFS", ()):
            if definition.kind in found:
                raise ValueError(f"kind {definition.kind} is defined twice, again in bpuc.ops.{module}")
            found[definition.kind] = definition
    return found


@cache
def _by_onnx() -> dict[str, OpDef]:
    found: dict[str, OpDef] = {}
    for definition in all_defs().values():
        for op_type in definition.onnx:
            if op_type in found:
                raise ValueError(f"{op_type} is imported by {found[op_type].kind} and by {definition.kind}")
            found[op_type] = definition
    return found


def get(kind: str) -> OpDef:
    """The definition of a kind.

    Raises:
        KeyError: there is no such kind.
    """
    return all_defs()[kind]


def by_onnx(op_type: str) -> OpDef | None:
    """The definition whose `parse` takes nodes of that ONNX op type."""
    return _by_onnx().get(op_type)
