"""perf.json as CSV: one row an op, raw numbers (us, bytes, MACs), for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from bpuc.report.values import records, strings

_BUS = ("load_start_us", "load_end_us", "store_start_us", "store_end_us")
COLUMNS = (
    *("name", "op", "device", "engine", "segment", "start_us", "end_us", "latency_us", "compute_us", "transfer_us"),
    *("macs", "read_bytes", "write_bytes", "bound", "shape", "dtype", "scale", "reason", "remedy", "onnx_nodes"),
    *_BUS,
)


def render_csv(perf: Mapping[str, Any]) -> str:
    """One header line, then a line an op in the order of perf.json.

    The last columns say when the DDR bus carries what the op loads and stores. Absent values are empty; a shape is
    ``1x3x8x8``; lists (scales of channels, ONNX nodes) are joined by blanks. Lines end in a bare newline and text is
    quoted where CSV asks for it (RFC 4180), so names come back as they were.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    bus = {
        (str(t.get("op")), f"{t.get('engine')}_{end}"): t.get(end)
        for t in records(perf, "transfers")
        for end in ("start_us", "end_us")
    }
    for op in records(perf, "ops"):
        times = {c: bus.get((str(op.get("name")), c)) for c in _BUS}
        writer.writerow([_cell(c, times[c] if c in times else op.get(c)) for c in COLUMNS])
    return out.getvalue()


def _cell(column: str, value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ("x" if column == "shape" else " ").join(strings(value))
    return value
