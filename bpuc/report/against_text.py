"""The comparison of two builds as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpuc.report import values as v
from bpuc.report.against import change, metrics, signed
from bpuc.report.plain import table, wrap

_NAMES = {
    "latency_us": "latency, one thread",
    "fps": "frames/s, one thread",
    "throughput_fps": "frames/s, pipelined",
    "bpu_us": "BPU busy",
    "cpu_us": "CPU busy",
    "rescale_us": "rescales, time",
    "rescale_count": "rescales",
    "macs": "MACs",
    "ddr_read_bytes": "DDR read",
    "ddr_write_bytes": "DDR write",
    "sram_peak_bytes": "on-chip peak",
    "ddr_peak_bytes": "DDR peak",
}


def render_against(perf: Mapping[str, Any], name: str, width: int = 80, top: int = 20) -> str:
    """The "against" part of a compared perf.json in at most `width` columns (40 at least); `top` changed ops."""
    width = max(width, 40)
    other = perf["against"]
    marches = f"march {v.clean(perf.get('march'))}"
    if other.get("march") != perf.get("march"):
        marches += f" against {v.clean(other.get('march'))}"
    first = f"{v.clean(name)} against {v.clean(other['name'])}, {marches}: estimates of simulated programs"
    rows = [[_NAMES[m["key"]], m["after"], m["before"], change(m["change"])] for m in metrics(perf)]
    parts = [wrap(first, width), table(["", "this", "against", "change"], rows, [False, True, True, True], width)]
    ops = other["ops"]
    if ops:
        lines = [
            [
                v.clean(o["name"]),
                v.clean(o["op"]),
                _place(o),
                _us(o["before_us"]),
                _us(o["after_us"]),
                signed(o["delta_us"]),
            ]
            for o in ops[:top]
        ]
        head = ["name", "op", "where", "us before", "us now", "change"]
        shown = f"{top} of {len(ops)}" if len(ops) > top else str(len(ops))
        parts.append(
            wrap(f"changed ops ({shown}, {other['unchanged']} as before), largest change first", width)
            + "\n"
            + table(head, lines, [False, False, False, True, True, True], width, 1)
        )
    else:
        parts.append(f"no op changed ({other['unchanged']})")
    for key, words in (("rescales_removed", "rescales gone"), ("rescales_added", "new rescales")):
        if other[key]:
            us = v.time(v.total(other[key], "latency_us"))
            names = _names([o["name"] for o in other[key]], top)
            parts.append(wrap(f"{len(other[key])} {words}, {us}: {names}", width, "  "))
    for key, words in (("to_bpu", "moved to the BPU"), ("to_cpu", "moved to the CPU")):
        if other[key]:
            parts.append(wrap(f"{len(other[key])} ops {words}: {_names(other[key], top)}", width, "  "))
    return "\n\n".join(parts) + "\n"


def _names(names: Sequence[str], top: int) -> str:
    """The first `top`, and how many there are besides."""
    more = f" and {len(names) - top} more" if len(names) > top else ""
    return ", ".join(map(v.clean, names[:top])) + more


def _us(us: float | None) -> str:
    return v.plain(us)


def _place(op: Mapping[str, Any]) -> str:
    before, now = op["before_device"], op["device"]
    if before is None:
        return "new"
    if now is None:
        return "gone"
    return v.clean(now) if before == now else f"{v.clean(before)}>{v.clean(now)}"
