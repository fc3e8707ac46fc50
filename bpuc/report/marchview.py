"""A ``bpuc.perf-marches/1`` document turned into what its page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpuc.report import values as v
from bpuc.report.text import notes
from bpuc.report.view import parts


def marches_context(document: Mapping[str, Any], title: str) -> dict[str, Any]:
    """All that the template of the page reads: a row for each march, and the reasons of CPU ops by type."""
    rows: list[dict[str, Any]] = []
    reasons: list[dict[str, Any]] = []
    for m in v.records(document, "marches"):
        summary = m.get("summary")
        rows.append(
            {
                "march": m.get("march"),
                "chips": [v.clean(c) for c in v.strings(m.get("chips"))],
                "summary": summary,
                "error": m.get("error"),
                "accuracy": m.get("accuracy"),
                "cpu_ops": v.records(m, "cpu_ops"),
                "parts": parts(summary) if summary else [],
                "traffic": v.total([summary], "ddr_read_bytes") + v.total([summary], "ddr_write_bytes")
                if summary
                else None,
            }
        )
        reasons += [{"march": v.clean(m.get("march")), **kind} for kind in by_kind(v.records(m, "cpu_ops"))]
    given = document.get("given") or {}
    said = [f"given: {', '.join(f'{v.clean(k)} = {v.exact(x)}' for k, x in given.items())}"] if given else []
    said += dict.fromkeys(t for m in v.records(document, "marches") for t in notes(m))
    return {
        "title": v.clean(title),
        "notes": said,
        "marches": rows,
        "longest": max((sum(us for _, us, _ in r["parts"]) for r in rows), default=0.0) or 1.0,
        "reasons": reasons,
        "v": v,
    }


def by_kind(ops: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """CPU ops by type, the type of the costliest op first: count, time in us, and the reason of that op."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for o in sorted(ops, key=lambda o: -(v.number(o.get("latency_us")) or 0.0)):
        kinds.setdefault(v.clean(o.get("op")), []).append(o)
    return [
        {"op": kind, "count": len(alike), "us": v.total(alike, "latency_us"), "reason": alike[0].get("reason")}
        for kind, alike in kinds.items()
    ]
