"""A machine with round numbers and small programs for it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from bpuc.base.dtypes import DType
from bpuc.isa import (
    Conv,
    Dequantize,
    Instruction,
    Quantize,
    Ref,
    Rescale,
    Space,
    contiguous_strides,
)
from bpuc.program import OpSymbol, Port, Program, Segment
from bpuc.target.model import Quantity, Target

NUMBERS = {
    "clock_mhz": 100.0, "cores": 2.0, "mac_per_cycle_int8": 1000.0, "mac_in_block": 8.0, "mac_out_block": 8.0,
    "mac_pixel_block": 4.0, "mac_int16_factor": 2.0, "vector_elems_per_cycle": 10.0, "lut_elems_per_cycle": 5.0,
    "pool_elems_per_cycle": 20.0, "softmax_elems_per_cycle": 2.0, "move_bytes_per_cycle": 8.0,
    "sram_bytes_per_cycle": 1e9, "ddr_gb_per_s": 1.0, "sram_bytes": 1e9,
    "channel_align": 8.0, "channel_block": 8.0, "spill_slope": 1.0, "constant_buffer_bytes": 1e9,
    "tiles": 1.0, "load_tiles": 1.0, "prefetch_ops": 1.0, "instruction_us": 3.0, "call_us": 50.0,
    "submit_us": 70.0, "cpu_cores": 4.0, "cpu_node_overhead_us": 10.0, "cpu_quantize_ns_per_elem": 2.0,
    "cpu_dequantize_ns_per_elem": 4.0, "cpu_gflops": 1.0, "cpu_gb_per_s": 1.0,
}  # fmt: skip


def target(**changes: float) -> Target:
    """The machine above, with some numbers changed."""
    hardware = {k: Quantity(v, "unit", "assumed", "test") for k, v in {**NUMBERS, **changes}.items()}
    return Target("bayes-e", "bayes", (), "", MappingProxyType(hardware), True, True, {}, (), {})


def dense(address: int, shape: tuple[int, ...], dtype: DType = DType.INT8, space: Space = Space.ARENA) -> Ref:
    return Ref(space, dtype, address, shape, contiguous_strides(shape, dtype.itemsize))


class Builder:
    """Lays tensors out one behind the other and instructions one op each."""

    def __init__(self) -> None:
        self.top = {Space.ARENA: 0, Space.CONST: 0}
        self.instructions: list[Instruction] = []
        self.ops: list[tuple[str, str]] = []

    def new(self, *shape: int, dtype: DType = DType.INT8, space: Space = Space.ARENA) -> Ref:
        ref = dense(self.top[space], shape, dtype, space)
        self.top[space] += ref.nbytes
        return ref

    def add(self, name: str, kind: str, ins: Instruction) -> Ref:
        self.instructions.append(ins)
        self.ops.append((name, kind))
        return ins.writes()[-1]

    @property
    def op(self) -> int:
        return len(self.ops)

    def quantize(self, name: str, x: Ref) -> Ref:
        y = self.new(*x.shape)
        return self.add(name, "Quantize", Quantize(op=self.op, x=x, y=y, scale=0.1, lo=-128, hi=127))

    def dequantize(self, name: str, x: Ref) -> Ref:
        y = self.new(*x.shape, dtype=DType.FLOAT32)
        scale = self.new(1, dtype=DType.FLOAT64, space=Space.CONST)
        return self.add(name, "Dequantize", Dequantize(op=self.op, x=x, scale=scale, y=y, axis=-1))

    def conv(self, name: str, x: Ref, channels: int, kernel: int = 3, group: int = 1, dtype: DType = DType.INT8) -> Ref:
        n, c, h, w = x.shape
        weights = self.new(channels, c // group, kernel, kernel, space=Space.CONST)
        pad = kernel // 2
        y = self.new(n, channels, h, w, dtype=dtype)
        ins = Conv(op=self.op, x=x, w=weights, y=y, strides=(1, 1), pads=(pad,) * 4, dilations=(1, 1), group=group,
                   lo=-128, hi=127)  # fmt: skip
        return self.add(name, "Conv", ins)

    def rescale(self, name: str, x: Ref) -> Ref:
        y = self.new(*x.shape, dtype=x.dtype)
        return self.add(name, "Rescale", Rescale(op=self.op, x=x, y=y, mult=1, shift=1, lo=-128, hi=127))

    def program(self, inputs: list[Ref], outputs: list[Ref], report: dict[str, Any] | None = None) -> Program:
        segments: list[Segment] = []
        for i, ins in enumerate(self.instructions):
            if segments and segments[-1].device is ins.device:
                segments[-1] = Segment(segments[-1].id, ins.device, segments[-1].start, i + 1)
            else:
                segments.append(Segment(len(segments), ins.device, i, i + 1))
        home = {i: s.id for s in segments for i in range(s.start, s.stop)}
        return Program(
            march="bayes-e",
            instructions=self.instructions,
            arena_bytes=self.top[Space.ARENA],
            constants=bytes(self.top[Space.CONST]),
            parts=[],
            inputs=[Port(f"x{i}", r.shape, r, f"x{i}") for i, r in enumerate(inputs)],
            outputs=[Port(f"y{i}", r.shape, r, f"y{i}") for i, r in enumerate(outputs)],
            tensors=[],
            ops=[OpSymbol(name, kind, home.get(i, 0), (name,)) for i, (name, kind) in enumerate(self.ops)],
            segments=segments,
            report=report or {},
        )


def chain(channels: int = 16, size: int = 8, rescales: int = 0, report: dict[str, Any] | None = None) -> Program:
    """Quantize, Conv 8 to `channels`, Rescales, Conv to 8, Dequantize, on `size` x `size` maps."""
    b = Builder()
    x = b.new(1, 8, size, size, dtype=DType.FLOAT32)
    t = b.conv("conv1", b.quantize("quant", x), channels)
    for i in range(rescales):
        t = b.rescale(f"rescale{i}", t)
    y = b.dequantize("dequant", b.conv("conv2", t, 8))
    return b.program([x], [y], report)
