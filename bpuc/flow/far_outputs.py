"""Warn of outputs that the integers leave far from float, and name the op where most is lost.

What is looked at are the two graphs side by side on calibration samples, which run from effort 1 on for the sake of the
biases (`bpuc.calibrate.twin`), so that nothing runs for the warning alone. The samples are those that the biases were
corrected on: other data are a little worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bpuc.base.dtypes import DType
from bpuc.calibrate.twin import Error
from bpuc.flow.difference import decibel
from bpuc.ir import Graph, Op, Tensor
from bpuc.passkit import PassContext

# SQNR in dB below which an output is told of, in a gap of what was measured: of 25 real models (docs/accuracy.md) three
# have a part at 3.0 to 12.5 dB, all others 16.5 dB or more
FAR_DB = 15.0
# What eight bits that are well used have, in dB: what operands have beyond that is no loss of the op. An op of which
# rounding to the result's own scale is this part of the error is helped by wider results, else by wider operands.
_GOOD, _OWN = 40.0, 0.5
# an output that these ops put together is as good as the worst of its parts: boxes do not hide scores beside them
_JOINS = ("Concat", "Reshape", "Transpose")


@dataclass(frozen=True)
class _Loss:
    """Where the SQNR falls most: at `op`, in dB from that of its worst operand to that of its result."""

    op: Op
    result: Tensor
    before: float
    after: float


def tell_far_outputs(graph: Graph, ctx: PassContext, errors: Mapping[str, Error]) -> None:
    """Add a warning for each output with a part below `FAR_DB`.

    Args:
        graph: placed and scaled. errors: of the results of all ops, by name, from `Twin.walk`.
    """
    for t, name in zip(graph.outputs, graph.output_names):
        found = {p: _sqnr(e) for p in _parts(graph, t) if (e := errors.get(p.name)) is not None and e.power > 0}
        part = min(found, key=lambda p: found[p], default=None)
        if part is None or found[part] >= FAR_DB:
            continue
        loss = _worst(graph, part, errors)
        if loss is not None:
            which = name if part is t else f"the part of {name} that {part.name} gives"
            ctx.warn("far-output", _message(graph, ctx, which, found[part], loss, errors), name)


def _message(graph: Graph, ctx: PassContext, which: str, sqnr: float, loss: _Loss, errors: Mapping[str, Error]) -> str:
    text = (
        f"{which} has an SQNR of {sqnr:.1f} dB against float on calibration data (below {FAR_DB:.0f} dB); "
        f"most is lost at {loss.op.name} ({loss.op.onnx_type}), from {loss.before:.1f} to {loss.after:.1f} dB; "
        "what helps: "
    )
    remedies = ["--effort 3"] if ctx.options.effort < 3 else []
    wider = " ".join(f"--dtype {n}=int16" for n in _wider(graph, ctx, loss, errors))
    remedies += [wider] if wider else []
    remedies += ["a larger --max-latency-loss"] if ctx.int16_budget < 1 else []
    return text + " or ".join(remedies or [f"--run-on-cpu {loss.op.name}"])


def _wider(graph: Graph, ctx: PassContext, loss: _Loss, errors: Mapping[str, Error]) -> list[str]:
    """The int8 tensors that cost most at the op: its result, or else the nearest before it; none without int16."""
    if not ctx.need_target().int16_activations:
        return []
    error = errors[loss.result.name]
    near = [loss.result] if error.own >= _OWN * error.noise else _operands(loss.op)
    seen = {*near}
    while near:
        narrow = [t.name for t in near if t.quant is not None and t.quant.dtype is DType.INT8]
        if narrow:
            return list(dict.fromkeys(narrow))
        makers = [op for t in near if (op := graph.producer(t)) is not None]
        near = [t for t in dict.fromkeys(t for op in makers for t in _operands(op)) if t not in seen]
        seen.update(near)
    return []


def _operands(op: Op) -> list[Tensor]:
    return [t for t in op.inputs if t is not None and t.const is None]


def _sqnr(error: Error) -> float:
    return decibel(error.power, error.noise)


def _parts(graph: Graph, t: Tensor) -> list[Tensor]:
    """What `_JOINS` put an output together from."""
    op = graph.producer(t)
    if op is None or op.kind not in _JOINS:
        return [t]
    return list(dict.fromkeys(p for x in _operands(op) for p in _parts(graph, x)))


def _worst(graph: Graph, tensor: Tensor, errors: Mapping[str, Error]) -> _Loss | None:
    """The op before a tensor at which most is lost, the last of several; None where none is."""
    found: _Loss | None = None
    needed = {tensor}
    for op in reversed(list(graph)):
        results = [t for t in op.outputs if t in needed and t.name in errors]
        operands = _operands(op)
        if needed & {*op.outputs}:
            needed.update(operands)
        before = min([_GOOD, *(_sqnr(errors[t.name]) for t in operands if t.name in errors)])
        for t in results:
            after = _sqnr(errors[t.name])
            if before > after and (found is None or before - after > found.before - found.after):
                found = _Loss(op, t, before, after)
    return found
