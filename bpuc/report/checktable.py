"""report.json as the table of the vendor's checker: which node runs where, in which part, in which type, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpuc.report import values as v
from bpuc.report.cpucount import cpu_count
from bpuc.report.plain import table, wrap
from bpuc.report.text import because, notes


def render_check(report: Mapping[str, Any], width: int = 80, perf: Mapping[str, Any] | None = None) -> str:
    """``Node | ON | Subgraph | Type | DataType`` for every node, then the reasons of CPU nodes and the warnings.

    Subgraph counts the BPU parts from 0, ``id(0)``; CPU nodes show ``--``. DataType is input/output of the node, from
    the tensors where the report lists them. With `perf` the last line is the static estimate.
    """
    width = max(width, 40)
    nodes = v.records(report, "nodes")
    types = {str(t.get("name")): v.clean(t.get("dtype")) for t in v.records(report, "tensors")}
    parts = _bpu_parts(report, nodes)
    rows = [
        [
            v.clean(n.get("name")),
            v.clean(n.get("device")),
            parts.get(str(n.get("segment")), "--") if _on_bpu(n) else "--",
            v.clean(n.get("op")),
            _types(n, types),
        ]
        for n in nodes
    ]
    out = [table(["Node", "ON", "Subgraph", "Type", "DataType"], rows, [False] * 5, width)]
    on_cpu = [n for n in nodes if not _on_bpu(n)]
    where = f"the BPU ({v.clean(report.get('march'))}) in {v.several(len(parts), 'part')}"
    out.append(wrap(f"{len(nodes) - len(on_cpu)} of {len(nodes)} nodes on {where}; {cpu_count(nodes)}", width))
    if on_cpu:
        lines = []
        for n in on_cpu:
            lines += [
                wrap(f"{v.clean(n.get('name'))} ({v.clean(n.get('op'))}) is on the CPU", width, "  "),
                *because(n, width),
            ]
        out.append("\n".join(lines))
    out += [wrap(t, width, "  ", "warning: ") for t in notes(report)]
    if perf is not None:
        s = perf.get("summary") or {}
        traffic = v.total([s], "ddr_read_bytes") + v.total([s], "ddr_write_bytes")
        speed = f"latency = {v.time(s.get('latency_us'))}, FPS = {v.plain(s.get('fps'), 1)}"
        out.append(wrap(f"estimate (simulated): {speed}, DDR = {v.size(traffic)} a frame", width))
    return "\n\n".join(out) + "\n"


def _on_bpu(node: Mapping[str, Any]) -> bool:
    return str(node.get("device")).upper() == "BPU"


def _bpu_parts(report: Mapping[str, Any], nodes: list[Mapping[str, Any]]) -> dict[str, str]:
    """Segment id -> ``id(k)`` in the order of the segments, or of the nodes where no segments are listed."""
    ids = [str(s.get("id")) for s in v.records(report, "segments") if str(s.get("device")).upper() == "BPU"]
    ids = ids or [str(n.get("segment")) for n in nodes if _on_bpu(n) and n.get("segment") is not None]
    return {name: f"id({k})" for k, name in enumerate(dict.fromkeys(ids))}


def _types(node: Mapping[str, Any], types: Mapping[str, str]) -> str:
    first, last = (next((types[n] for n in v.strings(node.get(k)) if n in types), None) for k in ("inputs", "outputs"))
    own = v.clean(node.get("dtype"))
    return own if first is None and last is None else f"{first or own}/{last or own}"
