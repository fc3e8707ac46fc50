"""Finding observers by name: those of this folder, and those of other packages through the group `bpuc.observers`.

The value of an entry point is a package; every public subclass of Observer with a `name` in its modules counts. That is
also how the built-in ones come in, so a new file in this folder needs no edit anywhere.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import get_type_hints

from bpuc.base.errors import ConfigError, did_you_mean
from bpuc.observe.base import Observer


def observer_names() -> list[str]:
    """Names of all observers, sorted."""
    return sorted(_observers())


def make_observer(name: str, options: Mapping[str, str | float] | None = None) -> Observer:
    """A fresh observer.

    Args:
        name: as `observer_names` lists it.
        options: option -> value; text is converted to the option's type.

    Raises:
        ConfigError: no such observer, no such option, or a value that the option cannot have.
    """
    observers = _observers()
    if name not in observers:
        known = sorted(observers)
        raise ConfigError(
            f"there is no observer {name!r}", want=f"one of {', '.join(known)}", hint=did_you_mean(name, known)
        )
    cls = observers[name]
    types = get_type_hints(cls.Options)
    known = [f.name for f in fields(cls.Options)]
    values: dict[str, int | float] = {}
    for key, value in (options or {}).items():
        if key not in known:
            want = f"one of {', '.join(known)}" if known else f"no options: {name} has none"
            raise ConfigError(f"observer {name} has no option {key!r}", want=want, hint=did_you_mean(key, known))
        values[key] = _number(key, value, whole=types[key] is int)
    return cls(cls.Options(**values))


def _number(key: str, value: str | float, *, whole: bool) -> int | float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"observer option {key} is {value!r}", want="a number") from None
    if not whole:
        return number
    if not number.is_integer():
        raise ConfigError(f"observer option {key} is {value}", want="a whole number")
    return int(number)


@cache
def _observers() -> dict[str, type[Observer]]:
    packages = {"bpuc.observe": importlib.import_module("bpuc.observe")}
    for entry in entry_points(group="bpuc.observers"):
        packages.setdefault(entry.value, entry.load())
    found: dict[str, type[Observer]] = {}
    for package in packages.values():
        for cls in _classes(package):
            other = found.setdefault(cls.name, cls)
            if other is not cls:
                raise ConfigError(f"observer {cls.name!r} comes from {other.__module__} and from {cls.__module__}")
    return found


def _classes(package: ModuleType) -> list[type[Observer]]:
    names = [f"{package.__name__}.{m.name}" for m in pkgutil.iter_modules(getattr(package, "__path__", []))]
    modules = [package, *(importlib.import_module(n) for n in names)]
    return [
        cls
        for module in modules
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Observer) and cls.__module__ == module.__name__ and "name" in vars(cls)
    ]
