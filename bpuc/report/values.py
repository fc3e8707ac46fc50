"""Values as people read them: times, sizes, counts, scales, shapes and names.

Every function takes what a JSON document may hold and gives "-" for what is absent, so no caller has to ask first.
Sizes are binary (KiB = 1024 bytes), counts are decimal (M = 1e6), times are in microseconds.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NONE = "-"
Record = Mapping[str, Any]


def number(value: Any) -> float | None:
    """The value as a finite float, or None for anything that is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def total(records: Iterable[Record], key: str) -> float:
    """Sum of a field over records; absent values count as 0."""
    return math.fsum(number(r.get(key)) or 0.0 for r in records)


def records(document: Record, key: str) -> list[Record]:
    """The list of objects under `key`; anything else in its place counts as empty."""
    found = document.get(key)
    return [r for r in found if isinstance(r, Mapping)] if isinstance(found, list) else []


def several(count: int, word: str) -> str:
    """A count with its noun: ``1 op``, ``3 ops``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def strings(value: Any) -> list[str]:
    """A list of names from a list, a single name or nothing."""
    if isinstance(value, str):
        return [value]
    return [str(v) for v in value] if isinstance(value, (list, tuple)) else []


def clean(value: Any) -> str:
    r"""Text that is safe to show on one line: control characters and lone surrogates become ``\\x1b``-like escapes.

    Names come from models of strangers; an escape sequence in one must not reach a terminal.
    """
    if value is None or value == "":
        return NONE
    out = []
    for ch in str(value):
        if unicodedata.category(ch) in ("Cc", "Cs", "Zl", "Zp") or ch in "\u202a\u202b\u202c\u202d\u202e":
            out.append(f"\\x{ord(ch):02x}" if ord(ch) < 256 else f"\\u{ord(ch):04x}")
        else:
            out.append(ch)
    return "".join(out)


def plain(value: Any, digits: int = 2) -> str:
    """A number with thousands separators and a fixed count of decimals: ``1,234.50``."""
    v = number(value)
    return NONE if v is None else f"{v:,.{digits}f}"


def whole(value: Any) -> str:
    """A count: ``1,234``."""
    return plain(value, 0)


def rate_of_frames(value: Any) -> str:
    """Frames a second: ``123.4``."""
    return plain(value, 1)


def time(us: Any) -> str:
    """A time given in microseconds, in the unit that suits it: ``12.3 us``, ``4.57 ms``, ``1.20 s``."""
    v = number(us)
    if v is None:
        return NONE
    for limit, factor, unit in ((1e3, 1.0, "us"), (1e6, 1e3, "ms"), (math.inf, 1e6, "s")):
        if abs(v) < limit * 0.9995:
            return f"{three(v / factor)} {unit}"
    raise AssertionError("unreachable: the last limit is infinite")


def size(count: Any) -> str:
    """Bytes: ``640 B``, ``1.50 KiB``, ``12.0 MiB``."""
    v = number(count)
    if v is None:
        return NONE
    for unit in ("B", "KiB", "MiB"):
        if abs(v) < 1023.5:
            return f"{v:.0f} B" if unit == "B" else f"{three(v)} {unit}"
        v /= 1024
    return f"{three(v)} GiB"


def exact(value: Any) -> str:
    """A number with all its digits (ten at most), or the cleaned text of anything else."""
    v = number(value)
    return clean(value) if v is None else f"{v:.10g}"


def macs(count: Any) -> str:
    """Multiply-accumulates: ``640``, ``12.3 k``, ``4.57 M``, ``1.20 G``."""
    v = number(count)
    if v is None:
        return NONE
    for unit in ("", " k", " M"):
        if abs(v) < 999.5:
            return f"{v:.0f}" if not unit else f"{three(v)}{unit}"
        v /= 1000
    return f"{three(v)} G"


def rate(per_second: Any) -> str:
    """MACs a second: ``640 MAC/s``, ``1.28 TMAC/s``."""
    v = number(per_second)
    if v is None:
        return NONE
    return f"{three(v / 1e12)} TMAC/s" if abs(v) >= 999.5e9 else macs(v) + ("MAC/s" if abs(v) >= 999.5 else " MAC/s")


def other_device(record: Record) -> tuple[float, str, float, str] | None:
    """What a record's `alternative` says: us here, the other device, us there, and what makes the difference.

    None where the record has none, or not as numbers.
    """
    found = record.get("alternative")
    if not isinstance(found, Mapping):
        return None
    here, there, parts = number(found.get("here_us")), number(found.get("there_us")), found.get("more_us")
    if here is None or there is None:
        return None
    more = {clean(k): number(us) or 0.0 for k, us in parts.items()} if isinstance(parts, Mapping) else {}
    return here, clean(found.get("device")), there, ", ".join(f"{k} {us:+.1f}" for k, us in more.items() if us)


def share(part: Any, of: Any) -> str:
    """A share in percent, ``12.3 %``; "-" when either number is absent or the whole is 0."""
    p, w = number(part), number(of)
    return NONE if p is None or not w else f"{100 * p / w:.1f} %"


def three(v: float) -> str:
    """Three significant digits, but all digits left of the point."""
    if v == 0:
        return "0"
    if abs(v) >= 999.5:
        return f"{v:,.0f}"
    v = float(f"{v:.3g}")
    return f"{v:,.{min(4, max(0, 2 - math.floor(math.log10(abs(v)) + 1e-9)))}f}"


def scale(value: Any) -> str:
    """A scale (real value of one integer step): ``0.0123``, or the range of a list with one scale a channel."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        found = [v for v in map(number, value) if v is not None]
        if not found:
            return NONE
        if len(found) == 1:
            return f"{found[0]:.6g}"
        return f"{min(found):.4g} .. {max(found):.4g} ({len(found)} channels)"
    v = number(value)
    return NONE if v is None else f"{v:.6g}"


def span(value: Any) -> str:
    """As `scale`, but short for a table: ``0.012..0.034`` for a list."""
    if not isinstance(value, list) or len(value) < 2:
        return scale(value)
    found = [v for v in map(number, value) if v is not None]
    return f"{min(found):.3g}..{max(found):.3g}" if found else NONE


def ratio(before: Any, after: Any) -> str:
    """How far two scales lie apart, as the larger over the smaller: ``x1.25``; "-" unless both are positive numbers."""
    a, b = number(before), number(after)
    if a is None or b is None or a <= 0 or b <= 0:
        return NONE
    return f"x{max(a, b) / min(a, b):.4g}"


def shape(value: Any) -> str:
    """A shape: ``1x3x224x224``; ``scalar`` for no axes."""
    if not isinstance(value, (list, tuple)):
        return NONE
    return "x".join(clean(v) for v in value) or "scalar"
