"""What happens on the host CPU: conversions at the borders and the ONNX parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bpuc.isa.core import Device, Engine, Instruction, Ref, Work


@dataclass(frozen=True, kw_only=True)
class Quantize(Instruction):
    """``y = clamp(floor(x / scale + 0.5), lo, hi)`` in float64; x float32, y int8 or int16; NaN gives 0."""

    opcode = 16
    device: ClassVar[Device] = Device.CPU
    x: Ref
    y: Ref
    scale: float
    lo: int
    hi: int

    def work(self) -> Work:
        return Work(Engine.CPU, elements=self.y.elements)


@dataclass(frozen=True, kw_only=True)
class Dequantize(Instruction):
    """``y = float32(float64(x) * scale)``; x int8, int16 or int32; y float32.

    scale float64 [1], or [C] along `axis`.
    """

    opcode = 17
    device: ClassVar[Device] = Device.CPU
    x: Ref
    scale: Ref
    y: Ref
    axis: int

    def work(self) -> Work:
        return Work(Engine.CPU, elements=self.y.elements)


@dataclass(frozen=True, kw_only=True)
class CallOnnx(Instruction):
    """Run ONNX part number `part` of the program on the CPU; inputs and outputs in the part's own order."""

    opcode = 18
    device: ClassVar[Device] = Device.CPU
    outputs: ClassVar[tuple[str, ...]] = ("results",)
    inputs: tuple[Ref, ...]
    results: tuple[Ref, ...]
    part: int
    flops: int

    def work(self) -> Work:
        return Work(Engine.CPU, macs=0, elements=sum(r.elements for r in self.results))
