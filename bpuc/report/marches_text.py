"""One model on every march, as one table of plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpuc.report import values as v
from bpuc.report.marchview import by_kind
from bpuc.report.plain import table, wrap
from bpuc.report.text import notes


def render_marches(document: Mapping[str, Any], name: str, width: int = 80) -> str:
    """A ``bpuc.perf-marches/1`` document in at most `width` columns (40 at least), and what keeps ops off the BPU."""
    width = max(width, 40)
    rows = []
    for m in document["marches"]:
        s = m["summary"]
        if s is None:
            rows.append([v.clean(m["march"]), *["-"] * 8])
            continue
        traffic = v.total([s], "ddr_read_bytes") + v.total([s], "ddr_write_bytes")
        error = m.get("accuracy")
        rows.append(
            [v.clean(m["march"]), v.time(s["latency_us"]), v.plain(s["throughput_fps"], 1), v.time(s["bpu_us"]),
             v.time(s["cpu_us"]), v.size(traffic), v.whole(len(m["cpu_ops"])), v.whole(s["rescale_count"]),
             f"{error['mean_percent']:.1f} %" if error else "?"]
        )  # fmt: skip
    head = ["march", "latency", "fps", "BPU", "CPU", "DDR", "CPU ops", "rescales", "error"]
    parts = [
        wrap(f"{v.clean(name)}: estimates of simulated programs, not measured on a chip", width),
        table(head, rows, [False] + [True] * 8, width, 1 if width < 100 else 2),
        wrap(
            "latency: one thread; fps: pipelined over all cores; error: mean error of BPU time on published models, "
            "? where there is none to compare with",
            width,
        ),
    ]
    given = document.get("given") or {}
    if given:
        parts.append(wrap("given: " + ", ".join(f"{k} = {x:g}" for k, x in given.items()), width, "  "))
    said = dict.fromkeys(t for m in document["marches"] for t in notes(m))
    parts += [wrap(t, width, "  ", "note: ") for t in said]
    parts += [
        wrap(f"{v.clean(m['march'])}: {v.clean(m['error'])}", width, "  ") for m in document["marches"] if m["error"]
    ]
    parts += ["\n".join(_off_the_bpu(m, width)) for m in document["marches"] if m.get("cpu_ops")]
    return "\n\n".join(parts) + "\n"


def _off_the_bpu(march: Mapping[str, Any], width: int) -> list[str]:
    """The CPU ops of a march: a line for each type, and the reason of its costliest op."""
    ops = v.records(march, "cpu_ops")
    head = f"{v.clean(march['march'])}: {v.several(len(ops), 'CPU op')}, {v.time(v.total(ops, 'latency_us'))}"
    lines = [wrap(head, width, "  ")]
    for kind in by_kind(ops):
        first = f"  {kind['count']} {kind['op']}, {v.time(kind['us'])}: "
        lines.append(wrap(v.clean(kind["reason"]), width, "    ", first))
    return lines
