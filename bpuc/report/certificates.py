"""What is proven of the numbers of accumulating ops, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpuc.base.errors import ConfigError, did_you_mean
from bpuc.report import values as v
from bpuc.report.plain import table, wrap

WIDTH = 80
Record = Mapping[str, Any]


def certificates_of(report: Record, name: str | None = None) -> list[Record]:
    """All certificates, or those of a node.

    Raises:
        ConfigError: no accumulating op has that name.
    """
    found = v.records(report, "certificates")
    if name is None:
        return found
    nodes = {str(n.get("name")) for n in v.records(report, "nodes") if name in v.strings(n.get("onnx_nodes"))}
    wanted = [c for c in found if c.get("node") == name or c.get("node") in nodes]
    if not wanted:
        known = [str(c.get("node")) for c in found]
        raise ConfigError(
            f"the program has no op with an accumulator named '{name}'",
            want="a Conv, MatMul or the like; `bpuc explain X.bpuc certificates` lists them",
            hint=did_you_mean(name, known),
        )
    return wanted


def explain_certificates(report: Record, name: str | None = None, width: int = WIDTH) -> str:
    """A row an op, the fullest accumulator first; or all about one op.

    Raises:
        ConfigError: as `certificates_of`.
    """
    found = certificates_of(report, name)
    if name is not None:
        return "\n\n".join("\n".join(wrap(t, width, "    ", first) for first, t in _one(c)) for c in found) + "\n"
    ordered = sorted(found, key=lambda c: -_share(c))
    rows = [[v.clean(c.get("node")), str(c.get("bound")), f"{_share(c):.2g} %", _type(c), _over(c),
             _percent(_clipped(c), 2)] for c in ordered]  # fmt: skip
    head = ["node", "at most", "of type", "type", "peak/range", "clipped"]
    note = (
        "at most: what no input can exceed in the accumulator, and its share of the type; peak/range: largest value "
        "seen in calibration over the largest that the result's type keeps; clipped: how many values were beyond that"
    )
    return table(head, rows, [False, True, True, False, True, True], width) + "\n\n" + wrap(note, width) + "\n"


def _one(c: Record) -> list[tuple[str, str]]:
    """Lines, each with the blanks before it."""
    proof = c.get("float32_channels")
    lines = [
        f"{v.clean(c.get('node'))}: the accumulator is at most {c.get('bound')}, {_share(c):.2g} % of {_type(c)}, "
        "for any input",
        f"  sums are exact in {v.clean(c.get('exact_in'))}",
        f"  bias {_span(c.get('bias'))}, multiplier {_span(c.get('mult'))}, shift {_span(c.get('shift'))}",
    ]
    if proof is not None:
        lines.append(f"  requantization is proven equal in float32 for {100 * proof:.3g} % of the channels")
    lines.append(f"  largest value in calibration over the largest kept: {_over(c)}")
    if c.get("clipped") is not None:
        lines.append(f"  values of the result beyond the range, in calibration: {clipped_text(c)}")
    if c.get("clipped_channels") is not None:
        lines.append(f"  channels with clipped values: {100 * c['clipped_channels']:.3g} %")
    return [(t[: len(t) - len(t.lstrip())], t.lstrip()) for t in lines]


def clipped_text(r: Record) -> str:
    """How many values calibration saw beyond the range of a tensor or of an op's result."""
    c = r.get("clipped")
    if not isinstance(c, Mapping):
        return v.NONE
    least, most, of = int(c["least"]), int(c["most"]), c.get("of")
    if not most:
        return "none" if of is None else f"none of {of}"
    count = str(most) if least == most else f"{least} to {most}"
    every = f"; one value in {c['sampling']} was counted" if int(c.get("sampling") or 1) > 1 else ""
    return f"{count} of {of} ({clipped_share(r)}{every})"


def clipped_share(r: Record) -> str:
    """The same in percent."""
    return _percent(_clipped(r), 3)


def _clipped(r: Record) -> tuple[float, float] | None:
    """Least and most of the share, in percent."""
    c = r.get("clipped")
    if not isinstance(c, Mapping):
        return None
    of = max(int(c.get("of") or 1), 1)
    return 100 * int(c["least"]) / of, 100 * int(c["most"]) / of


def _percent(ends: tuple[float, float] | None, digits: int) -> str:
    if ends is None:
        return v.NONE
    low, high = (f"{e:.{digits}g}" for e in ends)
    return f"{low} %" if low == high else f"{low} to {high} %"


def _share(c: Record) -> float:
    return 100 * int(c.get("bound") or 0) / int(c.get("limit") or 1)


def _type(c: Record) -> str:
    return "int32" if int(c.get("limit") or 0) < 1 << 32 else "int64"


def _over(c: Record) -> str:
    return "-" if c.get("over") is None else f"{c['over']:.3g}"


def _span(ends: Any) -> str:
    return "-" if not isinstance(ends, list) else f"{ends[0]}..{ends[1]}"
