"""Take the mean of the weights' rounding error out of the bias.

Rounded weights w' shift the mean result of channel k by E[sum (w' - w) x]. With the mean of every input channel known
from calibration, that is a sum over weights, and the bias takes it back; borders count as if there were none.
(M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019, section 4.2.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.ir import Graph, Op
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.channels import Floats, read_axis
from bpuc.passkit.rewrite import as_float32, set_const
from bpuc.passkit.weights import by_channel, by_input, from_input, rounded_weights, with_weights

# a smaller shift, in steps of the result, changes nothing
_LEAST = 1e-3


@dataclass(frozen=True)
class CorrectBias(Pass):
    """Biases of weighted ops, from effort 1 on, where calibration saw the mean of the operand's channels."""

    name = "correct-bias"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED
    refines = True

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        if ctx.options.effort < 1 or not ctx.options.bias_correction or ctx.layers is not None:
            return []
        changes = []
        for op in graph:
            if op.device != "BPU" or not with_weights(op):
                continue
            shift = weight_shift(op, ctx)
            if shift is not None:
                changes += shift_bias(graph, op, shift)
        return changes


def weight_shift(op: Op, ctx: PassContext, exact: Floats | None = None) -> Floats | None:
    """How much too low the rounded weights make each channel on average, or None where that is not known.

    Args:
        exact: the weights before they were rounded, where the op's are already.
    """
    mean = operand_mean(op, ctx)
    if mean is None:
        return None
    error = (op.input(1).value().astype(np.float64) if exact is None else exact) - rounded_weights(op)
    return np.asarray(by_channel(op, from_input(op, by_input(op, error) * mean[:, None, None])).sum(1))


def shift_bias(graph: Graph, op: Op, shift: Floats) -> list[Change]:
    """Add to the bias of an op, where that is more than a small part of a step of its result."""
    step = np.asarray(op.out.quant.scale) if op.out.quant is not None else np.ones(1)
    if not (np.abs(shift) > _LEAST * step).any():
        return []
    old = op.maybe(2)
    bias = shift if old is None else old.value().astype(np.float64) + shift
    set_const(graph, op, 2, as_float32(bias), f"{op.name}_bias")
    steps = float(np.abs(shift / step).max())
    return [Change("corrected bias", op.name, f"mean shift of up to {steps:.2f} steps of the result")]


def operand_mean(op: Op, ctx: PassContext) -> Floats | None:
    """Mean of each channel of operand 0 in the units that the weights expect, or None where it is not known."""
    x = op.input(0)
    seen = ctx.channels.get(x.name)
    if seen is None or x.quant is None or seen.axis != read_axis(op):
        return None
    # where channels have scales of their own, their ratio is in the weights
    return seen.mean * (x.quant.unit / np.asarray(x.quant.scale))
