"""Mistakes and notes of one configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bpuc.base.errors import ConfigError
from bpuc.config.lines import Lines, Mistake, dotted


class Report:
    """Collects what is wrong and what has no effect, with the lines."""

    def __init__(self, path: Path, lines: Lines):
        self.path, self._lines = path, lines
        self.mistakes: list[Mistake] = list(lines.mistakes)
        self._notes: list[tuple[int, str]] = []

    def mistake(self, key: tuple[Any, ...], message: str, hint: str | None = None) -> None:
        """Remember a mistake at a key."""
        self.mistakes.append(Mistake(self._lines.of(key), dotted(key), message, hint))

    def faulty(self, *key: str) -> bool:
        """Whether there is a mistake at this key or below it, so that nothing further need be said of it."""
        return any(m.key == dotted(key) or m.key.startswith(f"{dotted(key)}.") for m in self.mistakes)

    def note(self, key: tuple[Any, ...], message: str) -> None:
        """Remember a note on a key."""
        line = self._lines.of(key)
        self._notes.append((line, f"{self.path}:{line}: {dotted(key)}: {message}"))

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes in the order of their lines."""
        return tuple(text for _, text in sorted(self._notes))

    def raise_mistakes(self) -> None:
        """Tell all mistakes in one error.

        Raises:
            ConfigError: there is at least one.
        """
        mistakes = sorted(self.mistakes, key=lambda m: m.line)
        if len(mistakes) == 1:
            m = mistakes[0]
            raise ConfigError(_line(m), where=f"{self.path}:{m.line}", hint=m.hint)
        if mistakes:
            rows = [f"  {self.path}:{m.line}: {_line(m)}{'; ' + m.hint if m.hint else ''}" for m in mistakes]
            raise ConfigError("\n".join([f"{len(mistakes)} mistakes in {self.path}", *rows]))


def _line(m: Mistake) -> str:
    return f"{m.key}: {m.message}" if m.key else m.message
