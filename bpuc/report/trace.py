"""perf.json as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

Format: the JSON object form of Chrome's Trace Event Format; complete events (``"ph": "X"``), times in microseconds.
A device is a process, an engine a thread. Events of a thread never overlap: where two ops of an engine would, the later
one goes to a further thread of that engine. What the DDR bus carries is a process of its own with pairs of asynchronous
events (``"ph": "b"`` and ``"e"``), loads and stores apart. Counters (``"ph": "C"``) show DDR bandwidth and MAC rate,
each op's amount spread evenly over its time, and the memory that is held.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bpuc.report.values import number, records

_SLACK = 1e-6  # us; ends and starts that touch may differ by rounding
_ARGS = (
    *("op", "bound", "shape", "dtype", "scale", "macs", "read_bytes", "write_bytes", "compute_us", "transfer_us"),
    *("segment", "reason", "remedy", "onnx_nodes"),
)


def render_trace(perf: Mapping[str, Any]) -> str:
    """JSON text with one complete event an op, its name unchanged, and the names of processes and threads.

    An op without times starts where its engine was last free and lasts its latency, or nothing.
    """
    pids: dict[str, int] = {}
    tids: dict[tuple[str, str], list[int]] = {}
    free: dict[int, float] = {}
    events: list[dict[str, Any]] = []
    names: list[dict[str, Any]] = []
    for op in sorted(records(perf, "ops"), key=lambda o: number(o.get("start_us")) or 0.0):
        device, engine = str(op.get("device") or "BPU"), str(op.get("engine") or op.get("device") or "BPU")
        if device not in pids:
            pids[device] = len(pids) + 1
            names.append(_named("process_name", pids[device], 0, f"{device} (simulated, estimate)"))
        lanes = tids.setdefault((device, engine), [])
        begin = number(op.get("start_us"))
        if begin is None:
            begin = max((free[t] for t in lanes), default=0.0)
        tid = next((t for t in lanes if free[t] <= begin + _SLACK), None)
        if tid is None:
            tid = len(free) + 1
            lanes.append(tid)
            names.append(
                _named("thread_name", pids[device], tid, engine if len(lanes) == 1 else f"{engine} ({len(lanes)})")
            )
        begin = max(begin, free.get(tid, 0.0))
        end = number(op.get("end_us"))
        if end is None:
            end = begin + (number(op.get("latency_us")) or 0.0)
        free[tid] = max(begin, end)
        events.append({"name": str(op.get("name", "")), "cat": str(op.get("op") or "op"), "ph": "X", "ts": begin,
                       "dur": max(0.0, end - begin), "pid": pids[device], "tid": tid,
                       "args": {k: op[k] for k in _ARGS if op.get(k) not in (None, [], "")}})  # fmt: skip
    bus = _bus(perf, len(pids) + 1)
    document = {"traceEvents": names + events + bus + _counters(perf, len(pids) + 2), "displayTimeUnit": "ns",
                "otherData": {"march": str(perf.get("march", "")), "kind": "simulated estimate"}}  # fmt: skip
    return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def _bus(perf: Mapping[str, Any], pid: int) -> list[dict[str, Any]]:
    """What the bus carries in one go, named after the op that it is for; loads share an id, and so do stores."""
    found: list[dict[str, Any]] = []
    for t in sorted(records(perf, "transfers"), key=lambda t: number(t.get("start_us")) or 0.0):
        start, end, engine = number(t.get("start_us")), number(t.get("end_us")), str(t.get("engine"))
        if start is not None and end is not None:
            common = {"name": str(t.get("op", "")), "cat": engine, "id": engine, "pid": pid, "tid": 0}
            args = {k: t[k] for k in ("bytes", "after") if t.get(k) is not None}
            found.append({**common, "ph": "b", "ts": start, "args": args})
            found.append({**common, "ph": "e", "ts": max(start, end)})
    return [_named("process_name", pid, 0, "DDR bus (simulated, estimate)"), *found] if found else []


def _counters(perf: Mapping[str, Any], pid: int) -> list[dict[str, Any]]:
    """Steps of the rates (GB/s, GMAC/s) and of the memory (bytes) over time, as a process of their own."""
    ops = [o for o in records(perf, "ops") if (number(o.get("end_us")) or 0.0) > (number(o.get("start_us")) or 0.0)]
    found: list[dict[str, Any]] = []
    for name, keys in (("DDR GB/s", ("read_bytes", "write_bytes")), ("GMAC/s", ("macs",))):
        steps: dict[float, list[float]] = {}
        for o in ops:
            start, end = float(o["start_us"]), float(o["end_us"])
            for k, key in enumerate(keys):
                rate = (number(o.get(key)) or 0.0) / (end - start) / 1e3
                steps.setdefault(start, [0.0] * len(keys))[k] += rate
                steps.setdefault(end, [0.0] * len(keys))[k] -= rate
        now = [0.0] * len(keys)
        labels = ("read", "write") if len(keys) == 2 else ("rate",)
        for at in sorted(steps):
            now = [a + b for a, b in zip(now, steps[at])]
            found.append(_counter(name, pid, at, dict(zip(labels, (max(0.0, round(x, 6)) for x in now)))))
    for name, key in (("on-chip bytes", "sram_bytes"), ("DDR bytes", "ddr_bytes")):
        held = sorted((o for o in ops if number(o.get(key)) is not None), key=lambda o: (o["start_us"], o["end_us"]))
        found += [_counter(name, pid, o["start_us"], {"held": o[key]}) for o in held]
    if found:
        found.insert(0, _named("process_name", pid, 0, "counters (simulated, estimate)"))
    return found


def _counter(name: str, pid: int, at: float, values: Mapping[str, float]) -> dict[str, Any]:
    return {"name": name, "ph": "C", "ts": at, "pid": pid, "args": dict(values)}


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
