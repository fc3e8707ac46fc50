"""Carries out a program instruction by instruction on real memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from bpuc.base.errors import FileError
from bpuc.isa import (
    ArgReduce,
    CallOnnx,
    Conv,
    ConvTranspose,
    Dequantize,
    Device,
    Eltwise,
    Fill,
    Gather,
    Image,
    Instruction,
    Lut,
    MatMul,
    Move,
    Norm,
    Pool,
    Quantize,
    Reduce,
    Rescale,
    ResizeLinear,
    Softmax,
)
from bpuc.isa.tiling import stripe
from bpuc.program import Program
from bpuc.program.schedule import END, Do, Step
from bpuc.sim.cpu import PartRunner
from bpuc.sim.engine import Array
from bpuc.sim.reference import border, conv, eltwise, image, lut, matmul, move, norm, pool, reduce, resize, softmax
from bpuc.sim.reference.memory import Memory
from bpuc.sim.reference.probe import Probe

# CallOnnx is not here: it needs the program's parts
EXECUTE: dict[type[Instruction], Callable[[Any, Memory], None]] = {
    ArgReduce: reduce.arg_reduce,
    Conv: conv.conv,
    ConvTranspose: conv.conv_transpose,
    Dequantize: border.dequantize,
    Eltwise: eltwise.eltwise,
    Fill: move.fill,
    Gather: move.gather,
    Image: image.image,
    Lut: lut.lut,
    MatMul: matmul.matmul,
    Move: move.move,
    Norm: norm.norm,
    Pool: pool.pool,
    Quantize: border.quantize,
    Reduce: reduce.reduce,
    Rescale: eltwise.rescale,
    ResizeLinear: resize.resize_linear,
    Softmax: softmax.softmax,
}


class ReferenceEngine:
    """What a program computes, by definition; see `bpuc.sim.engine.Engine`.

    It follows the program's schedule step by step: windows on chip, transfers, stripes of instructions.

    Args:
        program: decoded and checked.
        threads: for the ONNX parts on the CPU.
        tensors: names of tensor symbols whose values `run` returns too.

    Raises:
        KeyError: a name in `tensors` is no tensor symbol.
    """

    def __init__(self, program: Program, threads: int | None = None, tensors: Collection[str] = ()):
        self._program = program
        schedule = program.valid_schedule()
        self._steps = schedule.steps if schedule else [Step(Do.RUN, -1, i) for i in range(len(program.instructions))]
        self.memory = Memory(
            program.arena_bytes,
            program.constants,
            schedule.windows if schedule else (),
            schedule.chip if schedule else None,
        )
        self.macs = 0
        self._parts = PartRunner(program.parts, threads)
        self._probe = Probe(program, tensors)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """One inference; see `Engine.run`. `memory` and `macs` then hold counts of what was moved and multiplied."""
        p, memory = self._program, self.memory
        memory.reset()
        self.macs = 0
        for port in p.inputs:
            memory.view(port.ref)[...] = feeds[port.name].reshape(port.ref.shape)
        self._probe.start(memory)
        for step in self._steps:
            try:
                self._carry_out(step)
            except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError, KeyError) as e:
                ins = p.instructions[step.ins]
                op = p.ops[ins.op]
                raise FileError(
                    f"instruction {step.ins} ({type(ins).__name__}) cannot be carried out: {e}",
                    where=f"{op.op} '{op.name}'",
                    hint="if the file comes from `bpuc compile`, this is a bug of bpuc: please report it",
                ) from e
        outputs = {o.name: memory.view(o.ref).reshape(o.shape).copy() for o in p.outputs}
        return outputs | self._probe.seen

    def _carry_out(self, step: Step) -> None:
        memory = self.memory
        if step.do is Do.HOLD:
            memory.hold(step.what, step.first, step.last)
        elif step.do is Do.LOAD:
            memory.load(step.what, step.first, step.last)
        elif step.do is Do.STORE:
            memory.store(step.what, step.first, step.last)
        elif step.do is Do.DROP:
            memory.drop(step.what)
        else:
            self._run(step)

    def _run(self, step: Step) -> None:
        ins = self._program.instructions[step.ins]
        if step.what >= 0:
            # an instruction that was edited to have fewer rows has empty stripes
            last = min(step.last, ins.writes()[0].shape[step.what])
            ins = stripe(ins, step.what, min(step.first, last), last)
        if all(0 not in r.shape for r in ins.writes()):
            self._execute(ins)
        self._probe.ran(self.memory, step.ins, ins, step.what < 0 or step.last == END)

    def _execute(self, ins: Instruction) -> None:
        memory = self.memory
        if isinstance(ins, CallOnnx):
            results = self._parts.run(ins.part, [memory.view(r).copy() for r in ins.inputs])
            for ref, value in zip(ins.results, results, strict=True):
                memory.write(ref, value)
            return
        EXECUTE[type(ins)](ins, memory)
        if ins.device is Device.BPU:
            self.macs += ins.work().macs
            for write, refs in ((False, ins.reads()), (True, ins.writes())):
                for ref in refs:
                    memory.stream(ref, write)
