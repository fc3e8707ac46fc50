"""What an op costs on the CPU and on the BPU, and what it costs to cross from one to the other, in microseconds.

Estimates from shapes and the target's hardware numbers, before any instruction exists: the same formulas as the
latency model's (`bpuc.target.timing`), with int8 activations and everything that stays on the BPU on chip. Views that
lowering would save and DDR traffic inside a segment are not in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bpuc.ir import Op, Tensor
from bpuc.ops.attrs import (
    AffineAttrs,
    ConvAttrs,
    MatMulAttrs,
    PoolAttrs,
    ResizeAttrs,
    TableAttrs,
)
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.target import timing
from bpuc.target.hardware import Hardware

# Float operations of one value, counted for NEON without a library of its own: polynomial, range reduction, division.
_TRANSCENDENTAL = 20
_CHEAP = frozenset(
    ("Relu", "Clip", "LeakyRelu", "PRelu", "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "ThresholdedRelu", "Shrink",
     "HardSigmoid", "HardSwish", "Add", "Sub", "Mul", "Div", "Max", "Min", "Sqrt", "Reciprocal", "Softsign")
)  # fmt: skip
# visits of an element by the instruction (`bpuc.isa`)
_NORM_VISITS = 5
_RESIZE_VISITS = 4


@dataclass(frozen=True)
class OpCost:
    """The costs on one march."""

    hw: Hardware

    def cpu_us(self, op: Op) -> float:
        """As a node of the host: overhead, then float operations or bytes, whichever takes longer."""
        data = dict.fromkeys(t for t in op.inputs if t is not None and t.const is None)
        nbytes = sum(t.elements * t.dtype.itemsize for t in (*data, *op.outputs))
        return self.hw.cpu_node_overhead_us + timing.cpu_us(self.hw, flops(op), nbytes)

    def bpu_us(self, op: Op) -> float:
        """As instructions of the BPU, in int8."""
        data = [t for t in op.inputs if t is not None and t.const is None]
        seen = op.outputs if op.kind == "Slice" else data  # of a Slice's operand only what becomes its result
        nbytes = sum(t.elements * (1 if t.dtype.is_float else t.dtype.itemsize) for t in (*seen, *op.outputs))
        count = len(data) if op.kind == "Concat" else len(op.outputs)
        return count * self.hw.instruction_us + timing.bpu_us(self.hw, _cycles(op, self.hw), nbytes)

    def quantize_us(self, tensor: Tensor) -> float:
        """A float tensor of the host to integers that the BPU loads; other types go as they are."""
        return self._cross(tensor, timing.quantize_us(self.hw, tensor.elements))

    def dequantize_us(self, tensor: Tensor) -> float:
        """Integers that the BPU stores to a float tensor of the host."""
        return self._cross(tensor, timing.dequantize_us(self.hw, tensor.elements))

    @property
    def call_us(self) -> float:
        """One more run of the BPU within a frame."""
        return self.hw.submit_us + self.hw.call_us

    def _cross(self, tensor: Tensor, convert: float) -> float:
        if not tensor.dtype.is_float:
            return self.hw.ddr_us(tensor.elements * tensor.dtype.itemsize)
        return self.hw.cpu_node_overhead_us + convert + self.hw.ddr_us(tensor.elements)


def flops(op: Op) -> int:
    """Rough number of float operations: exact for products, a few each value where a function has to be evaluated."""
    made = sum(t.elements for t in op.outputs)
    seen = max((t.elements for t in op.inputs if t is not None), default=0)
    if isinstance(op.attrs, ConvAttrs):
        base = op.input(0).elements if op.kind == "ConvTranspose" else made
        return 2 * base * math.prod(op.input(1).shape[1:])
    if isinstance(op.attrs, MatMulAttrs):
        return 2 * made * op.input(0).shape[-1]
    if isinstance(op.attrs, PoolAttrs):
        return made * math.prod(op.attrs.kernel)
    if isinstance(op.attrs, TableAttrs):
        return made * sum(_weight(s.fn) for s in op.attrs.steps)
    if isinstance(op.attrs, ResizeAttrs) and op.attrs.mode != "nearest":
        return 2 * _RESIZE_VISITS * made
    if op.kind == "Softmax":
        return (_TRANSCENDENTAL + _NORM_VISITS) * made
    if op.kind in ("LayerNormalization", "InstanceNormalization"):
        return 2 * _NORM_VISITS * made
    if get(op.kind).behaves(op) is Behaviour.MAPS:
        return made * _weight(op.kind)
    return max(made, seen)


def _weight(function: str) -> int:
    return 1 if function in _CHEAP else _TRANSCENDENTAL


def _cycles(op: Op, hw: Hardware) -> float:
    """Cycles of the engine that carries the op out."""
    attrs, made, seen = op.attrs, sum(t.elements for t in op.outputs), op.input(0).elements
    if isinstance(attrs, ConvAttrs | MatMulAttrs | AffineAttrs):
        return _mac_cycles(op, hw)
    if isinstance(attrs, PoolAttrs):
        return made * math.prod(attrs.kernel) / hw.pool_elems_per_cycle
    if op.kind in ("Softmax", "LayerNormalization", "InstanceNormalization"):
        return _NORM_VISITS * seen / hw.softmax_elems_per_cycle
    if isinstance(attrs, ResizeAttrs) and attrs.mode != "nearest":
        return _RESIZE_VISITS * made / hw.vector_elems_per_cycle
    if op.kind.startswith("Reduce"):
        return seen / hw.vector_elems_per_cycle
    if op.kind in ("ArgMax", "ArgMin"):
        # an index is wider than what it is found in, and sets the width of the visits
        return seen * op.out.dtype.itemsize / hw.vector_elems_per_cycle
    behaviour = get(op.kind).behaves(op)
    if behaviour is Behaviour.MAPS:
        return made / hw.lut_elems_per_cycle
    if behaviour is Behaviour.MOVES and op.kind not in ("Max", "Min"):
        return made / hw.move_bytes_per_cycle
    return made / hw.vector_elems_per_cycle


def _mac_cycles(op: Op, hw: Hardware) -> float:
    x, y, attrs = op.input(0), op.out, op.attrs
    if isinstance(attrs, AffineAttrs):
        channels = x.shape[attrs.axis]
        return timing.mac_cycles(
            hw, cin=channels, cout=channels, group=channels, positions=x.elements // max(channels, 1)
        )
    if isinstance(attrs, ConvAttrs):
        spread = x if op.kind == "ConvTranspose" else y
        cycles = timing.mac_cycles(
            hw,
            cin=x.shape[1],
            cout=y.shape[1],
            group=attrs.group,
            positions=spread.elements // max(spread.shape[1], 1),
            taps=math.prod(op.input(1).shape[2:]),
        )
        n, channels, *space = y.shape
        return timing.map_cycles(
            hw,
            cycles,
            pictures=n * math.prod(space[:-2]),
            rows=math.prod(space[-2:-1]),
            columns=space[-1],
            pixel_bytes=channels,
        )
    return timing.mac_cycles(hw, cin=x.shape[-1], cout=y.shape[-1], positions=y.elements // max(y.shape[-1], 1))
