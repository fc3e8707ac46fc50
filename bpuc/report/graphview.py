"""The graph of a perf.json for the page: where each op stands and how the edges run, by the tensors that ops name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpuc.report.layout import layered
from bpuc.report.values import strings


def graph_data(ops: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Layer and row of each op, and the edges as [source, sink, [layer, row, layer, row...]] with the bends between.

    Ops without `inputs` and `outputs` (the overhead of calls) stand nowhere: both are None. In a document that does not
    wire its ops at all that is every op, and there is no edge.
    """
    makers: dict[str, int] = {}
    for i, op in enumerate(ops):
        makers.update(dict.fromkeys(strings(op.get("outputs")), i))
    edges = [(makers[t], i) for i, op in enumerate(ops) for t in strings(op.get("inputs")) if t in makers]
    wired = sorted({i for edge in edges for i in edge})
    number = {i: k for k, i in enumerate(wired)}
    layout = layered([(number[a], number[b]) for a, b in edges], len(wired))
    layer: list[int | None] = [None] * len(ops)
    row: list[float | None] = [None] * len(ops)
    for k, i in enumerate(wired):
        layer[i], row[i] = layout.layer[k], layout.row[k]
    return {
        "layer": layer,
        "row": row,
        "edges": [[wired[r.source], wired[r.sink], [x for p in r.points for x in p]] for r in layout.routes],
    }
