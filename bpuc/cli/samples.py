"""Progress over calibration samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bpuc.cli import ui


def with_progress(label: str) -> Callable[[Iterable[Any], int], Iterable[Any]]:
    """What the flow functions take as `progress`: a bar on a terminal, nothing elsewhere."""

    def wrap(items: Iterable[Any], length: int) -> Iterator[Any]:
        with ui.progress(items, label, length) as bar:
            yield from bar

    return wrap
