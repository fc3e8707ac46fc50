"""Answers to "why": why a rescale, why this device, why this scale; all from report.json.

A tensor or node is found by its own name, a node also by the ONNX nodes that went into it or by a tensor it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpuc.base.errors import ConfigError, did_you_mean
from bpuc.report import values as v
from bpuc.report.certificates import certificates_of, clipped_text
from bpuc.report.cpucount import cpu_count
from bpuc.report.plain import table, wrap
from bpuc.report.text import because, other_place, saved, scales_of

WIDTH = 80
Record = Mapping[str, Any]


def explain_rescales(report: Record, name: str | None = None, width: int = WIDTH) -> str:
    """Every rescale (or those of `name`: a rescale, node or tensor) with scales, reason, remedy; then the saving.

    Raises:
        ConfigError: `name` is in no rescale, and is no node or tensor of the report either.
    """
    found, avoided = _rescales_named(report, name)
    if not found:
        out = [f"no rescales{'' if name is None else f' at {v.clean(name)}'}"]
    else:
        out = [f"{v.several(len(found), 'rescale')}, {v.time(v.total(found, 'latency_us'))} (estimate)"]
    for r in found:
        head = f"{v.clean(r.get('name'))}: input {v.clean(r.get('input_index'))} of {v.clean(r.get('node'))}"
        lines = [wrap(f"{head}, {v.time(r.get('latency_us'))}", width, "  "), wrap(scales_of(r), width, "    ", "  ")]
        out.append("\n".join(lines + because(r, width, "  ") + _at_stake(r, width)))
    if avoided:
        out.append(_avoided(avoided, width))
    return "\n\n".join(out) + "\n"


def _at_stake(r: Record, width: int) -> list[str]:
    """Who refused, what it would cost them, and the remedy as lines of a configuration."""
    lines = []
    readers, bits = v.strings(r.get("readers")), v.number(r.get("bits_lost")) or 0.0
    if readers:
        cost = f" would lose {v.plain(bits, 2)} bits" if bits else ""
        lines.append(wrap(f"at stake: {', '.join(map(v.clean, readers))}{cost}", width, " " * 12, "  "))
    if r.get("yaml"):
        lines += ["  in YAML:", *("    " + v.clean(line) for line in str(r["yaml"]).splitlines())]
    return lines


def _avoided(avoided: list[Record], width: int) -> str:
    """What sharing removed: how many, how, the time that is saved, and what it does to accuracy."""
    free = [r for r in avoided if not v.number(r.get("bits_lost"))]
    paid = [v.number(r.get("bits_lost")) or 0.0 for r in avoided if r not in free]
    text = f"{saved(avoided)}: {len(free)} at no cost"
    if paid:
        text += f", {len(paid)} for up to {max(paid):.2f} bits that other readers lose"
    rows = [
        [v.clean(r.get("node")), v.clean(r.get("tensor")), v.plain(r.get("latency_us")), v.plain(r.get("bits_lost"), 2),
         v.plain(r.get("noise_db"), 1), v.clean(r.get("how"))]
        for r in avoided
    ]  # fmt: skip
    head = ["node", "tensor", "us", "bits", "dB", "how"]
    note = "bits: lost by other readers; dB: less rounding noise at the concat with one rounding in place of two"
    body = table(head, rows, [False, False, True, True, True, False], width, 1)
    return "\n".join([wrap(text, width), body, wrap(note, width)])


def explain_placement(report: Record, name: str | None = None, width: int = WIDTH) -> str:
    """Where nodes run and why: all CPU nodes with their reasons, or everything about the nodes that `name` means.

    Raises:
        ConfigError: no node has that name.
    """
    nodes = v.records(report, "nodes")
    if name is not None:
        return "\n\n".join(_node(n, width) for n in _placed(report, name)) + "\n"
    cpu = [n for n in nodes if str(n.get("device")).upper() == "CPU"]
    segments = v.records(report, "segments")
    head = f"{v.several(len(nodes) - len(cpu), 'node')} on the BPU; {cpu_count(nodes)}"
    head += f"; {v.several(len(segments), 'segment')}"
    borders = []
    for s in segments:
        if s.get("reason"):
            text = f"segment {v.clean(s.get('id'))} on the {v.clean(s.get('device'))}: {v.clean(s['reason'])}"
            borders += [wrap(text, width, "  "), *other_place(s, width, "  ")]
    return "\n\n".join([head, *(["\n".join(borders)] if borders else []), *(_node(n, width) for n in cpu)]) + "\n"


def _node(n: Record, width: int) -> str:
    device = v.clean(n.get("device"))
    place = f"{device}, segment {v.clean(n.get('segment'))}, {v.clean(n.get('dtype'))}"
    lines = [wrap(f"{v.clean(n.get('name'))} ({v.clean(n.get('op'))}): {place}", width, "  ")]
    onnx = v.strings(n.get("onnx_nodes"))
    if onnx and onnx != [n.get("name")]:
        lines.append(wrap("from ONNX nodes: " + ", ".join(map(v.clean, onnx)), width, "    ", "  "))
    why = because(n, width, "  ")
    if not why:
        why = [
            "  reason: the march has this op on the BPU within its limits"
            if device == "BPU"
            else "  reason: not recorded"
        ]
    return "\n".join(lines + why + other_place(n, width, "  "))


def explain_scales(report: Record, name: str | None = None, width: int = WIDTH) -> str:
    """All scales as a table, or one tensor: scale, threshold, observer, its group and what each member loses there.

    Raises:
        ConfigError: no tensor has that name, and no node makes one.
    """
    tensors = [t for t in v.records(report, "tensors") if not t.get("constant")]
    if name is None:
        rows = [
            [v.clean(t.get("name")), v.clean(t.get("dtype")), v.span(t.get("scale")), v.span(t.get("threshold")),
             v.clean(t.get("observer")), v.clean(t.get("group"))]
            for t in tensors
        ]  # fmt: skip
        head = ["tensor", "dtype", "scale", "threshold", "observer", "group"]
        body = table(head, rows, [False, False, True, True, False, False], width)
        groups = v.several(len(v.records(report, "groups")), "group")
        lists = any(isinstance(t.get("scale"), list) for t in tensors)
        note = "\na..b: least and greatest of the scales of a tensor's channels" if lists else ""
        return f"{body}\n\n{v.several(len(rows), 'tensor')}, {groups} of shared scales{note}\n"
    return "\n\n".join(_tensor(report, t, width) for t in _tensors_named(report, name)) + "\n"


def explain_refinements(report: Record, name: str | None = None, width: int = WIDTH) -> str:
    """What was done for accuracy beyond thresholds, step by step, each with its gain."""
    found = _refinements_named(report, name)
    if not found:
        return f"no corrections for accuracy{'' if name is None else f' at {v.clean(name)}'}\n"
    out = [v.several(len(found), "correction") + " for accuracy"]
    for r in found:
        where = f" at {v.clean(r.get('where'))}" if r.get("where") else ""
        text = f"{v.clean(r.get('step'))}{where}: {v.clean(r.get('what'))}; {v.clean(r.get('gain'))}"
        out.append(wrap(text, width, "  "))
    return "\n".join(out) + "\n"


def _refinements_named(report: Record, name: str | None) -> list[Record]:
    """Those at a node or tensor, which may have none.

    Raises:
        ConfigError: no node and no tensor has that name.
    """
    found = [r for r in v.records(report, "refinements") if name in (None, r.get("where"))]
    if name is not None and not found:
        _known(report, name)
    return found


def records(report: Record, topic: str, name: str | None = None) -> dict[str, list[Record]]:
    """What a topic's text is made of, for JSON: all records, or those that `name` means.

    Raises:
        ConfigError: as the texts.
    """
    if topic == "rescales":
        found, avoided = _rescales_named(report, name)
        return {"rescales": found, "avoided": avoided}
    if topic == "placement":
        nodes = v.records(report, "nodes") if name is None else _placed(report, name)
        ids = {n.get("segment") for n in nodes}
        return {"nodes": nodes, "segments": [s for s in v.records(report, "segments") if s.get("id") in ids]}
    if topic == "certificates":
        return {"certificates": certificates_of(report, name)}
    if topic == "refinements":
        return {"refinements": _refinements_named(report, name)}
    tensors = v.records(report, "tensors") if name is None else _tensors_named(report, name)
    groups = {t.get("group") for t in tensors}
    return {"tensors": tensors, "groups": [g for g in v.records(report, "groups") if g.get("id") in groups]}


def _rescales_named(report: Record, name: str | None) -> tuple[list[Record], list[Record]]:
    """The rescales of a rescale, node or tensor, and those avoided there."""
    found, avoided = v.records(report, "rescales"), v.records(report, "avoided")
    if name is None:
        return found, avoided
    nodes = {name, *(str(n.get("name")) for n in _nodes_named(report, name))}
    found = [r for r in found if nodes & {str(r.get(k)) for k in ("name", "node", "tensor")}]
    avoided = [r for r in avoided if nodes & {str(r.get(k)) for k in ("node", "tensor")}]
    if not found and not avoided:
        _known(report, name)
    return found, avoided


def _placed(report: Record, name: str) -> list[Record]:
    wanted = _nodes_named(report, name)
    if not wanted:
        _known(report, name, tensors=False)
    return wanted


def _tensors_named(report: Record, name: str) -> list[Record]:
    """The tensor of that name, else those that a node of that name makes."""
    outputs = {o for n in _nodes_named(report, name) for o in v.strings(n.get("outputs"))}
    tensors = v.records(report, "tensors")
    wanted = [t for t in tensors if t.get("name") == name] or [t for t in tensors if t.get("name") in outputs]
    if not wanted:
        _known(report, name)
    return wanted


def _tensor(report: Record, t: Record, width: int) -> str:
    pairs = [
        ("shape", v.shape(t.get("shape"))), ("dtype", v.clean(t.get("dtype"))),
        ("scale", v.scale(t.get("scale"))), ("threshold", v.scale(t.get("threshold"))),
        ("axis", v.clean(t.get("axis"))), ("qmax", v.clean(t.get("qmax"))), ("observer", v.clean(t.get("observer"))),
        ("clipped", clipped_text(t)),
    ]  # fmt: skip
    lines = [wrap(v.clean(t.get("name")), width, "  ")]
    lines += [wrap(x, width, " " * 13, f"  {k:10} ") for k, x in pairs if x != v.NONE]
    group = next((g for g in v.records(report, "groups") if g.get("id") == t.get("group")), None)
    if t.get("group") is None or group is None:
        return "\n".join([*lines, "  group      none: the scale is the tensor's own"])
    reason = f" ({v.clean(group['reason'])})" if group.get("reason") else ""
    lines.append(
        wrap(
            f"{v.clean(group.get('id'))}, threshold {v.scale(group.get('threshold'))}{reason}",
            width,
            " " * 13,
            "  group      ",
        )
    )
    bits = group.get("bits_lost") or {}
    rows = [[v.clean(m), v.plain(bits.get(m), 3)] for m in v.strings(group.get("tensors"))]
    body = table(["member", "bits lost"], rows, [False, True], width - 4)
    return "\n".join(lines + ["    " + line for line in body.splitlines()])


def _nodes_named(report: Record, name: str) -> list[Record]:
    """Nodes with that name; else those made of such an ONNX node; else those that make such a tensor."""
    nodes = v.records(report, "nodes")
    for test in (
        lambda n: n.get("name") == name,
        lambda n: name in v.strings(n.get("onnx_nodes")),
        lambda n: name in v.strings(n.get("outputs")),
    ):
        found = [n for n in nodes if test(n)]
        if found:
            return found
    return []


def _known(report: Record, name: str, tensors: bool = True) -> None:
    """Raise unless `name` is a node or, with `tensors`, a tensor of the report."""
    known = [str(n.get("name")) for n in v.records(report, "nodes")]
    known += [x for n in v.records(report, "nodes") for x in v.strings(n.get("onnx_nodes"))]
    if tensors:
        known += [str(t.get("name")) for t in v.records(report, "tensors")]
    if name not in known:
        what = "node or tensor" if tensors else "node"
        raise ConfigError(
            f"the program has no {what} named {v.clean(name)!r}",
            want="a name that the ONNX model or report.json holds",
            hint=did_you_mean(name, known),
        )
