"""The documents of the accuracy tools turned into what their pages show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from bpuc.report import values as v
from bpuc.report.curve import bars, curve

MOST_ROWS = 2000  # of a table of a page
Document = Mapping[str, Any]


def tool_context(tool: str, document: Document, title: str) -> dict[str, Any]:
    """All that the template of a tool's page reads."""
    return {
        "title": v.clean(title),
        "samples": document.get("samples"),
        "march": v.clean(document.get("march")),
        "v": v,
        "g": short,
        "notes": v.strings(document.get("warnings")),
        "most": MOST_ROWS,
        **_MAKERS[tool](document),
    }


def short(value: Any) -> str:
    """Four digits of any number, ``0.9987`` or ``1.2e-05``; "-" for nothing."""
    n = v.number(value)
    return v.NONE if n is None else f"{n:.4g}"


def _compare(document: Document) -> dict[str, Any]:
    rows = v.records(document, "tensors")
    names = [v.clean(r.get("tensor")) for r in rows]
    lines = [
        ("own", [r.get("own_sqnr") if r.get("dtype") != "int32" else None for r in rows]),
        ("main", [r.get("sqnr") for r in rows]),
    ]
    return {
        "rows": rows,
        "curve": curve(lines, names),
        "hints": v.records(document, "hints"),
        "channels": v.records(document, "channels"),
        "lowest": min((r["sqnr"] for r in rows), default=0.0),
    }


def _stats(document: Document) -> dict[str, Any]:
    rows = v.records(document, "tensors")
    along = [r for r in rows if r.get("role") in ("input", "result", "output")]
    reach = [_octave(max(-r["min"], r["max"])) for r in along]
    lines = [("own", [_octave(r["std"]) for r in along]), ("main", reach)]
    return {
        "rows": rows,
        "curve": curve(lines, [v.clean(r.get("tensor")) for r in along]),
        "bars": bars,
        "marked": [r for r in rows if r.get("note")],
        "spread": _spread,
    }


def _octave(value: float) -> float | None:
    return math.log2(value) if value > 0 else None


def _spread(channels: Mapping[str, Any] | None) -> Any:
    """Least and largest value of each channel as a drawing, or None for fewer than two channels."""
    if not channels or len(channels["min"]) < 2:
        return None
    low, high = min(0.0, *channels["min"]), max(0.0, *channels["max"])
    width, height = 600, 70
    step, reach = width / len(channels["min"]), (high - low) or 1.0
    paths = [
        f"M{i * step:.2f} {height * (high - b) / reach:.1f}h{max(step - 0.5, 0.5):.2f}"
        f"v{max(height * (b - a) / reach, 0.6):.1f}h{-max(step - 0.5, 0.5):.2f}z"
        for i, (a, b) in enumerate(zip(channels["min"], channels["max"]))
    ]
    return {"width": width, "height": height, "path": "".join(paths), "zero": f"{height * high / reach:.1f}"}


def _sensitivity(document: Document) -> dict[str, Any]:
    rows = v.records(document, "ops")
    values = [r["sensitivity"] for r in rows]
    low = min([0.0, *values]) if document.get("metric") != "sqnr" or document.get("leave_float") else min(values)
    reach = (max(values, default=0.0) - low) or 1.0

    def part(row: Document) -> float:
        return float((row["sensitivity"] - low) / reach)

    return {
        "rows": rows,
        "part": part,
        "metric": v.clean(document.get("metric")),
        "leave": bool(document.get("leave_float")),
    }


def _badcase(document: Document) -> dict[str, Any]:
    rows = sorted(v.records(document, "rows"), key=lambda r: r["sample"])
    metric = str(document.get("metric"))
    worst = {r["sample"] for r in v.records(document, "worst")}
    marked = [i for i, r in enumerate(rows) if r["sample"] in worst]
    names = [f"{r['sample']}" + (f" {v.clean(r['file'])}" if r.get("file") else "") for r in rows]
    return {
        "rows": v.records(document, "rows"),
        "worst": v.records(document, "worst"),
        "metric": metric,
        "curve": curve([("main", [r.get(metric) for r in rows])], names, marked),
    }


_MAKERS: dict[str, Callable[[Document], dict[str, Any]]] = {
    "compare": _compare,
    "stats": _stats,
    "sensitivity": _sensitivity,
    "badcase": _badcase,
}
