"""perf.json turned into what the page shows: records with finished text, shares and kinds. No HTML here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpuc.perf.gates import border_conversions, off_the_bpu
from bpuc.report import values as v
from bpuc.report.against import change, metrics, signed
from bpuc.report.graphview import graph_data
from bpuc.report.text import notes, on_cpu, rescales_of

Record = Mapping[str, Any]
KINDS = ("mac", "vector", "move", "border", "rescale", "cpu", "overhead")
_BORDER = ("quantize", "dequantize", "layout", "transpose", "reorder", "convert", "pad_", "nv12")
_MOVE = ("load", "store", "dma", "copy", "prefetch")
_EXACT = ("start_us", "end_us", "latency_us", "compute_us", "transfer_us")


def kind_of(op: Record) -> str:
    """Which of `KINDS` an op is shown as: where it runs and what it is, told from device, type, MACs and bound."""
    name, device = str(op.get("op")).lower(), str(op.get("device")).upper()
    if name in ("rescale", "requantize", "hzrequantize"):
        return "rescale"
    if any(word in name for word in ("overhead", "call", "launch")) or (
        op.get("bound") == "overhead" and not op.get("onnx_nodes") and not name.startswith(_BORDER)
    ):
        return "overhead"
    if device == "CPU":
        return "cpu"
    if v.number(op.get("macs")):
        return "mac"
    if name.startswith(_MOVE):
        return "move"
    return "border" if name.startswith(_BORDER) else "vector"


def op_data(op: Record) -> dict[str, Any]:
    """What the script of the page needs of an op; names made safe to show, times to a tenth of a nanosecond."""
    data: dict[str, Any] = {k: v.clean(op.get(k)) for k in ("name", "op", "device", "engine", "bound", "dtype")}
    data |= {k: None if (n := v.number(op.get(k))) is None else round(n, 4) for k in _EXACT}
    data |= {k: v.number(op.get(k)) for k in ("macs", "read_bytes", "write_bytes", "sram_bytes", "ddr_bytes")}
    data |= {k: v.clean(op[k]) for k in ("reason", "remedy", "segment") if op.get(k) not in (None, "")}
    data |= {"shape": v.shape(op.get("shape")), "scale": v.scale(op.get("scale")), "kind": kind_of(op)}
    return data | {"onnx_nodes": [v.clean(n) for n in v.strings(op.get("onnx_nodes"))]}


def parts(summary: Record, ops: Sequence[Record] = ()) -> list[tuple[str, float, float]]:
    """(key, us, share of the latency) of BPU work, rescales, CPU work, and overhead with waiting; shares add up to 1.

    Ops of type Overhead, which the busy times of the summary include, count as overhead. Where BPU and CPU overlap, the
    sum exceeds the latency and all shares are of that sum instead.
    """
    latency, bpu, cpu, rescale = (
        max(0.0, v.number(summary.get(k)) or 0.0) for k in ("latency_us", "bpu_us", "cpu_us", "rescale_us")
    )
    overhead = [o for o in ops if o.get("op") == "Overhead"]
    at_host = v.total((o for o in overhead if str(o.get("device")).upper() == "CPU"), "latency_us")
    bpu -= v.total(overhead, "latency_us") - at_host
    found = [("part_bpu", bpu - rescale), ("part_rescale", rescale), ("part_cpu", cpu - at_host)]
    found = [(key, us) for key, us in found if us > 1e-6 * latency]
    rest = max(latency - sum(us for _, us in found), v.total(overhead, "latency_us"))
    if rest > 1e-6 * latency:
        found.append(("part_rest", rest))
    whole = sum(us for _, us in found) or 1.0
    return [(key, us, us / whole) for key, us in found]


def by_field(ops: Sequence[Record], key: str) -> list[tuple[str, float, int]]:
    """(value of a field, summed latency in us, count of ops), largest first; ties in order of appearance."""
    sums: dict[str, list[float]] = {}
    for op in ops:
        sums.setdefault(v.clean(op.get(key)), []).append(v.number(op.get("latency_us")) or 0.0)
    return sorted(((k, sum(us), len(us)) for k, us in sums.items()), key=lambda row: -row[1])


def roofs(perf: Record) -> dict[str, float]:
    """Peak rate (MAC/us), DDR bandwidth (bytes/us), on-chip memory (bytes) as far as the hardware numbers state them.

    An optional ``roofline`` object of perf.json with ``peak_macs_per_us`` and ``ddr_bytes_per_us`` comes first; else
    the numbers are told by their units: MHz times MAC/cycle, and GB/s of something named ddr.
    """
    given = perf.get("roofline")
    if isinstance(given, Mapping):
        pairs = {"peak": v.number(given.get("peak_macs_per_us")), "ddr": v.number(given.get("ddr_bytes_per_us"))}
        return {k: n for k, n in pairs.items() if n}
    clock = per_cycle = ddr = sram = 0.0
    for h in v.records(perf, "hardware"):
        name, value = str(h.get("name")).lower(), v.number(h.get("value"))
        unit = str(h.get("unit")).lower().replace(" ", "")
        if not value or value < 0:
            continue
        if "clock" in name and "cpu" not in name and unit in ("mhz", "ghz"):
            clock = clock or value * (1000 if unit == "ghz" else 1)
        elif unit.startswith("mac/cycle") and "int16" not in name:
            per_cycle = max(per_cycle, value)
        elif "ddr" in name and unit in ("gb/s", "mb/s"):
            ddr = max(ddr, value * (1000 if unit == "gb/s" else 1))
        elif name in ("sram_bytes", "constant_buffer_bytes"):  # activations and constants are held beside each other
            sram += value
    return {k: n for k, n in (("peak", clock * per_cycle), ("ddr", ddr), ("sram", sram)) if n}


class Fields(dict[str, Any]):
    """A record whose absent fields read as None, so that a template may name any of them."""

    def __missing__(self, key: str) -> None:
        return None


def _fields(perf: Record, key: str) -> list[Fields]:
    return [Fields(r) for r in v.records(perf, key)]


def context(perf: Record, title: str) -> dict[str, Any]:
    """All that the template reads."""
    found = perf.get("summary")
    summary = Fields(found if isinstance(found, Mapping) else {})
    ops = _fields(perf, "ops")
    latency = v.number(summary.get("latency_us"))
    longest = max((v.number(o.get("latency_us")) or 0.0 for o in ops), default=0.0) or 1.0
    bpu = [o for o in ops if str(o.get("device")).upper() != "CPU"]
    bounds = [(k, us) for k, us, _ in by_field(bpu, "bound") if us > 0]
    types = by_field(ops, "op")
    rest = types[10:]
    if len(rest) > 1:
        types = [*types[:10], ("", sum(us for _, us, _ in rest), sum(n for _, _, n in rest))]
    avoided = _fields(perf, "avoided")
    index = {o["name"]: i for i, o in enumerate(ops)}
    rescales = rescales_of(perf)
    busy = v.number(summary.get("bpu_us"))
    return {
        "title": v.clean(title),
        "march": v.clean(perf.get("march")),
        "notes": notes(perf),
        "summary": summary,
        "traffic": v.total([summary], "ddr_read_bytes") + v.total([summary], "ddr_write_bytes") if summary else None,
        "mac_rate": (v.number(summary.get("macs")) or 0.0) / busy * 1e6 if busy else None,
        "parts": parts(summary, ops),
        "bounds": bounds,
        "bounds_width": max(latency or 0.0, sum(us for _, us in bounds)),
        "types": types,
        "type_kinds": {v.clean(o["op"]): kind_of(o) for o in reversed(ops)},
        "type_longest": max((us for _, us, _ in types), default=0.0) or 1.0,
        "ops": ops,
        "transfers": transfers(perf, index),
        "longest": longest,
        "latency": latency,
        "cpu_ops": [(i, o) for i, o in enumerate(ops) if on_cpu(o)],
        "priced_cpu": any(v.other_device(o) for o in ops if on_cpu(o)),
        "own_cpu": len(off_the_bpu(ops)),
        "borders": len(border_conversions(ops)),
        "rescales": [(index.get(r.get("name")), Fields(r)) for r in rescales],
        "rescale_total": v.total(rescales, "latency_us"),
        "avoided": avoided,
        "avoided_us": v.total(avoided, "latency_us"),
        "groups": sorted((group(g) for g in v.records(perf, "groups")), key=lambda g: -(g["worst"] or 0.0)),
        "segments": [segment(s, ops) for s in v.records(perf, "segments")],
        "why_segments": any(s.get("reason") for s in v.records(perf, "segments")),
        "priced_segments": any(v.other_device(s) for s in v.records(perf, "segments")),
        "hardware": _fields(perf, "hardware"),
        "roofs": roofs(perf),
        "accuracy": _accuracy(perf),
        **_comparison(perf),
        "op_index": index,
        "graph": graph_data(ops),
        "v": v,
        "kind_of": kind_of,
        "kinds": [k for k in KINDS if any(kind_of(o) == k for o in ops)],
    }


def transfers(perf: Record, index: Mapping[str, int]) -> list[tuple[int, str, float, float]]:
    """(op, engine, start, end in us) of what the DDR bus carries, in order; those of unknown ops are left out."""
    found = []
    for t in v.records(perf, "transfers"):
        i, start, end = index.get(str(t.get("op"))), v.number(t.get("start_us")), v.number(t.get("end_us"))
        if i is not None and start is not None and end is not None:
            found.append((i, v.clean(t.get("engine")), round(start, 4), round(end, 4)))
    return sorted(found, key=lambda t: t[2:])


def _comparison(perf: Record) -> dict[str, Any]:
    against = perf.get("against")
    if not isinstance(against, Mapping):
        return {"against": None}
    changes = [abs(r["after_us"] - r["before_us"]) for r in against["types"]]
    return {
        "against": Fields(against),
        "metrics": metrics(perf),
        "type_change": max(changes, default=0.0) or 1.0,
        "change": change,
        "signed": signed,
    }


def _accuracy(perf: Record) -> Fields | None:
    found = perf.get("accuracy")
    return Fields(found) if isinstance(found, Mapping) else None


def group(g: Record) -> dict[str, Any]:
    """A scale group with its members as (tensor, bits lost or None) and the largest loss."""
    lost = g.get("bits_lost")
    bits: Record = lost if isinstance(lost, Mapping) else {}
    members = [(t, v.number(bits.get(t))) for t in v.strings(g.get("tensors"))]
    return {
        "id": g.get("id"),
        "threshold": g.get("threshold"),
        "reason": g.get("reason"),
        "members": members,
        "worst": max((b for _, b in members if b is not None), default=None),
    }


def segment(s: Record, ops: Sequence[Record]) -> dict[str, Any]:
    """A segment with its count of nodes, their first and last name and its time in us.

    That is from the first start to the last end of its ops, as engines work side by side; None where no op has both.
    """
    nodes = v.strings(s.get("nodes"))
    inside = [o for o in ops if o.get("segment") is not None and o.get("segment") == s.get("id")]
    times = [(v.number(o.get("start_us")), v.number(o.get("end_us"))) for o in inside]
    spans = [(a, b) for a, b in times if a is not None and b is not None]
    return {
        "id": s.get("id"),
        "device": s.get("device"),
        "count": len(nodes),
        "ends": [nodes[0], nodes[-1]] if len(nodes) > 1 else nodes,
        "reason": s.get("reason"),
        "alternative": s.get("alternative"),
        "us": max(b for _, b in spans) - min(a for a, _ in spans) if spans else None,
    }
