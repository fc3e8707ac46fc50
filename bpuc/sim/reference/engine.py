"""Carries out a program instruction by instruction on real memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from bpuc.base.errors import FileError
from bpuc.isa import (
    ArgReduce,
    CallOnnx,
    Conv,
    ConvTranspose,
    Dequantize,
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
from bpuc.program import Program, TensorSymbol
from bpuc.sim.cpu import PartRunner
from bpuc.sim.engine import Array
from bpuc.sim.reference import border, conv, eltwise, image, lut, matmul, move, norm, pool, reduce, resize, softmax
from bpuc.sim.reference.memory import Memory

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

    Args:
        program: decoded and checked.
        threads: for the ONNX parts on the CPU.
        tensors: names of tensor symbols whose values `run` returns too.

    Raises:
        KeyError: a name in `tensors` is no tensor symbol.
    """

    def __init__(self, program: Program, threads: int | None = None, tensors: Collection[str] = ()):
        self._program = program
        self._memory = Memory(program.arena_bytes, program.constants)
        self._parts = PartRunner(program.parts, threads)
        symbols = {t.name: t for t in program.tensors}
        self._taps: dict[int, list[TensorSymbol]] = {}
        for name in tensors:
            self._taps.setdefault(symbols[name].at, []).append(symbols[name])

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """One inference; see `Engine.run`."""
        p, memory = self._program, self._memory
        memory.reset()
        for port in p.inputs:
            memory.view(port.ref)[...] = feeds[port.name].reshape(port.ref.shape)
        seen = self._tap(-1)
        for i, ins in enumerate(p.instructions):
            try:
                self._execute(ins)
            except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError) as e:
                op = p.ops[ins.op]
                raise FileError(
                    f"instruction {i} ({type(ins).__name__}) cannot be carried out: {e}",
                    where=f"{op.op} '{op.name}'",
                    hint="if the file comes from `bpuc compile`, this is a bug of bpuc: please report it",
                ) from e
            seen |= self._tap(i)
        outputs = {o.name: memory.view(o.ref).reshape(o.shape).copy() for o in p.outputs}
        return outputs | seen

    def _execute(self, ins: Instruction) -> None:
        memory = self._memory
        if isinstance(ins, CallOnnx):
            results = self._parts.run(ins.part, [memory.view(r).copy() for r in ins.inputs])
            for ref, value in zip(ins.results, results, strict=True):
                memory.write(ref, value)
        else:
            EXECUTE[type(ins)](ins, memory)

    def _tap(self, at: int) -> dict[str, Array]:
        return {t.name: np.array(self._memory.view(t.ref), order="C") for t in self._taps.get(at, ())}
