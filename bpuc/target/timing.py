"""Formulas that the latency model and the placement of ops share: amounts of work in, microseconds or cycles out.

They know neither ops nor instructions. Each grows, or stays, when an amount grows.
"""

from __future__ import annotations

import math

from bpuc.target.hardware import Hardware


def bpu_us(hw: Hardware, cycles: float, operand_bytes: float) -> float:
    """Busy time of a BPU engine: its own cycles, or those that its operands need to and from on-chip memory."""
    return max(cycles, operand_bytes / hw.sram_bytes_per_cycle) / hw.cycles_per_us


def mac_cycles(
    hw: Hardware, *, cin: int, cout: int, positions: int, taps: int = 1, group: int = 1, int16_operands: int = 0
) -> float:
    """Multiply-accumulates with all channel blocks filled, over the array's rate.

    Groups narrower than a block share it: the array then computes the whole block and the result keeps its diagonal,
    which is why a depthwise convolution costs as much as one with a block of input channels.
    """
    inner = min(cin, max(cin / group, hw.mac_out_block))
    padded = _up(inner, hw.mac_in_block if inner > 4 else 4) * _up(cout, hw.mac_out_block)
    factor = hw.mac_int16_factor**int16_operands
    return factor * taps * padded * _up(positions, hw.mac_pixel_block) / hw.mac_per_cycle_int8


def map_cycles(hw: Hardware, mac_cycles: float, *, pictures: int, rows: int, columns: int, pixel_bytes: int) -> float:
    """A convolution's cycles: those of the array, or those that storing its maps takes, picture by picture.

    The map of a picture is stored in blocks of `map_block_rows` by `map_block_columns` positions, the last ones filled
    up; where that is worth it, pictures are packed without gaps instead, at `pack_cycles` each.

    Args:
        rows, columns, pixel_bytes: of a result's map, and the bytes of all channels at one of its positions.
    """
    stored = pictures * pixel_bytes / hw.store_bytes_per_cycle
    apart = max(mac_cycles, stored * _up(rows, hw.map_block_rows) * _up(columns, hw.map_block_columns))
    packed = max(mac_cycles, stored * rows * columns) + pictures * hw.pack_cycles
    return pictures * hw.picture_cycles + min(apart, packed)


def cpu_us(hw: Hardware, flops: float, nbytes: float) -> float:
    """A float op on one core of the host, without the overhead of a node."""
    return max(flops / (hw.cpu_gflops * 1e3), nbytes / (hw.cpu_gb_per_s * 1e3))


def quantize_us(hw: Hardware, elements: float) -> float:
    """Floats to integers on one core of the host, change of layout included, without the overhead of a node."""
    return elements * hw.cpu_quantize_ns_per_elem * 1e-3


def dequantize_us(hw: Hardware, elements: float) -> float:
    """Integers to floats, likewise."""
    return elements * hw.cpu_dequantize_ns_per_elem * 1e-3


def _up(value: float, block: float) -> float:
    return math.ceil(value / block) * block
