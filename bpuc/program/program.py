"""What the compiler emits: instructions, memory, constants, CPU parts, and the map back to ONNX names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bpuc.base.dtypes import DType
from bpuc.base.image import ImageInput
from bpuc.isa import Device, Instruction, Ref
from bpuc.program.schedule import Schedule, operands_digest


@dataclass(frozen=True)
class Port:
    """An input or output of the model.

    ref: where the value lies, in the type that the model declares (float32 for images and logits).
    tensor: name of the `TensorSymbol` that holds its integers (what ``run --integers`` gives), else its own name.
    declared: element type that the ONNX file gives an input; a run takes it besides the type of `ref`.
    image: of an input that takes pixels, their format and what the float model takes for them.
    """

    name: str
    shape: tuple[int, ...]
    ref: Ref
    tensor: str
    declared: DType | None = None
    image: ImageInput | None = None


@dataclass(frozen=True)
class TensorSymbol:
    """Where a named tensor stands, and from when.

    at: index of the instruction after which the value is complete; -1 for what stands there from the start. The arena
    is reused, so it must be read before the next instruction writes over it.
    scale: real value of one step, one number or one per index of `axis`; None for tensors that are not quantized.
    """

    name: str
    ref: Ref
    at: int
    scale: tuple[float, ...] | None
    axis: int | None


@dataclass(frozen=True)
class OpSymbol:
    """An op of the report; several instructions may carry out one op."""

    name: str
    op: str
    segment: int
    onnx_nodes: tuple[str, ...]


@dataclass(frozen=True)
class Segment:
    """A run of instructions on one device: instructions[start:stop]."""

    id: int
    device: Device
    start: int
    stop: int


@dataclass
class Program:
    """A whole simulated binary in memory.

    arena_bytes: size of the activation memory. constants: the read-only memory that CONST operands point into.
    parts: ONNX models (serialized) that `CallOnnx` runs. report: all of report.json but the source path.
    certificates: what is proven of accumulating ops; the report has them, the file only there.
    schedule: how the instructions are carried out. Without one that is valid each runs whole, its operands in DDR.
    """

    march: str
    instructions: list[Instruction]
    arena_bytes: int
    constants: bytes
    parts: list[bytes]
    inputs: list[Port]
    outputs: list[Port]
    tensors: list[TensorSymbol]
    ops: list[OpSymbol]
    segments: list[Segment]
    report: dict[str, Any] = field(default_factory=dict)
    certificates: list[dict[str, Any]] = field(default_factory=list)
    schedule: Schedule | None = None

    def valid_schedule(self) -> Schedule | None:
        """The schedule, if it was made for the operands that the instructions have."""
        if self.schedule is None or self.schedule.digest != operands_digest(self.instructions):
            return None
        return self.schedule
