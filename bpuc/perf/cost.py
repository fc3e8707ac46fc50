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
from bpuc.perf.hardware import Hardware, HardwareSource


def compute_us(ins: Instruction, hw: Hardware) -> float:
    """Busy time of the instruction's engine in microseconds, without DDR traffic and overhead."""
    if ins.device is Device.CPU:
        return _cpu_us(ins, hw)
    return max(_engine_cycles(ins, hw), _operand_cycles(ins, hw)) / hw.cycles_per_us


def rescale_us(elements: int, dtype_bytes: int, target: HardwareSource) -> float:
    """What one more Rescale of `elements` values of `dtype_bytes` bytes costs a frame, its data on chip.

    Used to weigh a rescale against a coarser scale before any program exists.
    """
    hw = Hardware.of(target)
    engine = elements * dtype_bytes / hw.vector_elems_per_cycle
    operands = 2 * elements * dtype_bytes / hw.sram_bytes_per_cycle
    return hw.instruction_us + max(engine, operands) / hw.cycles_per_us


def _engine_cycles(ins: Instruction, hw: Hardware) -> float:
    if isinstance(ins, (Conv, ConvTranspose, MatMul)):
        return _mac_cycles(ins, hw)
    work = ins.work()
    width = max((r.dtype.itemsize for r in (*_data(ins), *ins.writes())), default=1)
    if work.engine is Engine.DMA:
        rate = hw.transpose_bytes_per_cycle if isinstance(ins, Move) and _scatters(ins) else hw.move_bytes_per_cycle
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
    """MACs with all channel blocks filled, over the array's rate.

    Groups narrower than a block share it: the array then computes the whole block and the result keeps its diagonal,
    which is why a depthwise convolution costs as much as one with a block of input channels.
    """
    if isinstance(ins, MatMul):
        wide, taps, group = (ins.a, ins.b), 1, 1
        cin, cout = ins.a.shape[-1], ins.y.shape[-1]
        pixels = ins.y.elements // max(cout, 1)
    else:
        wide, group = (ins.x, ins.w), ins.group
        taps = math.prod(ins.w.shape[2:])
        cin, cout = ins.x.shape[1], ins.y.shape[1]
        spread = ins.y if isinstance(ins, Conv) else ins.x
        pixels = spread.elements // max(spread.shape[1], 1)
    inner = min(cin, max(cin / group, hw.mac_out_block))
    padded = _up(inner, hw.mac_in_block if inner > 4 else 4) * _up(cout, hw.mac_out_block)
    factor = math.prod(hw.mac_int16_factor for r in wide if r.dtype.itemsize > 1)
    return factor * taps * padded * _up(pixels, hw.mac_pixel_block) / hw.mac_per_cycle_int8


def _operand_cycles(ins: Instruction, hw: Hardware) -> float:
    """Cycles to carry the activations of an instruction between on-chip memory and its engine."""
    return sum(r.nbytes for r in (*_data(ins), *ins.writes())) / hw.sram_bytes_per_cycle


def _data(ins: Instruction) -> list[Ref]:
    return [r for r in ins.reads() if r.space is Space.ARENA]


def _scatters(move: Move) -> bool:
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
        return elements * hw.cpu_quantize_ns_per_elem * 1e-3
    if isinstance(ins, Dequantize):
        return elements * hw.cpu_dequantize_ns_per_elem * 1e-3
    flops = ins.flops if isinstance(ins, CallOnnx) else elements
    nbytes = sum(ref.nbytes for _, ref in ins.operands())
    return max(flops / (hw.cpu_gflops * 1e3), nbytes / (hw.cpu_gb_per_s * 1e3))


def _up(value: float, block: float) -> float:
    return math.ceil(value / block) * block
