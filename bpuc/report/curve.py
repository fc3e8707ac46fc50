"""Lines and bars as coordinates of an SVG: what the accuracy tools' pages draw without a script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bpuc.report.values import number

WIDTH, HEIGHT, LEFT, BOTTOM = 1200, 240, 62, 18


def curve(lines: Sequence[tuple[str, Sequence[Any]]], titles: Sequence[str], marked: Sequence[int] = ()) -> Any:
    """Lines over equal steps, each value a point with a title; None breaks a line. None without a value.

    Args:
        lines: (class, values). titles: of the points, one a step. marked: steps of the first line to stand out.
    """
    known = [v for _, values in lines for v in map(number, values) if v is not None]
    if not known:
        return None
    ticks = _ticks(min(known), max(known))
    low, high = min(ticks[0], min(known)), max(ticks[-1], max(known))
    count = max(len(titles) - 1, 1)

    def x(i: int) -> float:
        return LEFT + (WIDTH - LEFT - 10) * (i / count if len(titles) > 1 else 0.5)

    def y(v: float) -> float:
        return 8 + (HEIGHT - BOTTOM - 8) * (high - v) / (high - low)

    drawn = []
    for css, values in lines:
        points = [(i, v) for i, v in enumerate(map(number, values))]
        path, down = [], False
        for i, v in points:
            if v is not None:
                path.append(f"{'L' if down else 'M'}{x(i):.1f} {y(v):.1f}")
            down = v is not None
        drawn.append(
            {
                "css": css,
                "path": "".join(path),
                "points": [
                    {"x": f"{x(i):.1f}", "y": f"{y(v):.1f}", "title": f"{titles[i]}: {v:.4g}", "marked": i in marked}
                    for i, v in points
                    if v is not None
                ],
            }
        )
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "lines": drawn,
        "ticks": [{"y": f"{y(t):.1f}", "text": f"{t:g}"} for t in ticks],
    }


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from at or below `low` to at or above `high`, about five."""
    spread = high - low or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(spread / 4))
    step *= next(f for f in (1, 2, 5, 10) if spread / (step * f) <= 5)
    first, last = math.floor(low / step), math.ceil(high / step)
    last = last if last > first else first + 1
    return [float(f"{k * step:.10g}") for k in range(first, last + 1)]


def bars(edges: Sequence[float], counts: Sequence[int], width: int = 144, height: int = 30) -> dict[str, Any]:
    """A small histogram: heights are logarithms of counts; where 0 lies in the range, its place."""
    most = math.log1p(max(counts, default=0)) or 1.0
    step = width / max(len(counts), 1)
    shown = []
    for i, c in enumerate(counts):
        if c:
            h = max(1.0, height * math.log1p(c) / most)
            shown.append(f"M{i * step:.1f} {height}v{-h:.1f}h{max(step - 0.4, 0.6):.1f}v{h:.1f}z")
    low, high = edges[0], edges[-1]
    zero = f"{width * -low / (high - low):.1f}" if low < 0 < high else None
    return {"width": width, "height": height, "path": "".join(shown), "zero": zero}
