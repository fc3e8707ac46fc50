"""Progress over calibration samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from bpuc.cli import ui

Samples = Iterable[dict[str, np.ndarray]]


def with_progress(label: str) -> Callable[[Samples, int], Samples]:
    """What the flow functions take as `progress`: a bar on a terminal, nothing elsewhere."""

    def wrap(samples: Samples, length: int) -> Iterator[dict[str, np.ndarray]]:
        with ui.progress(samples, label, length) as bar:
            yield from bar

    return wrap
