"""YAML text to plain data, remembering the line of every key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[Any, ...]
MOST_NODES = 100_000  # after unfolding aliases; a real file has some hundreds


@dataclass(frozen=True)
class Mistake:
    """Something wrong at one place of the file; `key` is dotted, "" for the whole file."""

    line: int
    key: str
    message: str
    hint: str | None = None


class Lines:
    """The data of a YAML file, and where each key stands.

    Attributes:
        data: what the file says; None for an empty one.
        mistakes: syntax errors and keys written twice.
    """

    def __init__(self, text: str):
        self.data: Any = None
        self.mistakes: list[Mistake] = []
        self._lines: dict[Path, int] = {}
        self._walked = 0
        try:
            loader = yaml.SafeLoader(text)
            node = loader.get_single_node()
            if node is not None:
                self._walk(node, (), frozenset())
                self.data = loader.construct_document(node)
        except yaml.YAMLError as e:
            mark = getattr(e, "problem_mark", None)
            message = getattr(e, "problem", None) or getattr(e, "reason", None) or str(e)
            self.mistakes.append(Mistake(mark.line + 1 if mark else 1, "", f"this is no YAML: {message}"))
        except (ValueError, TypeError, AttributeError, RecursionError) as e:  # values that a tag or a type cannot have
            self.mistakes.append(Mistake(1, "", f"this is no YAML that can be read: {e}"))

    def of(self, path: Path) -> int:
        """Line of the key at this path, or of the nearest key around it; 1 when there is none."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _walk(self, node: yaml.Node, path: Path, inside: frozenset[int]) -> None:
        self._walked += 1
        if id(node) in inside or self._walked > MOST_NODES:
            raise yaml.MarkedYAMLError(
                problem="an alias holds itself, or aliases unfold without end", problem_mark=node.start_mark
            )
        if isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                if name in seen and name != "<<":
                    self.mistakes.append(
                        Mistake(line, dotted((*path, name)), f"it stands in line {seen[name]} already")
                    )
                seen[name] = line
                self._lines[(*path, name)] = line
                self._walk(value, (*path, name), inside | {id(node)})
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                self._lines[(*path, i)] = value.start_mark.line + 1
                self._walk(value, (*path, i), inside | {id(node)})


def dotted(path: Path) -> str:
    """The path as text: model_parameters.march."""
    return ".".join(map(str, path))
