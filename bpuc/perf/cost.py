"""Time that one instruction keeps its engine busy, from its decoded fields and the hardware numbers alone.

Every formula grows, or stays, when a dimension or a type grows: a bigger instruction is never a faster one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bpuc.isa import (
    CallOnnx,
    Conv,
    ConvTranspose,
    Dequantize,
    Device,
    Engine,
    Image,
    Instruction,
    Lut,
    MatMul,
    Move,
    Norm,
    Pool,
    Quantize,
    Ref,
    Rescale,
    Softmax,
    Space,
)
from bpuc.target import timing
from bpuc.target.hardware import Hardware, HardwareSource


def compute_us(ins: Instruction, hw: Hardware) -> float:
    """Busy time of the instruction's engine in microseconds, without DDR traffic and overhead."""
    if ins.device is Device.CPU:
        return _cpu_us(ins, hw)
    if isinstance(ins, Image) and ins.pyramid:
        return 0.0
    return timing.bpu_us(hw, _engine_cycles(ins, hw), operand_bytes(ins))


def rescale_us(elements: int, dtype_bytes: int, target: HardwareSource) -> float:
    """What one more Rescale of `elements` values of `dtype_bytes` bytes costs a frame, its data on chip.

    Used to weigh a rescale against a coarser scale before any program exists.
    """
    hw = Hardware.of(target)
    nbytes = elements * dtype_bytes
    return hw.instruction_us + timing.bpu_us(hw, nbytes / hw.move_bytes_per_cycle, 2 * nbytes)


def _engine_cycles(ins: Instruction, hw: Hardware) -> float:
    if not isinstance(ins, (Conv, ConvTranspose, MatMul)):
        return wide_elements(ins) / float(getattr(hw, rate_name(ins)))
    m = mac_amounts(ins)
    cycles = timing.mac_cycles(
        hw,
        cin=m.cin,
        cout=m.cout,
        positions=m.positions,
        taps=m.taps,
        group=m.group,
        int16_operands=m.int16_operands,
    )
    if not m.pictures:
        return cycles
    return timing.map_cycles(hw, cycles, pictures=m.pictures, rows=m.rows, columns=m.columns, pixel_bytes=m.pixel_bytes)


def rate_name(ins: Instruction) -> str:
    """The hardware number that says how many of `wide_elements` a unit other than the MAC array does in a cycle.

    A Rescale is a copy with a gain and costs what the copy costs: else one that writes into a joined tensor could be
    cheaper than the copy in its place.
    """
    if isinstance(ins, Rescale) or ins.work().engine is Engine.DMA:
        return "move_bytes_per_cycle"
    if isinstance(ins, Lut):
        return "lut_elems_per_cycle"
    if isinstance(ins, Pool):
        return "pool_elems_per_cycle"
    return "softmax_elems_per_cycle" if isinstance(ins, (Softmax, Norm)) else "vector_elems_per_cycle"


def engine(ins: Instruction) -> Engine:
    """The unit that is busy with the instruction: copies in order are the vector unit's, as a Rescale is."""
    return Engine.VECTOR if isinstance(ins, Move) and keeps_order(ins) else ins.work().engine


def wide_elements(ins: Instruction) -> int:
    """Elements of work, each counted once a byte of the widest operand in the arena."""
    return ins.work().elements * max((r.dtype.itemsize for r in (*_data(ins), *ins.writes())), default=1)


@dataclass(frozen=True)
class MacAmounts:
    """What an instruction asks of the MAC array; that of a convolution also as maps, pictures by rows by columns."""

    cin: int
    cout: int
    positions: int
    taps: int
    group: int
    int16_operands: int
    pictures: int = 0
    rows: int = 0
    columns: int = 0
    pixel_bytes: int = 0


def mac_amounts(ins: Conv | ConvTranspose | MatMul) -> MacAmounts:
    """The amounts of a product or a convolution."""
    if isinstance(ins, MatMul):
        cout = ins.y.shape[-1]
        return MacAmounts(ins.a.shape[-1], cout, ins.y.elements // max(cout, 1), 1, 1, _int16(ins.a, ins.b))
    spread = ins.y if isinstance(ins, Conv) else ins.x
    n, cout, *space = ins.y.shape
    return MacAmounts(
        cin=ins.x.shape[1],
        cout=cout,
        positions=spread.elements // max(spread.shape[1], 1),
        taps=math.prod(ins.w.shape[2:]),
        group=ins.group,
        int16_operands=_int16(ins.x, ins.w),
        pictures=n * math.prod(space[:-2]),
        rows=math.prod(space[-2:-1]),
        columns=space[-1],
        pixel_bytes=cout * ins.y.dtype.itemsize,
    )


def _int16(*operands: Ref) -> int:
    return sum(r.dtype.itemsize > 1 for r in operands)


def operand_bytes(ins: Instruction) -> int:
    """Bytes that pass between an engine and memory: operands in the arena and results."""
    return sum(r.nbytes for r in (*_data(ins), *ins.writes()))


def _data(ins: Instruction) -> list[Ref]:
    return [r for r in ins.reads() if r.space is Space.ARENA]


def keeps_order(move: Move) -> bool:
    """Whether a copy takes each element once and leaves all in their order: parts of Concat, Split and Slice.

    One of a single axis is that of a Reshape: the machine stores the channels of a position together, so its bytes
    change places. Axes of extent 1 put no condition, so a larger copy is never the simpler one.
    """
    axes = [a for a, d in enumerate(move.x.shape) if d > 1]
    x, y = (sorted(axes, key=lambda a: -abs(r.strides[a])) for r in (move.x, move.y))
    return len(move.x.shape) > 1 and x == y and all(move.x.strides[a] for a in axes)


def _cpu_us(ins: Instruction, hw: Hardware) -> float:
    elements = ins.work().elements
    if isinstance(ins, Quantize):
        return timing.quantize_us(hw, elements)
    if isinstance(ins, Dequantize):
        return timing.dequantize_us(hw, elements)
    flops = ins.flops if isinstance(ins, CallOnnx) else elements
    return timing.cpu_us(hw, flops, sum(ref.nbytes for _, ref in ins.operands()))
