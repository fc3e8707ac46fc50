"""Finding passes, targets and observers: packages named by entry points, whose modules are then listed.

The value of an entry point in the groups ``bpuc.passes``, ``bpuc.targets`` and ``bpuc.observers`` is a package. Its
modules (for targets: its folders with a ``target.toml``) are found when asked for, so a new built-in needs no edit of
the project file.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from bpuc.base.errors import ConfigError, did_you_mean
from bpuc.passkit.base import Pass
from bpuc.support.check import validate
from bpuc.target.load import load_target_toml
from bpuc.target.model import Target

# A name that stands for one march of a family.
ALIASES = {"nash": "nash-e"}


def packages(group: str) -> list[ModuleType]:
    """The packages that claim an entry-point group, in order of entry-point and package name.

    Raises:
        ConfigError: a package cannot be imported.
    """
    found = {}
    for point in sorted(entry_points(group=group), key=lambda p: (p.name, p.value)):
        try:
            found[point.value] = importlib.import_module(point.value)
        except ImportError as e:
            raise ConfigError(
                f"plug-in {point.name!r} of group {group} cannot be imported: {e}", where=point.value
            ) from e
    return list(found.values())


def modules(group: str) -> list[ModuleType]:
    """Every public module of the packages of a group (names with a leading underscore are private), imported."""
    return [
        importlib.import_module(f"{package.__name__}.{info.name}")
        for package in packages(group)
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name)
        if not info.name.startswith("_")
    ]


@cache
def targets() -> dict[str, Target]:
    """All marches by name.

    Raises:
        ConfigError: none is installed, a description is wrong, or two packages claim one march.
    """
    found: dict[str, Target] = {}
    owner: dict[str, str] = {}
    for package in packages("bpuc.targets"):
        for folder in package.__path__:
            for file in sorted(Path(folder).glob("*/target.toml")):
                for target in load_target_toml(file):
                    if target.march in found:
                        raise ConfigError(
                            f"march {target.march!r} is described by two packages: {owner[target.march]} and "
                            f"{package.__name__}",
                            hint="uninstall one of them",
                        )
                    validate(target)
                    found[target.march], owner[target.march] = target, package.__name__
    if not found:
        raise ConfigError("no targets found; run `pip install -e .`")
    return found


def get_target(name: str) -> Target:
    """The target of a march; ``nash`` means ``nash-e``.

    Raises:
        ConfigError: no such march; the message names those that there are.
    """
    known = targets()
    march = ALIASES.get(name, name)
    if march not in known:
        raise ConfigError(
            f"unknown march {name!r}",
            want="one of " + ", ".join([*known, *ALIASES]),
            hint=did_you_mean(name, [*known, *ALIASES]),
        )
    return known[march]


def pipeline(phase: str) -> list[Pass]:
    """The passes of a phase ("optimize", "scaled", "place", "quantize"), from each package's `pipelines` in turn.

    Raises:
        ConfigError: no package has passes for this phase.
    """
    found: list[Pass] = []
    for package in sorted(packages("bpuc.passes"), key=lambda p: p.__name__ != "bpuc_passes"):
        if importlib.util.find_spec(f"{package.__name__}.pipelines") is not None:
            module = importlib.import_module(f"{package.__name__}.pipelines")
            found += getattr(module, phase, tuple)()
    if not found:
        raise ConfigError(f"no passes found for phase {phase!r}; run `pip install -e .`")
    return found


def passes() -> dict[str, type[Pass]]:
    """All pass classes by name.

    Raises:
        ConfigError: two passes claim one name.
    """
    found: dict[str, type[Pass]] = {}
    for module in modules("bpuc.passes"):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Pass) and value.__module__ == module.__name__:
                other = found.setdefault(value.name, value)
                if other is not value:
                    raise ConfigError(f"pass {value.name!r} comes from {other.__module__} and from {module.__name__}")
    return found
