"""Two builds of a model side by side: what became slower or faster, what came and what went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpuc.perf.gates import off_the_bpu
from bpuc.report import values as v

Record = Mapping[str, Any]
# key of the summary -> formatter; less is better for all but those in `_MORE`
METRICS = {
    "latency_us": v.time,
    "fps": v.rate_of_frames,
    "throughput_fps": v.rate_of_frames,
    "bpu_us": v.time,
    "cpu_us": v.time,
    "rescale_us": v.time,
    "rescale_count": v.whole,
    "macs": v.macs,
    "ddr_read_bytes": v.size,
    "ddr_write_bytes": v.size,
    "sram_peak_bytes": v.size,
    "ddr_peak_bytes": v.size,
}
_MORE = ("fps", "throughput_fps")
_SAME = 1e-6  # us


def compare(perf: Record, before: Record, name: str) -> dict[str, Any]:
    """What `perf` changes against the perf.json `before`, which stands in that file's `name`.

    Ops are the same where their names are, or else where their types and ONNX nodes are. "ops" lists those that differ
    in time or device or are in one build only, largest change first; times in us, None where an op is absent. Ops
    overlap, so their changes need not add up to that of the latency.
    """
    pairs = _pairs(v.records(perf, "ops"), v.records(before, "ops"))
    rows = [_row(new, old) for new, old in pairs]
    changed = [r for r in rows if abs(r["delta_us"]) > _SAME or r["before_device"] != r["device"]]
    changed.sort(key=lambda r: (-abs(r["delta_us"]), r["name"]))
    gone, new = ([o for o, other in sides if other is None] for sides in (((b, a) for a, b in pairs if b), pairs))
    return {
        "name": name,
        "march": before.get("march"),
        "summary": before.get("summary") or {},
        "types": _types(pairs),
        "ops": changed,
        "unchanged": len(rows) - len(changed),
        "rescales_added": [_brief(o) for o in new if o and o.get("op") == "Rescale"],
        "rescales_removed": [_brief(o) for o in gone if o and o.get("op") == "Rescale"],
        "to_cpu": [r["name"] for r in rows if r["device"] == "CPU" and r["before_device"] == "BPU"],
        "to_bpu": [r["name"] for r in rows if r["device"] == "BPU" and r["before_device"] == "CPU"],
        "cpu_ops": len(off_the_bpu(v.records(before, "ops"))),
    }


def metrics(perf: Record) -> list[dict[str, Any]]:
    """The summaries of both builds of a compared perf.json: key, both values as text, change in percent, and whether it
    is for the better (None where nothing changed)."""
    found: list[dict[str, Any]] = []
    after, before = perf.get("summary") or {}, perf["against"].get("summary") or {}
    for key, text in METRICS.items():
        a, b = v.number(after.get(key)), v.number(before.get(key))
        change = None if a is None or not b else 100 * (a - b) / b
        differs = a is not None and b is not None and abs(a - b) > 1e-9 * max(abs(a), abs(b))
        better = ((a or 0) > (b or 0)) == (key in _MORE) if differs else None
        found.append(
            {"key": key, "after": text(a), "before": text(b), "change": change if differs else 0.0, "better": better}
        )
        if differs and not b:
            found[-1]["change"] = None
    return found


def change(percent: float | None) -> str:
    """``+12.3 %``, ``-4.0 %``, ``=`` for none and ``new`` where there was nothing before."""
    if percent is None:
        return "new"
    return "=" if percent == 0 else f"{percent:+.1f} %"


def signed(us: float) -> str:
    """A difference of times: ``+12.3 us``."""
    return "0 us" if abs(us) <= _SAME else ("+" if us > 0 else "-") + v.time(abs(us))


def _pairs(new: Sequence[Record], old: Sequence[Record]) -> list[tuple[Record | None, Record | None]]:
    by_name = {o.get("name"): o for o in old}
    left = [o for o in old if o.get("name") not in {n.get("name") for n in new}]
    by_nodes: dict[Any, list[Record]] = {}
    for o in left:
        by_nodes.setdefault((o.get("op"), tuple(v.strings(o.get("onnx_nodes")))), []).append(o)
    pairs: list[tuple[Record | None, Record | None]] = []
    met = set()
    for n in new:
        match = by_name.get(n.get("name"))
        nodes = tuple(v.strings(n.get("onnx_nodes")))
        if match is None and nodes and (alike := by_nodes.get((n.get("op"), nodes))):
            match = alike.pop(0)
        if match is not None:
            met.add(id(match))
        pairs.append((n, match))
    return pairs + [(None, o) for o in old if id(o) not in met]


def _row(new: Record | None, old: Record | None) -> dict[str, Any]:
    some: Record = new or old or {}
    after, before = ((v.number(o.get("latency_us")) or 0.0) if o else None for o in (new, old))
    return {
        "name": some.get("name"),
        "op": some.get("op"),
        "device": new.get("device") if new else None,
        "before_device": old.get("device") if old else None,
        "after_us": after,
        "before_us": before,
        "delta_us": (after or 0.0) - (before or 0.0),
    }


def _types(pairs: Sequence[tuple[Record | None, Record | None]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for sides in pairs:
        for op, us, count in zip(sides, ("after_us", "before_us"), ("after", "before")):
            if op is not None:
                row = found.setdefault(
                    str(op.get("op")), {"op": op.get("op"), "after_us": 0.0, "before_us": 0.0, "after": 0, "before": 0}
                )
                row[us] += v.number(op.get("latency_us")) or 0.0
                row[count] += 1
    for row in found.values():
        if abs(row["after_us"] - row["before_us"]) <= _SAME:  # sums of the same times in another order
            row["after_us"] = row["before_us"]
    return sorted(found.values(), key=lambda r: -abs(r["after_us"] - r["before_us"]))


def _brief(op: Record) -> dict[str, Any]:
    return {"name": op.get("name"), "latency_us": op.get("latency_us"), "reason": op.get("reason")}
