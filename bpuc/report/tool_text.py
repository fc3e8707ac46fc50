"""The documents of the accuracy tools as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpuc.report import values as v
from bpuc.report.plain import table, wrap
from bpuc.report.toolview import short

Document = Mapping[str, Any]


def compare_text(document: Document, name: str, width: int = 80, top: int = 20) -> str:
    """The `top` worst tensors, the outputs, and hints."""
    rows = v.records(document, "tensors")
    worst = sorted(rows, key=lambda r: (r["sqnr"], r["index"]))[:top]
    outputs = [r for r in rows if r["output"] is not None]
    first = (
        f"{v.clean(name)} against its simulated program, march {v.clean(document['march'])}: "
        f"{v.several(document['samples'], 'sample')}, {v.several(len(rows), 'tensor')}"
    )
    parts = [wrap(first, width)]
    parts.append(_titled("outputs", _compared(outputs, width), width))
    title = f"worst {len(worst)} tensors" if len(worst) < len(rows) else "tensors, worst first"
    parts.append(_titled(title, _compared(worst, width), width))
    parts.append(wrap("own: dB that rounding the float values to the tensor's own scale would leave", width))
    hints = v.records(document, "hints")
    if hints:
        lines = [wrap(f"{v.clean(h['tensor'])}: {v.clean(h['text'])}", width, "    ", "  ") for h in hints[:top]]
        parts.append("where the error jumps\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _compared(rows: Sequence[Document], width: int) -> str:
    head = ["tensor", "op", "type", "cosine", "SQNR dB", "own", "max error", "relative"]
    cells = [
        [
            v.clean(r["tensor"]),
            v.clean(r["op"]),
            v.clean(r["dtype"]),
            v.plain(r["cosine"], 5),
            v.plain(r["sqnr"], 1),
            v.plain(r["own_sqnr"], 1),
            _brief(r["max_abs"]),
            _brief(r["relative"]),
        ]
        for r in rows
    ]
    return table(head, cells, [False] * 3 + [True] * 5, width, 1)


def stats_text(document: Document, name: str, width: int = 80, top: int = 20) -> str:
    """Results, in the order of the model or, of many, by falling kurtosis; then the tensors that stand out."""
    rows = v.records(document, "tensors")
    marked = [r for r in rows if r["note"]]
    parts = [wrap(f"{v.clean(name)}: {v.several(document['samples'], 'sample')}, {len(rows)} tensors", width)]
    shown = [r for r in rows if r["role"] in ("input", "result", "output")]
    if len(shown) > top:
        shown = sorted(shown, key=lambda r: (-r["kurtosis"], r["index"]))[:top]
    head = ["tensor", "op", "min", "max", "mean", "std", "kurtosis", "zeros"]
    cells = [
        [
            v.clean(r["tensor"]),
            v.clean(r["op"] or "Input"),
            *(_brief(r[k]) for k in ("min", "max", "mean", "std", "kurtosis")),
            v.share(r["zeros"], 1),
        ]
        for r in shown
    ]
    count = sum(r["role"] in ("input", "result", "output") for r in rows)
    title = "inputs and results" if len(shown) == count else f"{len(shown)} of {count} results, largest kurtosis first"
    parts.append(_titled(title, table(head, cells, [False] * 2 + [True] * 6, width, 1), width))
    if marked:
        lines = [wrap(f"{v.clean(r['tensor'])}: {v.clean(r['note'])}", width, "    ", "  ") for r in marked[:top]]
        more = [f"  and {len(marked) - top} more"] if len(marked) > top else []
        parts.append("\n".join(["worth a look", *lines, *more]))
    return "\n\n".join(parts)


def sensitivity_text(document: Document, name: str, width: int = 80, top: int = 20) -> str:
    """The `top` most sensitive rows."""
    rows = v.records(document, "ops")
    what = "gain of leaving it in float" if document["leave_float"] else "cost of quantizing it alone"
    first = (
        f"{v.clean(name)}, march {v.clean(document['march'])}: {what}, by {v.clean(document['metric'])} at the "
        f"outputs, {v.several(document['samples'], 'sample')}"
    )
    head = ["op", "op type", "kind", "sensitivity", "cosine", "SQNR dB", "mse"]
    cells = [
        [
            v.clean(r["op"]),
            v.clean(r["op_type"]),
            v.clean(r["kind"]),
            short(r["sensitivity"]),
            v.plain(r["cosine"], 6),
            v.plain(r["sqnr"], 1),
            _brief(r["mse"]),
        ]
        for r in rows[:top]
    ]
    found = table(head, cells, [False] * 3 + [True] * 4, width, 1)
    more = f"\n{len(rows) - top} more in the files" if len(rows) > top else ""
    return f"{wrap(first, width)}\n\n{found}{more}"


def badcase_text(document: Document, name: str, width: int = 80) -> str:
    """The worst samples."""
    first = (
        f"{v.clean(name)} against its simulated program, march {v.clean(document['march'])}: "
        f"{v.several(document['samples'], 'sample')} ranked by {v.clean(document['metric'])}"
    )
    head = ["sample", "cosine", "SQNR dB", "mse", "l1", "max error", "file"]
    cells = [
        [
            str(r["sample"]),
            v.plain(r["cosine"], 6),
            v.plain(r["sqnr"], 1),
            *(_brief(r[k]) for k in ("mse", "l1", "max_abs")),
            v.clean(r["file"]),
        ]
        for r in v.records(document, "worst")
    ]
    return f"{wrap(first, width)}\n\n{table(head, cells, [True] * 6 + [False], width)}"


def _brief(value: Any) -> str:
    n = v.number(value)
    return v.NONE if n is None else f"{n:.3g}"


def _titled(title: str, body: str, width: int) -> str:
    return f"{wrap(title, width)}\n{body}"
