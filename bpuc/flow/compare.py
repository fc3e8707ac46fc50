"""``bpuc compare``: layer by layer, the integers of a program against the float model on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpuc.flow.calibrate import Progress
from bpuc.flow.difference import Difference
from bpuc.flow.floats import FloatModel, short
from bpuc.flow.side_by_side import SideBySide
from bpuc.ir import Graph, Tensor
from bpuc.passkit.channels import channel_axes
from bpuc.program import Program

SCHEMA = "bpuc.compare/1"
# A fall of the SQNR within one op that is worth a hint, in dB, and the SQNR from which up it is not: eight bits that
# are well used have about 40 dB.
FALL, GOOD = 6.0, 40.0
# tensors with detail by channel, and channels of each
DETAILED, CHANNELS = 10, 8


def compare(
    floats: FloatModel,
    program: Program,
    limit: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """The document and warnings.

    Args:
        limit: samples at most; None for all.

    Raises:
        DataError, ModelError: as `SideBySide`.
    """
    both = SideBySide(floats, program, layers=True, threads=threads)
    graph = floats.model.graph
    axes = {t.name: a for t, a in channel_axes(graph).items()}
    shapes = {t.name: t for t in (*graph.inputs, *(t for op in graph for t in op.outputs))}
    found = {n: Difference(axes.get(n, _channel_axis(shapes[n])), both.symbols.get(k)) for n, k in both.names.items()}
    samples = 0
    for run in both.run(limit, progress):
        samples += len(run.samples)
        for name, want, got in run.pairs:
            found[name].update(want, got)
    found = {n: d for n, d in found.items() if d.count or d.not_finite}
    rows = _rows(graph, program, both, found, shapes)
    worst = sorted(rows, key=lambda r: (r["sqnr"], r["index"]))[:DETAILED]
    document = {
        "schema": SCHEMA,
        "march": program.march,
        "simulated": True,
        "model_sha256": floats.model.sha256,
        "samples": samples,
        "tensors": rows,
        "outputs": [r["tensor"] for r in rows if r["output"] is not None],
        "channels": [
            {"tensor": r["tensor"], "axis": found[r["tensor"]].axis, "rows": c[:CHANNELS], "count": len(c)}
            for r in worst
            if len(c := found[r["tensor"]].channels()) > 1
        ],
        "hints": [{"tensor": r["tensor"], "text": r["hint"]} for r in rows if r["hint"]],
    }
    return document, [*floats.warnings, *both.warnings]


def _channel_axis(t: Tensor) -> int | None:
    return 1 if t.rank > 1 else None


def _rows(
    graph: Graph,
    program: Program,
    both: SideBySide,
    found: Mapping[str, Difference],
    shapes: Mapping[str, Tensor],
) -> list[dict[str, Any]]:
    said = [n for n in program.report.get("nodes", ()) if n.get("op") != "Dequantize"]
    nodes = {name: n for n in said for name in n.get("outputs", ())}
    shared = {name: len(g["tensors"]) - 1 for g in program.report.get("groups", ()) for name in g.get("tensors", ())}
    before = _before(graph, found)
    rows: list[dict[str, Any]] = []
    for index, (name, d) in enumerate(found.items()):
        t = shapes[name]
        symbol = both.symbols.get(both.names[name])
        producer = graph.producer(t)
        node = nodes.get(name, {})
        scale = None if symbol is None or symbol.scale is None else [*symbol.scale]
        inputs = [found[n].sqnr for n in before[name]]
        fall = min([GOOD, *inputs]) - d.sqnr
        row: dict[str, Any] = {
            "index": index,
            "tensor": name,
            "output": both.outputs.get(name),
            "op": "Input" if producer is None else producer.onnx_type,
            "node": None if producer is None else producer.name,
            "onnx_nodes": list(node.get("onnx_nodes", () if producer is None else producer.origin)),
            "device": None if producer is None else node.get("device"),
            "shape": list(t.shape),
            "dtype": str(t.dtype if symbol is None else symbol.ref.dtype),
            "scale": None if scale is None else scale[0] if len(scale) == 1 else scale,
            **d.metrics(),
            "own_sqnr": None if d.own_sqnr is None else short(d.own_sqnr),
            "clipped": short(d.clipped_share),
            "not_finite": d.not_finite,
            "fall": short(fall) if fall > 0 else 0.0,
            **d.moments(),
        }
        constants = [x for x in (() if producer is None else producer.inputs) if x is not None and x.const is not None]
        alone = len(row["onnx_nodes"]) < 2 and not any(x.dtype.is_float for x in constants)
        row["hint"] = _hint(row, d, shared.get(name, 0), alone) if fall >= FALL else None
        rows.append(row)
    return rows


def _before(graph: Graph, found: Mapping[str, Difference]) -> dict[str, list[str]]:
    """Compared tensor -> the compared tensors that it is computed from, across those in between that are fused."""
    seen: dict[str, list[str]] = {}  # any tensor -> what stands for it among the compared ones
    result: dict[str, list[str]] = {t.name: [] for t in graph.inputs}
    for t in graph.inputs:
        seen[t.name] = [t.name] if t.name in found else []
    for op in graph:
        sources = dict.fromkeys(n for t in op.inputs if t is not None for n in seen.get(t.name, ()))
        for t in op.outputs:
            result[t.name] = [*sources]
            seen[t.name] = [t.name] if t.name in found else [*sources]
    return result


def _hint(row: Mapping[str, Any], d: Difference, others: int, alone: bool) -> str:
    """Where the error that this op adds comes from, and what may help.

    Args:
        others: how many tensors share its scale. alone: whether the op has neither weights nor anything fused into it.
    """
    name = row["tensor"]
    head = f"{row['op']} falls by {row['fall']:.0f} dB to {row['sqnr']:.0f} dB: "
    own = row["own_sqnr"]
    if d.not_finite:
        return head + f"{d.not_finite} values are infinite or NaN in float or in integers"
    if own is not None and own - row["sqnr"] < 3.0:
        if d.clips:
            return (
                head + f"its scale clips {100 * d.clipped_share:.3g} % of the values; a wider threshold "
                f"(--observer-for {name}=min_max) or int16 (--dtype {name}=int16) keeps them"
            )
        if others:
            return (
                head + f"the values are small (root mean square {d.steps or 0.0:.2g} steps) beside a scale that it "
                f"shares with {others} more; --keep-scale {name} leaves it its own, int16 (--dtype {name}=int16) has "
                "finer steps"
            )
        return (
            head + f"the values are small beside the scale (root mean square {d.steps or 0.0:.2g} steps); "
            f"int16 (--dtype {name}=int16) or a smaller threshold (--observer-for {name}=mse) gives them more steps"
        )
    if own is None and not row["dtype"].startswith("float"):
        return head + "it gives whole numbers, which change where its operands are nearly equal"
    if row["device"] == "CPU":
        return head + "it runs in float on the CPU and amplifies the error of its operands"
    if alone:
        return head + "its own scale costs less than that; the error of its operands is large beside these values"
    return (
        head + "its own scale costs less than that; look at its operands, its weights and what was fused into it "
        f"({_several(row['onnx_nodes'])})"
    )


def _several(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") if names else "nothing"
