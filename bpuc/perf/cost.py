"""Time that one instruction keeps its engine busy, from its decoded fields and the hardware numbers alone.

Every formula grows, or stays, when a dimension or a type grows: a bigger instruction is never a faster one.
"""

from __future__ import annotations

import math

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
    return hw.instruction_us + timing.bpu_us(hw, nbytes / hw.vector_elems_per_cycle, 2 * nbytes)


def _engine_cycles(ins: Instruction, hw: Hardware) -> float:
    if isinstance(ins, (Conv, ConvTranspose, MatMul)):
        return _mac_cycles(ins, hw)
    work = ins.work()
    width = max((r.dtype.itemsize for r in (*_data(ins), *ins.writes())), default=1)
    if work.engine is Engine.DMA:
        rate = hw.transpose_bytes_per_cycle if isinstance(ins, Move) and scatters(ins) else hw.move_bytes_per_cycle
        return work.elements * width / rate
    rate = hw.vector_elems_per_cycle
    if isinstance(ins, Lut):
        rate = hw.lut_elems_per_cycle
    elif isinstance(ins, Pool):
        rate = hw.pool_elems_per_cycle
    elif isinstance(ins, (Softmax, Norm)):
        rate = hw.softmax_elems_per_cycle
    return work.elements * width / rate


def _mac_cycles(ins: Conv | ConvTranspose | MatMul, hw: Hardware) -> float:
    if isinstance(ins, MatMul):
        wide, taps, group = (ins.a, ins.b), 1, 1
        cin, cout = ins.a.shape[-1], ins.y.shape[-1]
        positions = ins.y.elements // max(cout, 1)
    else:
        wide, group = (ins.x, ins.w), ins.group
        taps = math.prod(ins.w.shape[2:])
        cin, cout = ins.x.shape[1], ins.y.shape[1]
        spread = ins.y if isinstance(ins, Conv) else ins.x
        positions = spread.elements // max(spread.shape[1], 1)
    int16 = sum(r.dtype.itemsize > 1 for r in wide)
    return timing.mac_cycles(hw, cin=cin, cout=cout, positions=positions, taps=taps, group=group, int16_operands=int16)


def operand_bytes(ins: Instruction) -> int:
    """Bytes that pass between an engine and memory: operands in the arena and results."""
    return sum(r.nbytes for r in (*_data(ins), *ins.writes()))


def _data(ins: Instruction) -> list[Ref]:
    return [r for r in ins.reads() if r.space is Space.ARENA]


def scatters(move: Move) -> bool:
    """Whether a copy tears neighbouring bytes apart.

    One between channels-first and channels-last order does not: the machine stores the channels of a position together
    in both, so it only renames the axes. In strides that is a rotation of the axes by one, the batch axis left out.
    """
    axes = [a for a, d in enumerate(move.x.shape) if d > 1 and move.x.strides[a] and move.y.strides[a]]
    x, y = (sorted(axes, key=lambda a: -abs(r.strides[a])) for r in (move.x, move.y))
    if x[:1] == y[:1] == [0]:
        x, y = x[1:], y[1:]
    return y not in (x, x[1:] + x[:1], x[-1:] + x[:-1])


def _cpu_us(ins: Instruction, hw: Hardware) -> float:
    elements = ins.work().elements
    if isinstance(ins, Quantize):
        return timing.quantize_us(hw, elements)
    if isinstance(ins, Dequantize):
        return timing.dequantize_us(hw, elements)
    flops = ins.flops if isinstance(ins, CallOnnx) else elements
    return timing.cpu_us(hw, flops, sum(ref.nbytes for _, ref in ins.operands()))
