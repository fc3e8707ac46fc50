"""A check of JSON against a description of it; `bpuc.program.parts` has those of the container.

A description is a `Rule` for a single value, None, a list (each item), a tuple (any of these), a `Fixed` (a list with
one description an item) or a dict. A key of a dict that ends in "?" may be missing, "*" stands for any key. Keys that
are not described are ignored, but for what no writer makes: infinite numbers, broken text, endless nesting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Spec = Any
_DEPTH = 32
_LARGEST = 1e100  # no sum or product of a few such numbers leaves float64, and no scale of float32 comes near


@dataclass(frozen=True)
class Rule:
    """One value: what it must be, in words, and the test."""

    want: str
    test: Callable[[Any], bool]


@dataclass(frozen=True)
class Fixed:
    """A list of so many items, each with its own description."""

    items: tuple[Spec, ...]


def is_int(v: object, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> bool:
    """An integer in a range, and no truth value."""
    return isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def is_number(v: object) -> bool:
    """A number that arithmetic in float64 bears, and no truth value."""
    return isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) <= _LARGEST


def read_json(raw: bytes, spec: Spec, part: str) -> Any:
    """The value of a JSON part; raises ValueError with part, place and fault where it does not fit its description."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{part} is no JSON document: {e}") from e
    _check(value, spec, part + ":", "")
    return value


def _check(value: Any, spec: Spec, part: str, at: str) -> None:
    if isinstance(spec, tuple):
        fitting = [s for s in spec if _kind_fits(value, s)]
        if len(fitting) != 1:
            _refuse(value, " or ".join(map(_want, spec)), part, at)
        spec = fitting[0]
    if isinstance(spec, Rule):
        if not spec.test(value):
            _refuse(value, spec.want, part, at)
        _sound(value, part, at)
    elif spec is None:
        if value is not None:
            _refuse(value, "null", part, at)
    elif isinstance(spec, dict):
        _check_keys(value, spec, part, at)
    elif not isinstance(value, list) or (isinstance(spec, Fixed) and len(value) != len(spec.items)):
        _refuse(value, _want(spec), part, at)
    else:
        items = spec.items if isinstance(spec, Fixed) else spec * len(value)
        for i, (item, want) in enumerate(zip(value, items)):
            _check(item, want, part, f"{at}[{i}]")


def _check_keys(value: Any, spec: Mapping[str, Spec], part: str, at: str) -> None:
    if not isinstance(value, dict):
        _refuse(value, "an object", part, at)
    for name, want in spec.items():
        key = name.removesuffix("?")
        if key in value:
            _check(value[key], want, part, f"{at}.{key}" if at else key)
        elif name == key != "*":
            raise ValueError(f"{part} {at or 'the document'} has no {key!r}")
    known = {name.removesuffix("?") for name in spec}
    for key in value.keys() - known:
        _sound(key, part, at)
        if "*" in spec:
            _check(value[key], spec["*"], part, f"{at}[{key[:40]!r}]")
        else:
            _sound(value[key], part, f"{at}.{key[:40]}".lstrip("."))


def _kind_fits(value: Any, spec: Spec) -> bool:
    """Which of several descriptions is meant: null, an object, or a rule that holds."""
    if isinstance(spec, Rule):
        return spec.test(value)
    if spec is None:
        return value is None
    return isinstance(value, dict if isinstance(spec, dict) else list)


def _sound(value: Any, part: str, at: str, depth: int = 0) -> None:
    """Refuse what no writer makes, wherever it stands."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            _refuse(value, "text in Unicode", part, at)
    elif isinstance(value, (int, float)) and not is_number(value):
        if not isinstance(value, bool):
            _refuse(value, "a finite number", part, at)
    elif isinstance(value, (dict, list)):
        if depth > _DEPTH:
            raise ValueError(f"{part} {at} is nested too deeply")
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            _sound(item, part, at, depth + 1)


def _want(spec: Spec) -> str:
    if isinstance(spec, Rule):
        return spec.want
    if spec is None:
        return "null"
    if isinstance(spec, Fixed):
        return f"a list of {len(spec.items)} items"
    return "an object" if isinstance(spec, dict) else "a list"


def _refuse(value: Any, want: str, part: str, at: str) -> None:
    shown = "a number too large" if isinstance(value, int) and abs(value) >= 1 << 64 else ascii(value)
    raise ValueError(f"{part} {at or 'the document'} is {shown[:60]}, not {want}")
