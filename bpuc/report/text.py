"""perf.json as plain text for a terminal or a log: summary, slowest ops, CPU ops with reasons, rescales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpuc.report import values as v
from bpuc.report.cpucount import cpu_count
from bpuc.report.plain import pad, table, width_of, wrap


def render_text(perf: Mapping[str, Any], width: int = 80, top: int = 20) -> str:
    """The report as text of at most `width` columns (40 at least); `top` slowest ops, CPU ops and rescales are listed.

    All times are estimates for a simulated program, and the first line says so.
    """
    width = max(width, 40)
    parts = [
        wrap(f"march {v.clean(perf.get('march'))}: estimate of a simulated program, not measured on a chip", width),
        _summary(perf, width),
        "\n".join(wrap(t, width, "  ") for t in (_bounds(perf), f"error of the estimate: {accuracy(perf)}") if t),
        *_notes(perf, width),
        _slowest(perf, width, top),
        *_cpu_ops(perf, width, top),
        *_rescales(perf, width, top),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def _summary(perf: Mapping[str, Any], width: int) -> str:
    s = perf.get("summary") or {}
    latency = s.get("latency_us")

    def timed(key: str) -> str:
        return f"{v.time(s.get(key))} ({v.share(s.get(key), latency)})"

    pairs = [
        ("latency, one thread", v.time(latency)),
        ("frames/s, one thread", v.plain(s.get("fps"), 1)),
        ("frames/s, pipelined", v.plain(s.get("throughput_fps"), 1)),
        *([("samples/s, one thread", v.plain(s["samples_per_s"], 1))] if v.number(s.get("samples_per_s")) else []),
        *(
            [("samples/s, pipelined", v.plain(s["throughput_samples_per_s"], 1))]
            if v.number(s.get("throughput_samples_per_s"))
            else []
        ),
        ("BPU busy", timed("bpu_us")),
        ("CPU busy", timed("cpu_us")),
        (f"rescales ({v.whole(s.get('rescale_count'))})", timed("rescale_us")),
        ("MACs", v.macs(s.get("macs"))),
        ("DDR read", v.size(s.get("ddr_read_bytes"))),
        ("DDR write", v.size(s.get("ddr_write_bytes"))),
        ("on-chip peak", v.size(s.get("sram_peak_bytes"))),
        ("DDR peak", v.size(s.get("ddr_peak_bytes"))),
        ("ops", v.whole(len(v.records(perf, "ops")))),
    ]
    half = (len(pairs) + 1) // 2
    left, right = _aligned(pairs[:half]), _aligned(pairs[half:])
    column = max(map(width_of, left))
    if column + max(map(width_of, right)) + 6 > width:
        return "\n".join("  " + c for c in _aligned(pairs))
    return "\n".join(f"  {pad(a, column)}    {b}".rstrip() for a, b in zip(left, [*right, ""]))


def _bounds(perf: Mapping[str, Any]) -> str:
    """What binds the ops of the BPU: the time of those ops as a share of the latency, as everywhere."""
    latency = (perf.get("summary") or {}).get("latency_us")
    ops = [o for o in v.records(perf, "ops") if str(o.get("device")).upper() != "CPU"]
    us: dict[str, float] = {}
    for o in ops:
        us[v.clean(o.get("bound"))] = us.get(v.clean(o.get("bound")), 0.0) + (v.number(o.get("latency_us")) or 0.0)
    shares = [f"{bound} {v.share(t, latency)}" for bound, t in sorted(us.items(), key=lambda x: -x[1]) if t]
    return f"BPU ops are bound by: {', '.join(shares)} of the latency" if shares else ""


def accuracy(perf: Mapping[str, Any]) -> str:
    """How far the estimate was from measurements, as far as the document says."""
    a = perf.get("accuracy")
    if not isinstance(a, Mapping):
        return "unknown, nothing measured to hold this march or these hardware numbers against"
    held_out = v.number(a.get("held_out_percent"))
    text = f"BPU time {v.plain(a.get('mean_percent'), 1)} % on average, {v.plain(a.get('worst_percent'), 0)} % at worst"
    return f"{text}{'' if held_out is None else f', {held_out:.1f} % for unseen families'} ({v.clean(a.get('source'))})"


def _aligned(pairs: list[tuple[str, str]]) -> list[str]:
    label = max(width_of(k) for k, _ in pairs)
    return [f"{pad(k, label)}  {x}" for k, x in pairs]


def _notes(perf: Mapping[str, Any], width: int) -> list[str]:
    return [wrap(t, width, "  ", "note: ") for t in notes(perf)]


def notes(perf: Mapping[str, Any]) -> list[str]:
    """What the document wants said beside its numbers: its optional ``notes`` and ``warnings``, as one text each."""
    found = []
    for key in ("notes", "warnings"):
        listed = perf.get(key)
        for item in listed if isinstance(listed, list) else []:
            if isinstance(item, Mapping):
                where = v.clean(item.get("where"))
                found.append(v.clean(item.get("message")) + (f" ({where})" if where != v.NONE else ""))
            else:
                found.append(v.clean(item))
    return found


def _slowest(perf: Mapping[str, Any], width: int, top: int) -> str:
    ops = v.records(perf, "ops")
    if not ops:
        return "no ops"
    latency = (perf.get("summary") or {}).get("latency_us")
    ranked = sorted(ops, key=lambda o: -(v.number(o.get("latency_us")) or 0.0))[:top]
    rows = [
        [v.clean(o.get("name")), v.clean(o.get("op")), v.clean(o.get("engine") or o.get("device")),
         v.plain(o.get("latency_us")), v.share(o.get("latency_us"), latency).removesuffix(" %"), v.macs(o.get("macs")),
         v.size(_traffic(o)), v.clean(o.get("bound"))]
        for o in ranked
    ]  # fmt: skip
    head = ["name", "op", "engine", "us", "%", "MACs", "DDR", "bound"]
    title = f"slowest {len(rows)} of {len(ops)} ops" if len(rows) < len(ops) else f"all ops ({len(ops)}), slowest first"
    return title + "\n" + table(head, rows, [False, False, False, True, True, True, True, False], width, 1)


def _traffic(op: Mapping[str, Any]) -> float | None:
    read, write = v.number(op.get("read_bytes")), v.number(op.get("write_bytes"))
    return None if read is None and write is None else (read or 0.0) + (write or 0.0)


def _cpu_ops(perf: Mapping[str, Any], width: int, top: int) -> list[str]:
    ops = [o for o in v.records(perf, "ops") if on_cpu(o)]
    if not ops:
        return [cpu_count(ops)]
    lines = [wrap(cpu_count(ops, "latency_us"), width, "  ")]
    listed = sorted(ops, key=lambda o: -(v.number(o.get("latency_us")) or 0.0))[:top]
    for o in (o for o in ops if any(o is x for x in listed)):
        lines.append(
            wrap(
                f"{v.clean(o.get('name'))} ({v.clean(o.get('op'))}, {v.time(o.get('latency_us'))})", width, "    ", "  "
            )
        )
        lines += because(o, width) + other_place(o, width)
    if len(ops) > top:
        lines.append(wrap(f"and {len(ops) - top} more, cheaper ones (--top N lists more)", width, "    ", "  "))
    return ["\n".join(lines)]


def on_cpu(op: Mapping[str, Any]) -> bool:
    """Whether an op is work on the CPU that a user may want to move; the overhead of a call is none, though listed."""
    return str(op.get("device")).upper() == "CPU" and op.get("op") != "Overhead"


def because(record: Mapping[str, Any], width: int, indent: str = "    ") -> list[str]:
    """The reason and the remedy of a record, each wrapped; nothing for what it lacks."""
    return [
        wrap(v.clean(record[key]), width, indent + " " * (len(key) + 2), f"{indent}{key}: ")
        for key in ("reason", "remedy")
        if record.get(key)
    ]


def other_place(record: Mapping[str, Any], width: int, indent: str = "    ") -> list[str]:
    """What the nodes of a record cost here and would cost on the other device, wrapped; nothing where none is known."""
    found = v.other_device(record)
    if found is None:
        return []
    here, device, there, changes = found
    text = f"here {here:.1f} us, on the {device} {there:.1f} us with conversions and calls"
    text += f" ({changes}; estimate, " if changes else " (estimate, "
    text += "ops priced one by one, without the overlap of the time line)"
    return [wrap(text, width, indent + "  ", f"{indent}alternative: ")]


def _rescales(perf: Mapping[str, Any], width: int, top: int) -> list[str]:
    """The costliest `top` rescales; those with one reason and remedy stand together, which is said once."""
    found, avoided = rescales_of(perf), v.records(perf, "avoided")
    lines = [f"{v.several(len(found), 'rescale')}, {v.time(v.total(found, 'latency_us'))}" if found else "no rescales"]
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for r in sorted(found, key=lambda r: -(v.number(r.get("latency_us")) or 0.0))[:top]:
        alike.setdefault((str(r.get("reason")), str(r.get("remedy"))), []).append(r)
    for together in alike.values():
        for r in together:
            lines.append(wrap(f"{v.clean(r.get('name'))} ({v.time(r.get('latency_us'))})", width, "    ", "  "))
            if r.get("tensor"):
                lines.append(wrap(scales_of(r), width, "      ", "    "))
        lines += because(together[0], width)
    if len(found) > top:
        lines.append(f"  and {len(found) - top} more")
    if avoided:
        lines.append(wrap(saved(avoided), width, "  "))
    return ["\n".join(lines)]


def rescales_of(perf: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The listed rescales; where none is listed, the ops that are rescales, which know no scales but their cost."""
    return v.records(perf, "rescales") or [o for o in v.records(perf, "ops") if o.get("op") == "Rescale"]


def scales_of(rescale: Mapping[str, Any]) -> str:
    """One line: tensor, the two scales of a rescale and how far apart they are."""
    a, b = rescale.get("from_scale"), rescale.get("to_scale")
    return f"tensor {v.clean(rescale.get('tensor'))}: scale {v.scale(a)} -> {v.scale(b)} ({v.ratio(a, b)})"


def saved(avoided: list[Mapping[str, Any]]) -> str:
    """What shared scales avoided, as a sentence."""
    return (
        f"shared scales save {v.several(len(avoided), 'rescale')}, {v.time(v.total(avoided, 'latency_us'))} of work, "
        "that `--share-scales never` would add"
    )
