"""The rules of each stage, checked after every pass."""

from __future__ import annotations

from bpuc.ir import Graph, Op
from bpuc.ir.verify import VerifyError, verify_wiring
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit.base import Stage
from bpuc.passkit.scales import operand_quant


def verify(graph: Graph, stage: Stage, after: str = "") -> None:
    """Check wiring, then the rules of the stage that the graph has reached.

    PLACED: every op has a device. QUANTIZED: operands and results of BPU ops have a scale or are constant.
    LEGAL: besides, an op that moves values gives the scale that it takes.

    Raises:
        VerifyError: naming the op and the pass it was found after.
    """
    verify_wiring(graph, after)
    for op in graph:
        problem = _problem(op, stage)
        if problem:
            raise VerifyError(f"{op.name} ({op.kind}): {problem} (after pass {after})")


def _problem(op: Op, stage: Stage) -> str:
    definition = get(op.kind)
    if stage is Stage.IMPORTED and definition.behaviour is not Behaviour.BORDER:
        shapes = [tuple(s) for s in definition.infer(op)]
        if shapes != [t.shape for t in op.outputs]:
            return f"shapes {[t.shape for t in op.outputs]}, inferred {shapes}"
    if stage >= Stage.PLACED and op.device not in ("BPU", "CPU"):
        return f"no device ({op.device!r})"
    if stage >= Stage.QUANTIZED and op.device == "BPU":
        for tensor in op.outputs:
            if tensor.dtype.value in ("int8", "int16") and tensor.quant is None:
                return f"result {tensor.name} has no scale"
        for operand in op.inputs:
            if operand is not None and operand.const is None and operand.dtype.is_float:
                return f"operand {operand.name} is {operand.dtype}"
    if stage >= Stage.LEGAL and op.device == "BPU" and definition.behaves(op) is Behaviour.MOVES:
        values = [t for t in (*op.inputs, *op.outputs) if t is not None and t.quant is not None]
        if not _one_scale(op):
            return "moves values between different scales: " + ", ".join(f"{t.name} {t.quant}" for t in values)
    return ""


def _one_scale(op: Op) -> bool:
    """Whether every value that the op moves keeps its scale, channel by channel where scales differ by channel."""
    for index, operand in enumerate(op.inputs):
        for out in op.outputs:
            if operand is None or operand.quant is None or out.quant is None:
                continue
            want = operand_quant(op, index)
            if want is not None and (want.dtype, want.scale) != (operand.quant.dtype, operand.quant.scale):
                return False
    return True
